//! Every rule where it warns and right beside it, where it does not.

use std::path::Path;

use super::super::{Config, ConfigErrors, Environment, SourceFile, Sources};
use crate::routing::check_strategy;

fn load(text: &str) -> Result<Config, ConfigErrors> {
    let path = Path::new("warmgate.yaml");
    Config::load(Sources {
        file: Some(SourceFile { path, text }),
        pods: &[],
        environment: &Environment::default(),
        strategy: &|text| check_strategy(text).map_err(|error| error.to_string()),
    })
}

/// Says that a file has this warning and no other, or none.
#[track_caller]
fn check(pods: usize, text: &str, expected: Option<&str>) {
    let pods: Vec<_> = (1..=pods).map(|n| format!("http://e{n}:8000")).collect();
    check_file(&format!("pods: [{}]\n{text}", pods.join(", ")), expected);
}

/// So many pods that serve each model, as items of a list.
fn pods_of(models: &[(&str, usize)]) -> String {
    let pods = models.iter().flat_map(|(model, count)| {
        (1..=*count).map(move |n| format!("{{url: http://{model}-{n}:8000, models: [{model}]}}"))
    });
    pods.collect::<Vec<_>>().join(", ")
}

#[track_caller]
fn check_file(text: &str, expected: Option<&str>) {
    let config = load(text).unwrap_or_else(|errors| panic!("{errors}"));
    let warnings = config.warnings();
    match expected {
        Some(start) => {
            assert_eq!(warnings.len(), 1, "{text}: {warnings:?}");
            assert!(warnings[0].starts_with(start), "{}", warnings[0]);
        }
        None => assert!(warnings.is_empty(), "{text}: {warnings:?}"),
    }
}

#[test]
fn the_defaults_are_good_for_any_number_of_pods() {
    for pods in [1, 2, 3, 8, 100] {
        check(pods, "", None);
    }
}

#[test]
fn a_check_ends_before_the_next() {
    let warning = "health.timeout: 3s is longer than health.interval (1s)";
    check(2, "health: {interval: 1s}", Some(warning));
    check(2, "health: {interval: 3s}", None);
}

#[test]
fn health_can_take_a_pod_out() {
    let warning = "health.min_available: 0.76 of 4 pods are all of them, so no check ever takes one out; at most 0.75 lets";
    check(4, "health: {min_available: 0.76}", Some(warning));
    check(4, "health: {min_available: 0.75}", None);
    check(1, "health: {min_available: 1}", None);
    let models = |floor: f64| {
        format!(
            "pods: [{}]\nhealth: {{min_available: {floor}}}",
            pods_of(&[("m-a", 4), ("m-b", 2)])
        )
    };
    let warning = "health.min_available: 0.7 of the 2 pods that serve m-b are all of them, so no check ever takes one out; at most 0.5 lets";
    check_file(&models(0.7), Some(warning));
    check_file(&models(0.5), None);
}

#[test]
fn parts_of_a_request_end_before_the_whole() {
    let timeouts = |pods: usize, timeouts: &str, expected: Option<&str>| {
        check(pods, &format!("timeouts: {{{timeouts}}}"), expected);
    };
    let check = |text: &str, expected: Option<&str>| timeouts(3, text, expected);
    let warning = "timeouts.first_byte: 60s can never pass, since timeouts.request ends every request after 60s";
    check("request: 60s, first_byte: 60s", Some(warning));
    check("request: 60s, first_byte: 59s", None);
    check("first_byte: 60s", None);
    let warning = "timeouts.idle: 120s can never pass";
    check("request: 60s, idle: 2m", Some(warning));
    check("request: 60s, idle: 30s", None);
    let warning = "timeouts.request: 6s is over before 3 pods could be tried for 2s each";
    check("request: 6s", Some(warning));
    check("request: 7s", None);
    check("request: 7s, connect: none", None);
    // A try for each pod is all there can be.
    timeouts(2, "request: 6s", None);
}

