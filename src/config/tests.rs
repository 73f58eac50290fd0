mod shipped;
mod sources;
mod values;
mod wrong;

use std::path::Path;

use super::*;

fn strategies(text: &str) -> Result<(), String> {
    let known = ["random", "least-request", "load-balance", "prefix-cache"];
    for item in text.split(',') {
        let name = item.split(':').next().unwrap_or_default();
        if !known.contains(&name) {
            return Err(format!(
                "{name:?} is unknown; allowed: {}",
                known.join(", ")
            ));
        }
    }
    Ok(())
}

fn environment(variables: &[(&str, &str)]) -> Environment {
    variables
        .iter()
        .map(|(name, value)| ((*name).into(), (*value).into()))
        .collect()
}

fn load_with(
    text: &str,
    pods: &[&str],
    variables: &[(&str, &str)],
) -> Result<Config, ConfigErrors> {
    let pods: Vec<String> = pods.iter().map(ToString::to_string).collect();
    Config::load(Sources {
        file: Some(SourceFile {
            path: Path::new("warmgate.yaml"),
            text,
        }),
        pods: &pods,
        environment: &environment(variables),
        strategy: &strategies,
    })
}

fn load(text: &str) -> Result<Config, ConfigErrors> {
    load_with(text, &[], &[])
}

#[test]
fn the_smallest_file_has_everything_else_at_its_default() {
    let config = load(include_str!("../../conf/minimal.yaml")).unwrap();
    let names: Vec<_> = config.pods.iter().map(|pod| pod.name.as_str()).collect();
    assert_eq!(names, ["10.0.0.11:8000", "10.0.0.12:8000"]);
    let defaults = Config {
        pods: config.pods.clone(),
        ..Config::default()
    };
    assert_eq!(config, defaults);
}
