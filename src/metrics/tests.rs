use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{EndedBy, Metrics, PodState, RequestEnd, Routed, ScrapeState};
use crate::usage::Usage;

const POD: PodState<'_> = PodState {
    name: "e1",
    in_flight: 3,
    healthy: true,
    kv_usage: Some(0.5),
    queued: Some(2.0),
};

fn end(path: &'static str, status: u16) -> RequestEnd {
    RequestEnd {
        path,
        status,
        ended_by: EndedBy::Ok,
        duration: Duration::from_millis(700),
        first_byte: Some(Duration::from_millis(20)),
        request_bytes: 100,
        response_bytes: 1000,
        usage: Some(Usage {
            prompt: 30,
            completion: 7,
            cached: 16,
        }),
    }
}

fn routed() -> Routed {
    Routed {
        prefix: Some(("prefix_match", "51-75")),
        gate_fired: true,
        took: Duration::from_micros(15),
    }
}

/// A gateway in which everything there is to count has happened.
fn busy() -> Metrics {
    let metrics = Metrics::new(false).unwrap();
    let model = metrics.model(Some("m-a"));
    model.request_ended(&end("chat_completions", 200));
    model.routed(&routed());
    model.prefix_routing_failed("no_target_pod", Duration::from_micros(3));
    metrics.routing_took(Duration::from_micros(15));
    metrics.config_reloaded(true);
    let pod = metrics.pod("e1");
    pod.picked("prefix_match");
    pod.connect_failed();
    pod.retried();
    metrics
}