#[test]
fn the_index_holds_more_than_one_prompt() {
    let index = |text: &str, expected| {
        check(
            2,
            &format!("routing: {{prefix_cache: {{{text}}}}}"),
            expected,
        );
    };
    let warning = "routing.prefix_cache.max_blocks: one prompt of 4194304 bytes has 1048576 blocks of 4, more than the 200000";
    index("block_size: 4", Some(warning));
    index("block_size: 4, max_blocks: 1048576", None);
    let small =
        "limits: {body: 100KiB}\nrouting: {prefix_cache: {block_size: 4, max_blocks: MANY}}";
    let warning = "routing.prefix_cache.max_blocks: one prompt of 102400 bytes has 25600";
    check(2, &small.replace("MANY", "25599"), Some(warning));
    check(2, &small.replace("MANY", "25600"), None);
}

#[test]
fn blocks_are_shorter_than_prompts_and_outlive_a_check() {
    let prefix = |text: &str, expected| {
        check(
            2,
            &format!("routing: {{prefix_cache: {{{text}}}}}"),
            expected,
        );
    };
    let warning = "routing.prefix_cache.block_size: prompts shorter than 8192 bytes";
    prefix("block_size: 8KiB", Some(warning));
    prefix("block_size: 4KiB", None);
    let warning = "routing.prefix_cache.ttl: after 4s a prompt is forgotten";
    prefix("ttl: 4s", Some(warning));
    prefix("ttl: 5s", None);
}

#[test]
fn a_pod_in_use_is_not_always_the_last_choice() {
    let warning = "routing.load_balance.kv_critical_free: with 1";
    check(
        2,
        "routing: {load_balance: {kv_critical_free: 1}}",
        Some(warning),
    );
    check(2, "routing: {load_balance: {kv_critical_free: 0.9}}", None);
}

#[test]
fn settings_are_for_models_that_are_served() {
    let text = |name: &str, also: &str| {
        format!(
            "pods: [{{url: http://e1, models: [m-a]}}, {{url: http://e2{also}}}]\nmodels: {{{name}: {{strategy: random}}}}"
        )
    };
    let check = |name: &str, also: &str, warns: bool| {
        let warnings = load(&text(name, also)).unwrap().warnings();
        assert_eq!(
            warnings.len(),
            usize::from(warns),
            "{name} {also}: {warnings:?}"
        );
    };
    check("m-b", ", models: [m-a]", true);
    check("m-a", ", models: [m-a]", false);
    check("m-b", ", models: [m-b]", false);
    check("m-b", "", false);
    check("m-b", ", models: [m-b-2]", true);
    let alias =
        text("m-b", ", models: [m-b-2]").replace("{strategy", "{aliases: [m-b-2], strategy");
    assert!(load(&alias).unwrap().warnings().is_empty());
}

#[test]
fn a_profile_can_take_effect() {
    let model = |text: &str, expected: Option<&str>| {
        check(2, &format!("models: {{m: {{{text}}}}}"), expected);
    };
    let warning = "models.m.profiles.a.routingStrategy: lockedRoutingStrategy wins";
    model(
        "lockedRoutingStrategy: random, profiles: {a: {routingStrategy: random}}",
        Some(warning),
    );
    model(
        "lockedRoutingStrategy: random, profiles: {a: {requestsPerSecond: 2}}",
        None,
    );
    let warning = "models.m.profiles.b: has the bounds of a";
    model(
        "profiles: {a: {promptTokensGte: 5}, b: {routingConfig: {promptTokensGte: 5}}, c: {}, d: {}}",
        Some(warning),
    );
    model(
        "profiles: {a: {promptTokensGte: 5}, b: {promptTokensGte: 6}}",
        None,
    );
}

