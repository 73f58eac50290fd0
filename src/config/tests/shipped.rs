//! The files of `conf/` and the documentation say what the code does.

use super::*;

const FULL: &str = include_str!("../../../conf/full.yaml");
const DOCUMENT: &str = include_str!("../../../docs/configuration.md");
const ENVIRONMENT: &str = include_str!("../../../docs/environment.md");

#[test]
fn every_file_of_conf_loads() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("conf");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        if let Err(errors) = load(&text) {
            panic!("{}:\n{errors}", path.display());
        }
    }
}

#[test]
fn the_full_file_equals_the_built_in_defaults() {
    let config = load(FULL).unwrap();
    let pods = load("pods: [http://127.0.0.1:8001]").unwrap().pods;
    assert_eq!(
        config,
        Config {
            pods,
            ..Config::default()
        }
    );
}

/// Puts an unknown key into every map, and takes what the error lists as allowed for all there is.
#[test]
fn the_full_file_shows_every_key() {
    let tree: Value = serde_yaml_ng::from_str(FULL).unwrap();
    let mut keys = Vec::new();
    collect_keys("", &tree, &mut keys);
    let mut spoiled = tree.clone();
    spoil(&mut spoiled);
    let errors = load(&serde_yaml_ng::to_string(&spoiled).unwrap())
        .unwrap_err()
        .to_string();
    for line in errors.lines() {
        let (path, allowed) = line
            .split_once(": unknown key; allowed: ")
            .unwrap_or_else(|| panic!("{line}"));
        let parent = path
            .strip_suffix("zzzzzzzz")
            .unwrap_or_else(|| panic!("{line}"));
        for key in allowed.split(", ") {
            let shown = keys.contains(&format!("{parent}{key}"));
            let in_comment = FULL.contains(&format!("    # {key}: "));
            assert!(shown || in_comment, "{parent}{key} is not shown");
        }
    }
    assert!(errors.lines().count() >= 15, "{errors}");
}

#[test]
fn the_documentation_names_every_key() {
    let tree: Value = serde_yaml_ng::from_str(FULL).unwrap();
    let mut keys = Vec::new();
    collect_keys("", &tree, &mut keys);
    for key in &keys {
        let key = key.strip_prefix("pods[0].").unwrap_or(key);
        assert!(
            DOCUMENT.contains(&format!("`{key}`")),
            "{key} is not documented"
        );
    }
}

/// Row by row, so that a row too many is found as well as one too few.
#[test]
fn the_table_of_variables_is_the_one_in_the_code() {
    let rows = |text: &'static str| text.lines().filter(|line| line.starts_with('|'));
    let table = environment::documented().leak();
    for (shown, known) in rows(ENVIRONMENT).zip(rows(table)) {
        assert_eq!(shown, known, "docs/environment.md must hold:\n{table}");
    }
    assert_eq!(
        rows(ENVIRONMENT).count(),
        rows(table).count(),
        "docs/environment.md must hold:\n{table}"
    );
}

fn collect_keys(path: &str, tree: &Value, keys: &mut Vec<String>) {
    match tree {
        Value::Mapping(map) => {
            for (key, value) in map {
                let path = format!("{path}{}", key.as_str().unwrap());
                collect_keys(&format!("{path}."), value, keys);
                keys.push(path);
            }
        }
        Value::Sequence(items) => {
            let path = path.trim_end_matches('.');
            for (i, item) in items.iter().enumerate() {
                collect_keys(&format!("{path}[{i}]."), item, keys);
            }
        }
        _ => {}
    }
}

fn spoil(tree: &mut Value) {
    match tree {
        Value::Mapping(map) => {
            // Empty here are only the maps whose names are the operator's.
            if map.is_empty() {
                return;
            }
            map.values_mut().for_each(spoil);
            map.insert("zzzzzzzz".into(), 1.into());
        }
        Value::Sequence(items) => items.iter_mut().for_each(spoil),
        _ => {}
    }
}