fn render(metrics: &Metrics, pods: &[PodState<'_>]) -> String {
    let state = ScrapeState {
        pods: pods.to_vec(),
        index_blocks: 12,
        index_bytes: 3456,
        index_evictions: 5,
        log_lines_dropped: 1,
        capture_lines_dropped: 2,
    };
    metrics.render(&state).unwrap()
}

#[track_caller]
fn assert_line(text: &str, line: &str) {
    assert!(
        text.lines().any(|known| known == line),
        "no {line:?} in\n{text}"
    );
}

#[test]
fn everything_that_happened_is_shown() {
    let text = render(&busy(), &[POD]);
    for line in [
        r#"warmgate_requests_total{model="m-a",path="chat_completions",status="200"} 1"#,
        r#"warmgate_requests_ended_total{by="ok",model="m-a"} 1"#,
        r#"warmgate_requests_ended_total{by="client",model="m-a"} 0"#,
        r#"warmgate_request_duration_seconds_bucket{model="m-a",le="1"} 1"#,
        r#"warmgate_time_to_first_byte_seconds_bucket{model="m-a",le="0.01"} 0"#,
        r#"warmgate_time_to_first_byte_seconds_bucket{model="m-a",le="0.025"} 1"#,
        r#"warmgate_prompt_tokens_total{model="m-a"} 30"#,
        r#"warmgate_completion_tokens_total{model="m-a"} 7"#,
        r#"warmgate_cached_tokens_total{model="m-a"} 16"#,
        r#"warmgate_request_body_bytes_total{model="m-a"} 100"#,
        r#"warmgate_response_body_bytes_total{model="m-a"} 1000"#,
        r#"aibrix_prefix_cache_routing_selection_total{model="m-a",selection="prefix_match",using_kv_sync="false"} 1"#,
        r#"aibrix_prefix_cache_routing_decisions_total{match_percent_bucket="51-75",model="m-a",using_kv_sync="false"} 1"#,
        r#"aibrix_prefix_cache_routing_errors_total{model="m-a",reason="no_target_pod",using_kv_sync="false"} 1"#,
        r#"aibrix_prefix_cache_routing_latency_seconds_bucket{model="m-a",using_kv_sync="false",le="0.00002"} 2"#,
        r#"aibrix_prefix_cache_routing_latency_seconds_bucket{model="m-a",using_kv_sync="false",le="0.16384"} 2"#,
        r#"aibrix_load_imbalance_total{model="m-a",using_kv_sync="false"} 1"#,
        r#"aibrix_prefix_cache_indexer_status{indexer_type="local",model="_init_"} 1"#,
        r#"aibrix_prefix_cache_indexer_status{indexer_type="sync",model="_init_"} 0"#,
        r#"warmgate_pod_picks_total{pod="e1",reason="prefix_match"} 1"#,
        r#"warmgate_pod_connect_failures_total{pod="e1"} 1"#,
        r#"warmgate_pod_retries_total{pod="e1"} 1"#,
        r#"warmgate_pod_in_flight_requests{pod="e1"} 3"#,
        r#"warmgate_pod_healthy{pod="e1"} 1"#,
        r#"warmgate_pod_kv_usage_ratio{pod="e1"} 0.5"#,
        r#"warmgate_pod_queued_requests{pod="e1"} 2"#,
        "warmgate_index_blocks 12",
        "warmgate_index_bytes 3456",
        "warmgate_index_evictions_total 5",
        "warmgate_log_lines_dropped_total 1",
        "warmgate_capture_lines_dropped_total 2",
        "warmgate_routing_duration_seconds_count 1",
        r#"warmgate_config_reloads_total{result="ok"} 1"#,
        concat!(
            r#"warmgate_build_info{version=""#,
            env!("CARGO_PKG_VERSION"),
            r#""} 1"#
        ),
    ] {
        assert_line(&text, line);
    }
}

#[test]
fn a_strategy_that_looks_at_no_prefix_moves_only_the_gate_counter() {
    let metrics = Metrics::new(true).unwrap();
    metrics.model(Some("m")).routed(&Routed {
        prefix: None,
        ..routed()
    });
    let text = render(&metrics, &[]);
    assert_line(
        &text,
        r#"aibrix_load_imbalance_total{model="m",using_kv_sync="true"} 1"#,
    );
    assert_line(
        &text,
        r#"aibrix_prefix_cache_routing_latency_seconds_count{model="m",using_kv_sync="true"} 0"#,
    );
    assert!(!text.contains("routing_selection_total"), "{text}");
}

#[test]
fn models_that_nobody_serves_share_one_series() {
    let metrics = Metrics::new(false).unwrap();
    metrics.model(None).request_ended(&end("other", 404));
    metrics.model(None).request_ended(&end("other", 404));
    for adapter in 0..super::MAX_MODELS + 2 {
        let name = format!("adapter-{adapter}");
        metrics
            .model(Some(&name))
            .request_ended(&end("completions", 200));
    }
    let text = render(&metrics, &[]);
    assert_line(
        &text,
        r#"warmgate_requests_total{model="_unknown_",path="other",status="404"} 2"#,
    );
    assert_line(
        &text,
        r#"warmgate_requests_total{model="_unknown_",path="completions",status="200"} 2"#,
    );
}

#[test]
fn every_status_has_its_series_however_many_there_are() {
    let metrics = Metrics::new(false).unwrap();
    for round in 0..2 {
        for status in 400..450 {
            metrics
                .model(Some("m"))
                .request_ended(&end("rerank", status));
        }
        let text = render(&metrics, &[]);
        for status in 400..450 {
            let labels = format!(r#"{{model="m",path="rerank",status="{status}"}}"#);
            assert_line(
                &text,
                &format!("warmgate_requests_total{labels} {}", round + 1),
            );
        }
    }
}

#[test]
fn a_pod_that_is_gone_takes_its_series_with_it() {
    let metrics = busy();
    assert!(render(&metrics, &[POD]).contains(r#"pod="e1""#));
    let other = PodState {
        name: "e2",
        healthy: false,
        kv_usage: None,
        queued: None,
        ..POD
    };
    let text = render(&metrics, &[other]);
    assert!(!text.contains(r#"pod="e1""#), "{text}");
    assert_line(&text, r#"warmgate_pod_healthy{pod="e2"} 0"#);
    assert!(!text.contains("kv_usage_ratio{"), "{text}");

    metrics.pod("e1").picked("random");
    let text = render(&metrics, &[POD]);
    assert_line(
        &text,
        r#"warmgate_pod_picks_total{pod="e1",reason="random"} 1"#,
    );
    assert!(
        !text.contains(r#"pod="e1",reason="prefix_match""#),
        "{text}"
    );
}

#[test]
fn names_are_escaped() {
    let metrics = Metrics::new(false).unwrap();
    metrics
        .model(Some("a\"b\\c\nd"))
        .request_ended(&end("other", 200));
    let expected = r#"warmgate_prompt_tokens_total{model="a\"b\\c\nd"} 30"#;
    assert_line(&render(&metrics, &[]), expected);
}

/// Name to type, labels and help.
type Families = BTreeMap<String, (String, String, String)>;

fn exported(text: &str) -> Families {
    let mut families = Families::new();
    let mut labels: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for line in text.lines() {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|l| l.split_once(' ')) {
            families.entry(name.to_owned()).or_default().2 = help.to_owned();
        } else if let Some((name, kind)) =
            line.strip_prefix("# TYPE ").and_then(|l| l.split_once(' '))
        {
            families.entry(name.to_owned()).or_default().0 = kind.to_owned();
        } else if let Some((name, rest)) = line.split_once('{') {
            let name = name.strip_suffix("_bucket").unwrap_or(name);
            let pairs = rest
                .rsplit_once('}')
                .map_or("", |(pairs, _)| pairs)
                .split(',');
            let names = pairs.filter_map(|pair| Some(pair.split_once('=')?.0));
            labels
                .entry(name)
                .or_default()
                .extend(names.filter(|name| *name != "le"));
        }
    }
    for (name, family) in &mut families {
        let labels = labels.remove(name.as_str()).unwrap_or_default();
        family.1 = labels.into_iter().collect::<Vec<_>>().join(", ");
    }
    families
}

fn documented() -> Families {
    let row = |line: &str| {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [name, kind, labels, help] = cells[..] else {
            return None;
        };
        let name = name.strip_prefix('`')?.strip_suffix('`')?.to_owned();
        let mut labels: Vec<_> = labels
            .split(", ")
            .filter(|label| !label.is_empty())
            .collect();
        labels.sort_unstable();
        Some((name, (kind.to_owned(), labels.join(", "), help.to_owned())))
    };
    include_str!("../../docs/metrics.md")
        .lines()
        .filter_map(row)
        .collect()
}

#[test]
fn the_documented_families_are_the_exported_ones() {
    let exported = exported(&render(&busy(), &[POD]));
    let documented = documented();
    let table: String = exported
        .iter()
        .map(|(name, (kind, labels, help))| format!("| `{name}` | {kind} | {labels} | {help} |\n"))
        .collect();
    assert_eq!(
        exported, documented,
        "docs/metrics.md should have these rows:\n{table}"
    );
}

#[test]
fn every_name_has_a_unit() {
    let units = [
        "_total",
        "_seconds",
        "_bytes",
        "_requests",
        "_blocks",
        "_ratio",
    ];
    let without = [
        "warmgate_pod_healthy",
        "warmgate_build_info",
        "aibrix_prefix_cache_indexer_status",
    ];
    for name in exported(&render(&busy(), &[POD])).into_keys() {
        let has_unit = units.iter().any(|unit| name.ends_with(unit));
        assert_ne!(has_unit, without.contains(&&*name), "{name}");
    }
}