#[test]
fn prefix_cache_alone_uses_every_pod() {
    let alone = "prefix-cache,load-balance:0";
    let routing = |pods: usize, text: &str, expected: Option<&str>| {
        check(pods, &format!("routing: {{{text}}}"), expected);
    };
    let warning = "routing.strategy: prefix-cache without load-balance and with the factor 2 can leave 3 of 8 pods idle for ever";
    routing(8, &format!("strategy: \"{alone}\""), Some(warning));
    routing(8, "auto_blend: {load_balance_weight: 0}", Some(warning));
    routing(2, &format!("strategy: \"{alone}\""), None);
    routing(
        8,
        &format!("strategy: \"{alone}\", prefix_cache: {{standard_deviation_factor: 0.35}}"),
        None,
    );
    let profile = |factor: f64| {
        format!(
            "models: {{m: {{profiles: {{a: {{routingStrategy: \"{alone}\", routingConfig: {{prefixCache: {{standardDeviationFactor: {factor}}}}}}}}}}}}}"
        )
    };
    let warning = "models.m.profiles.a.routingStrategy: prefix-cache without load-balance and with the factor 1 can";
    check(8, &profile(1.0), Some(warning));
    check(8, &profile(0.3), None);
    // Just below what is advised.
    routing(
        3,
        &format!("strategy: \"{alone}\", prefix_cache: {{standard_deviation_factor: 0.57}}"),
        None,
    );
}

#[test]
fn only_pods_of_a_model_share_its_requests() {
    let file = |models: &[(&str, usize)], rest: &str| {
        format!(
            "pods: [{}]\nrouting: {{strategy: \"prefix-cache,load-balance:0\"}}\n{rest}",
            pods_of(models)
        )
    };
    let warning = "routing.strategy: prefix-cache without load-balance and with the factor 2 can leave 1 of the 3 pods that serve m-b idle";
    check_file(&file(&[("m-a", 2), ("m-b", 3)], ""), Some(warning));
    check_file(&file(&[("m-a", 2), ("m-b", 2)], ""), None);
    let own = "models: {m-b: {strategy: random}}";
    check_file(&file(&[("m-a", 2), ("m-b", 3)], own), None);
    let alias = "models: {m-c: {aliases: [m-b], lockedRoutingStrategy: random}}";
    check_file(&file(&[("m-a", 2), ("m-b", 3)], alias), None);
}

#[test]
fn strategies_that_go_by_metrics_have_them() {
    let check = |strategy: &str, metrics: &str, warns: bool| {
        let text = format!(
            "pods: [{{url: http://e1, metrics: {metrics}}}]\nrouting: {{strategy: \"{strategy}\"}}"
        );
        let warnings = load(&text).unwrap().warnings();
        assert_eq!(warnings.len(), usize::from(warns), "{warnings:?}");
    };
    check("least-request,least-kv-cache:2", "none", true);
    check("least-kv-cache", "/metrics", false);
    check("least-request", "none", false);
    check("least-request,least-kv-cache:0", "none", false);
    // The gateway's own counts do where the engine says nothing.
    for strategy in ["least-latency", "least-busy-time", "throughput"] {
        check(strategy, "none", false);
    }
    let model = |metrics_of: &str| {
        format!(
            "pods: [{{url: http://e1, models: [m-a], metrics: none}}, {{url: http://e2, models: [m-b]}}]\nmodels: {{{metrics_of}: {{strategy: least-kv-cache}}}}"
        )
    };
    check_file(
        &model("m-a"),
        Some("models.m-a.strategy: least-kv-cache goes"),
    );
    check_file(&model("m-b"), None);
}

#[test]
fn strategies_with_a_goal_have_one() {
    let routing = |strategy: &str, goal: &str| {
        format!("routing: {{strategy: \"{strategy}\", slo: {{pod_requests: {goal}}}}}")
    };
    let warning =
        "routing.strategy: slo-pack-load has no goal to keep without routing.slo.pod_requests";
    check(2, &routing("slo-pack-load", "none"), Some(warning));
    check(2, &routing("slo-pack-load", "8"), None);
    check(2, &routing("slo-least-load", "none"), None);
    check(2, &routing("slo:0,random", "none"), None);
    let profile = "models: {m: {profiles: {a: {routingStrategy: slo}}}}";
    let warning = "models.m.profiles.a.routingStrategy: slo has no goal";
    check(2, profile, Some(warning));
}
