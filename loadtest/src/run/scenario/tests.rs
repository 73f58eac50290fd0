use super::*;

const SMALLEST: &str = "
duration: 2s
target: {url: 'http://127.0.0.1:8080'}
arrival: {closed: {concurrency: 3}}
workload:
  - system_prompts: {system: {count: 2, tokens: 10}}
";

fn parse(text: &str, settings: &[&str]) -> Result<Scenario> {
    let settings: Vec<String> = settings.iter().map(|&setting| setting.to_owned()).collect();
    Scenario::parse(text, &settings, None)
}

/// The smallest scenario with these settings is refused with a message that has all of these words.
fn check_refused(settings: &[&str], words: &[&str]) {
    let error = parse(SMALLEST, settings).map(|_| ()).unwrap_err();
    let message = format!("{error:#}");
    for word in words {
        assert!(
            message.contains(word),
            "{settings:?}: no {word} in: {message}"
        );
    }
}

#[test]
fn every_shipped_scenario_holds() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let file = entry.unwrap().path();
        let scenario = Scenario::load(&file, &[]).unwrap_or_else(|error| panic!("{error:#}"));
        assert!(!scenario.about.is_empty(), "{}", file.display());
        seen += 1;
    }
    assert_eq!(seen, 5);
}

#[test]
fn a_setting_of_the_command_line_replaces_that_of_the_file() {
    let settings = [
        "duration=1m30s",
        "arrival.closed.concurrency=7",
        "workload.0.weight=2",
        "expect.max_errors=5",
    ];
    let scenario = parse(SMALLEST, &settings).unwrap();
    assert_eq!(scenario.duration, Duration::from_secs(90));
    assert_eq!(scenario.most_open(), Some(7));
    assert_eq!(scenario.workload[0].weight, 2.0);
    assert_eq!(scenario.expect.max_errors, 5);
}

#[test]
fn what_is_wrong_is_named_with_its_value_and_what_is_allowed() {
    check_refused(&["duration=soon"], &["duration: ", "soon", "20s"]);
    check_refused(&["drain={mean: 1s}"], &["duration that varies"]);
    check_refused(&["duration=2d"], &["duration: ", "2d", "a day at most"]);
    check_refused(&["duration=0"], &["duration", "0"]);
    check_refused(&["warm_up=2s"], &["warm_up", "2s"]);
    check_refused(&["durations=1s"], &["durations", "unknown"]);
    check_refused(
        &["arrival.closed.concurrency=0"],
        &["closed.concurrency", "0", "1 to 100000"],
    );
    check_refused(&["arrival.open={rate: 1}"], &["arrival: ", "exactly one"]);
    check_refused(&["arrival={open: {rate: -1}}"], &["open.rate", "-1"]);
    check_refused(&["arrival={open: {speed: 1}}"], &["rate", "trace"]);
    check_refused(
        &["arrival.closed.think=fast"],
        &["arrival.closed.think: ", "fast", "250ms"],
    );
    check_refused(
        &["target={url: 'https://x'}"],
        &["target.url", "https://x", "http://HOST:PORT"],
    );
    check_refused(
        &["target={engines: {count: 0}}"],
        &["engines.count", "0", "1 to 1024"],
    );
    check_refused(
        &["target={gateway: {admin: {listen: x}}}"],
        &["gateway.admin", "leave it out"],
    );
    let tokens = "workload.0.system_prompts.system.tokens";
    let with = |value: &str| format!("{tokens}={value}");
    check_refused(&[&with("-3")], &["tokens", "-3", "0 or more"]);
    check_refused(&[&with("{from: 9, to: 3}")], &["from 9 is above to 3"]);
    check_refused(&[&with("{from: 9}")], &["{from, to}", "{median, sigma}"]);
    check_refused(&[&with("{mean: 0}")], &["mean 0 is not above 0"]);
    check_refused(
        &["workload.0.system_prompts.system.count=0"],
        &["system_prompts.system.count", "0"],
    );
    check_refused(&["workload.0.weight=-1"], &["weight", "-1"]);
    check_refused(&["workload.0.weight=0"], &["weight above 0"]);
    check_refused(
        &["workload=[{weight: 1}]"],
        &["exactly one of system_prompts"],
    );
    check_refused(
        &["workload.0={agents: {system: {count: 1, tokens: 1}, tools: 0, result_tokens: 1}}"],
        &["agents.tools", "0", "1 to 1000"],
    );
    check_refused(&["models=[]"], &["models", "at least one"]);
    check_refused(
        &["expect.max_rss_mib=1"],
        &["max_rss_mib", "target.gateway"],
    );
    check_refused(&["expect.in_flight_end=0"], &["target.admin"]);
    check_refused(&["duration"], &["--set duration", "=VALUE"]);
    check_refused(
        &["workload.9.weight=1"],
        &["--set workload.9.weight", "1 items"],
    );
    check_refused(&["duration.x=1"], &["--set duration.x", "nothing below"]);
}

#[test]
fn spreads_have_the_mean_they_say() {
    use rand::SeedableRng;
    let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(1);
    let mut check = |text: &str, wanted: f64| {
        let spread: spread::Spread<spread::Count> = serde_yaml_ng::from_str(text).unwrap();
        let sum: usize = (0..20_000).map(|_| spread.count(&mut random)).sum();
        let mean = sum as f64 / 20_000.0;
        assert!((mean / wanted - 1.0).abs() < 0.05, "{text}: {mean}");
    };
    check("100", 100.0);
    check("{from: 50, to: 150}", 100.0);
    check("{mean: 100}", 100.0);
    // The mean of a log-normal distribution is above its median.
    check("{median: 100, sigma: 0.5}", 113.3);
}
