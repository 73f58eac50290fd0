//! Good files: every key reaches its place.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::fleet::settings::{EngineKind, KvEvents, UpstreamTls};
use crate::routing::settings::Gpu;
use crate::routing::{AutoBlendOverrides, LoadBalanceOverrides, PrebleOverrides, VtcOverrides};

#[test]
fn sections_reach_their_settings() {
    let config = load(
        r#"
pods: [http://e1:8000]
server: {listen: ["[::]:8080", {address: "127.0.0.1:8081", h2c: true, tls: none}], threads: 3, shutdown_grace: 0}
limits: {body: 1.5MiB, headers: "64", header_timeout: none, body_idle: 0}
timeouts: {connect: 250ms, request: 2m, client_write: none}
log: {level: debug, format: json, access: false}
metrics_poll: 0.5
tokenizer: {cache: 0}
"#,
    )
    .unwrap();
    assert_eq!(config.server.threads, 3);
    assert_eq!(
        config.server.listen[0].address,
        "[::]:8080".parse().unwrap()
    );
    assert!(config.server.listen[1].h2c);
    assert_eq!(config.server.shutdown_grace, Duration::ZERO);
    assert_eq!(config.limits.body, 3 << 19);
    assert_eq!(config.limits.headers, 64);
    assert_eq!(
        (config.limits.header_timeout, config.limits.body_idle),
        (None, None)
    );
    assert_eq!(config.timeouts.connect, Some(Duration::from_millis(250)));
    assert_eq!(config.timeouts.request, Some(Duration::from_secs(120)));
    assert_eq!(config.timeouts.client_write, None);
    assert_eq!(config.log.level, log::LevelFilter::Debug);
    assert_eq!(config.metrics_poll, Duration::from_millis(500));
    assert_eq!(config.tokenizer.cache, 0);
}

#[test]
fn threads_of_zero_are_resolved() {
    let config = load("pods: [http://e1:8000]\nserver: {threads: 0}").unwrap();
    assert!(config.server.threads >= 1);
}

#[test]
fn every_key_of_a_pod_is_taken() {
    let config = load(
        r#"
pods:
  - url: https://10.0.0.1:8443/engine-a/v1
    name: e1
    models: [m-a, org/m-b]
    role: mixed
    engine: sglang
    labels: {tier: gold}
    metrics: none
    kv_events: {pub: "tcp://10.0.0.1:5557", replay: "tcp://10.0.0.1:5558", topic: kv}
    http2: true
    tls: {verify: false, sni: Engine.Example, ca: Cargo.toml}
"#,
    )
    .unwrap();
    let pod = &config.pods[0];
    assert_eq!((pod.url.host.as_str(), pod.url.port), ("10.0.0.1", 8443));
    assert_eq!(pod.url.base_path, "/engine-a");
    assert!(pod.url.http2);
    let tls = UpstreamTls {
        verify: false,
        sni: Some("engine.example".to_owned()),
        ca: Some("Cargo.toml".into()),
    };
    assert_eq!(pod.url.tls, Some(tls));
    assert_eq!(pod.name, "e1");
    assert_eq!(
        pod.models.as_deref(),
        Some(&["m-a".to_owned(), "org/m-b".to_owned()][..])
    );
    assert_eq!(pod.engine, Some(EngineKind::Sglang));
    assert_eq!(pod.labels["tier"], "gold");
    assert_eq!(pod.metrics, None);
    let events = KvEvents {
        publish: "tcp://10.0.0.1:5557".to_owned(),
        replay: Some("tcp://10.0.0.1:5558".to_owned()),
        topic: "kv".to_owned(),
    };
    assert_eq!(pod.kv_events, Some(events));
}

#[test]
fn models_have_aliases_and_profiles() {
    let config = load(
        r#"
pods: [http://e1:8000]
models:
  m-a:
    aliases: [m-a-2]
    strategy: random
    default_profile: default
    profiles: {default: {routingStrategy: prefix-cache, routingConfig: {prefixCache: {standardDeviationFactor: 2}}}, other: }
  m-b:
"#,
    )
    .unwrap();
    let model = &config.models["m-a"];
    assert_eq!(model.aliases, ["m-a-2"]);
    assert_eq!(model.strategy.as_deref(), Some("random"));
    assert_eq!(model.default_profile.as_deref(), Some("default"));
    assert_eq!(
        model.profiles["default"]
            .overrides
            .standard_deviation_factor,
        Some(2.0)
    );
    assert_eq!(model.profiles["other"], Profile::default());
    assert_eq!(config.models["m-b"], Model::default());
}

#[test]
fn a_model_s_json_of_the_reference_can_be_pasted() {
    let json = r#"{
        "lockedRoutingStrategy": "least-request",
        "defaultProfile": "base",
        "profiles": {
            "base": {"requestsPerSecond": 200, "requestsPerSecondPerReplica": 0.5, "requestsInflight": 32},
            "none": {"requestsPerSecond": 0, "requestsPerSecondPerReplica": 0, "requestsInflight": 0},
            "long": {
                "routingStrategy": "prefix-cache",
                "maxTokensLt": 10,
                "routingConfig": {
                    "promptTokensGte": 8192,
                    "loadBalance": {"imbalanceFactor": 3, "imbalanceMinGap": 4, "queuedWeight": 0.5, "kvPressureAlpha": 0, "kvCriticalFree": 0.2},
                    "prefixCache": {"standardDeviationFactor": 4},
                    "autoBlend": {"loadBalanceWeight": 0, "leastRequestWeight": 2, "prefixCacheWeight": 3, "prefixCacheLoadBalanceWeight": 4},
                    "preble": {"targetGPU": "A6000", "decodingLength": 90},
                    "vtc": {"maxPodLoad": 10, "fairnessWeight": 0, "utilizationWeight": 2, "inputTokenWeight": 3, "outputTokenWeight": 4,
                            "tokenTrackerWindowSize": 30, "tokenTrackerTimeUnit": "seconds", "tokenTrackerMinTokens": 5, "tokenTrackerMaxTokens": 6}
                }
            }
        }
    }"#;
    let config = load(&format!(
        "{{pods: [\"http://e1:8000\"], models: {{m: {json}}}}}"
    ))
    .unwrap();
    let model = &config.models["m"];
    assert_eq!(model.locked_strategy.as_deref(), Some("least-request"));
    assert_eq!(model.default_profile.as_deref(), Some("base"));
    let base = &model.profiles["base"];
    assert_eq!(base.requests_per_second, Some(200.0));
    assert_eq!(base.requests_per_second_per_replica, Some(0.5));
    assert_eq!(base.requests_inflight, Some(32));
    assert_eq!(model.profiles["none"], Profile::default());
    let expected = Overrides {
        standard_deviation_factor: Some(4.0),
        load_balance: LoadBalanceOverrides {
            imbalance_factor: Some(3.0),
            imbalance_min_gap: Some(4),
            queued_weight: Some(0.5),
            kv_pressure_alpha: Some(0.0),
            kv_critical_free: Some(0.2),
        },
        auto_blend: AutoBlendOverrides {
            load_balance_weight: Some(0),
            least_request_weight: Some(2),
            prefix_cache_weight: Some(3),
            prefix_cache_load_balance_weight: Some(4),
        },
        preble: PrebleOverrides {
            target_gpu: Some(Gpu::A6000),
            decoding_length: Some(90),
        },
        vtc: VtcOverrides {
            max_pod_load: Some(10.0),
            fairness_weight: Some(0.0),
            utilization_weight: Some(2.0),
            input_token_weight: Some(3.0),
            output_token_weight: Some(4.0),
            window: Some(Duration::from_secs(30)),
            min_tokens: Some(5.0),
            max_tokens: Some(6.0),
        },
    };
    let long = &model.profiles["long"];
    assert_eq!(long.overrides, expected);
    assert_eq!(long.fits.prompt_tokens.least, Some(8192));
    assert_eq!(long.fits.max_tokens.below, Some(10));
}

#[test]
fn a_profile_named_default_is_the_default() {
    let config = load(
        "{pods: [http://e1:8000], models: {m: {profiles: {default: , a: }}, n: {profiles: {a: }}}}",
    )
    .unwrap();
    assert_eq!(
        config.models["m"].default_profile.as_deref(),
        Some("default")
    );
    assert_eq!(config.models["n"].default_profile, None);
}

#[test]
fn half_a_window_is_completed_as_in_the_reference() {
    let window = |vtc: &str| {
        let text = format!(
            "{{pods: [http://e1:8000], models: {{m: {{profiles: {{a: {{routingConfig: {{vtc: {{{vtc}}}}}}}}}}}}}}}"
        );
        load(&text).unwrap().models["m"].profiles["a"]
            .overrides
            .vtc
            .window
    };
    assert_eq!(window(""), None);
    assert_eq!(
        window("tokenTrackerWindowSize: 2"),
        Some(Duration::from_secs(120))
    );
    assert_eq!(
        window("tokenTrackerTimeUnit: milliseconds"),
        Some(Duration::from_millis(5))
    );
}

#[test]
fn anchors_and_merges_save_repetition() {
    let config = load(
        r#"
pods:
  - &first {url: http://e1:8000, models: [m-a], metrics: none}
  - {<<: *first, url: http://e2:8000}
"#,
    )
    .unwrap();
    assert_eq!(config.pods[1].url.host, "e2");
    assert_eq!(config.pods[1].metrics, None);
}

proptest! {
    #[test]
    fn any_text_is_taken_or_refused_in_whole_lines(
        value in "[-0-9a-zA-Z:/.${}\\[\\]@%é ]{0,24}",
        key in prop::sample::select(vec![
            "limits: {body: V}", "timeouts: {idle: V}", "pods: [V]", "pods: [{url: V}]", "server: {listen: [V]}",
            "routing: {prefix_cache: {hash_seed: V}}", "auth: {engine_key: V}", "models: {V: }", "V: 1", "health: V",
        ]),
    ) {
        for quoted in [format!("{value:?}"), value] {
            let text = key.replace('V', &quoted);
            if let Err(errors) = load_with(&text, &["http://e1"], &[]) {
                let lines = errors.to_string();
                prop_assert!(lines.lines().all(|line| line.contains(": ")), "{text}: {lines}");
            }
        }
    }
}
