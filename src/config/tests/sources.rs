//! Who wins over whom, and what start-up says about it.

use std::time::Duration;

use super::*;

const POD: &str = "pods: [http://e1:8000]\n";

fn errors(text: &str, pods: &[&str], variables: &[(&str, &str)]) -> String {
    load_with(text, pods, variables).unwrap_err().to_string()
}

#[test]
fn pods_of_the_command_line_replace_those_of_the_file() {
    let config = load_with(POD, &["http://e2:8000", "https://[::1]/v1"], &[]).unwrap();
    let names: Vec<_> = config.pods.iter().map(|pod| pod.name.as_str()).collect();
    assert_eq!(names, ["e2:8000", "[::1]:443"]);
    assert_eq!(
        config.notes,
        ["--pod is given: the 1 pods of the file are not used"]
    );
}

#[test]
fn no_file_is_needed() {
    let pods = ["http://e1:8000".to_owned()];
    let config = Config::load(Sources {
        file: None,
        pods: &pods,
        environment: &Environment::default(),
        strategy: &strategies,
    })
    .unwrap();
    assert_eq!(config.pods.len(), 1);
    assert!(config.notes.is_empty());
}

#[test]
fn wrong_pods_of_the_command_line_are_named() {
    assert_eq!(
        errors("", &["e1", "http://e1", "http://e1/"], &[]),
        "--pod[0]: is not a URL: http:// or https:// is missing; allowed: http://HOST:PORT or https://HOST:PORT, with or without a path\n\
         --pod[2]: is the same engine as --pod[1]; allowed: every engine once"
    );
}

#[test]
fn a_variable_wins_over_the_file_and_start_up_says_so() {
    let text =
        format!("{POD}routing: {{prefix_cache: {{block_size: 64, ttl: 1m}}, strategy: random}}");
    let variables = [
        ("AIBRIX_PREFIX_CACHE_BLOCK_SIZE", "16"),
        ("AIBRIX_PREFIX_CACHE_EVICTION_DURATION_MINS", "5"),
        ("AIBRIX_POD_METRIC_REFRESH_INTERVAL_MS", "50"),
        ("ROUTING_ALGORITHM", "least-request"),
        ("HOME", "/root"),
    ];
    let config = load_with(&text, &[], &variables).unwrap();
    assert_eq!(config.routing.prefix_cache.block_size, 16);
    assert_eq!(config.routing.prefix_cache.ttl, Duration::from_secs(300));
    assert_eq!(config.metrics_poll, Duration::from_millis(50));
    assert_eq!(config.routing.strategy, "least-request");
    assert_eq!(
        config.notes,
        [
            "AIBRIX_POD_METRIC_REFRESH_INTERVAL_MS=50 is set and wins over metrics_poll",
            "AIBRIX_PREFIX_CACHE_BLOCK_SIZE=16 is set and wins over routing.prefix_cache.block_size",
            "AIBRIX_PREFIX_CACHE_EVICTION_DURATION_MINS=5 is set and wins over routing.prefix_cache.ttl",
            "ROUTING_ALGORITHM=least-request is set and wins over routing.strategy",
        ]
    );
}

#[test]
fn the_strategy_of_the_environment_wins_over_the_models_but_not_over_their_profiles() {
    let text = format!(
        "{POD}models: {{m: {{strategy: random, profiles: {{a: {{routingStrategy: random}}}}}}}}"
    );
    let config = load_with(&text, &[], &[("ROUTING_ALGORITHM", "least-request")]).unwrap();
    let model = &config.models["m"];
    assert_eq!(model.strategy, None);
    assert_eq!(
        model.profiles["a"].routing_strategy.as_deref(),
        Some("random")
    );
}

#[test]
fn a_blend_weight_of_zero_switches_the_blend_off() {
    let variables = [("AIBRIX_ROUTING_AUTO_BLEND_LOAD_BALANCE_WEIGHT", "0")];
    let config = load_with(POD, &[], &variables).unwrap();
    assert_eq!(config.routing.auto_blend.load_balance_weight, 0);
}

#[test]
fn a_seed_is_taken_and_an_empty_one_is_none() {
    let seed = |value: &str| {
        let config = load_with(POD, &[], &[("AIBRIX_PREFIX_CACHE_HASH_SEED", value)]).unwrap();
        config.routing.prefix_cache.hash_seed
    };
    assert_eq!(seed("18446744073709551615"), Some(u64::MAX));
    assert_eq!(seed(""), None);
}

#[test]
fn variables_that_do_not_parse_are_errors_and_come_together() {
    let variables = [
        ("AIBRIX_LOAD_BALANCE_KV_CRITICAL_FREE", "2"),
        ("AIBRIX_PREFIX_CACHE_BLOCK_SIZE", "0"),
        ("AIBRIX_PREFIX_CACHE_BLOCK_NUMBER", "many"),
        ("AIBRIX_PREFIX_CACHE_HASH_SEED", "-1"),
        ("AIBRIX_PREFIX_CACHE_INCLUDE_TOOLS", "yes"),
        ("AIBRIX_PREFIX_CACHE_TOKENIZER_TYPE", "remote"),
        ("AIBRIX_STATESYNC_ENABLED", "true"),
        ("ROUTING_ALGORITHM", ""),
        ("AIBRIX_TOKENIZER_TTL", "5 parsecs"),
    ];
    assert_eq!(
        errors(&format!("{POD}retry: {{attempts: 99}}"), &[], &variables),
        r#"retry.attempts: 99 is out of range; allowed: a whole number, 0 to 16
AIBRIX_LOAD_BALANCE_KV_CRITICAL_FREE: "2" is out of range; allowed: a number, 0 to 1
AIBRIX_PREFIX_CACHE_BLOCK_NUMBER: "many" is not a whole number; allowed: a whole number, 1 to 1000000000
AIBRIX_PREFIX_CACHE_BLOCK_SIZE: "0" is out of range; allowed: a whole number, 1 to 65536
AIBRIX_PREFIX_CACHE_HASH_SEED: "-1" is out of range; allowed: a whole number, 0 to 18446744073709551615, or none
AIBRIX_PREFIX_CACHE_INCLUDE_TOOLS: "yes" is not true or false; allowed: true, false, t, f, 1, 0
AIBRIX_PREFIX_CACHE_TOKENIZER_TYPE: "remote" is not supported by this version; allowed: character, tiktoken
AIBRIX_STATESYNC_ENABLED: switches on state sync between gateways, which is not supported by this version; allowed: false
AIBRIX_TOKENIZER_TTL: "5 parsecs" is not a duration; allowed: a duration such as 250ms, 10s, 20m or 1h; a bare number is seconds
ROUTING_ALGORITHM: "" is empty; allowed: a string with something in it"#
    );
}

#[test]
fn variables_without_effect_are_named_without_their_values() {
    let variables = [
        ("AIBRIX_PREFIX_CACHE_BLOCKSIZE", "16"),
        ("AIBRIX_STATESYNC_ENABLED", "false"),
        ("AIBRIX_WHAT_EVER_THIS_IS", "1"),
        ("REDIS_PASSWORD", "hush"),
    ];
    let config = load_with(POD, &[], &variables).unwrap();
    assert_eq!(
        config.notes,
        [
            "AIBRIX_PREFIX_CACHE_BLOCKSIZE: set, but not known here, did you mean AIBRIX_PREFIX_CACHE_BLOCK_SIZE?",
            "AIBRIX_STATESYNC_ENABLED: set, has no effect here: state sync between gateways is off anyway",
            "AIBRIX_WHAT_EVER_THIS_IS: set, but not known here",
            "REDIS_PASSWORD: set, has no effect here: nothing here uses Redis",
        ]
    );
}

#[test]
fn keys_come_from_the_environment_and_are_never_shown() {
    let text =
        format!("{POD}auth: {{client_keys: [\"${{CLIENT}}\"], engine_key: \"${{ENGINE}}\"}}");
    let config = load_with(
        &text,
        &[],
        &[("CLIENT", "sk-client-0001"), ("ENGINE", "ek-0002")],
    )
    .unwrap();
    assert_eq!(config.auth.client_keys, ["sk-client-0001"]);
    assert_eq!(config.auth.engine_key.as_deref(), Some("ek-0002"));
    let shown = format!("{config:?}");
    assert!(
        !shown.contains("sk-client") && !shown.contains("ek-0002"),
        "{shown}"
    );
}
