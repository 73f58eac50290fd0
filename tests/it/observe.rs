//! What operators see, and what nobody must.

use serde_json::json;

use crate::support::client::{self, get, post_json};
use crate::support::gateway::Gateway;
use crate::support::{engines, eventually};

#[tokio::test]
async fn a_request_leaves_its_line_and_its_figures_but_neither_prompt_nor_key() {
    let engines = engines(2, &["m-a"]).await;
    let config = format!(
        "log: {{level: debug, format: json}}\nauth: {{client_keys: [sk-client-0001], engine_key: ek-0002}}\n{}",
        engines.pods()
    );
    let gateway = Gateway::start(&config).await;
    let body = json!({
        "model": "m-a", "max_tokens": 7, "messages": [{"role": "user", "content": "HUSHHUSH ".repeat(100)}],
    })
    .to_string();
    for key in [
        ("authorization", "Bearer sk-client-0001"),
        ("x-api-key", "sk-client-0001"),
        ("x-api-key", "sk-wrong-0003"),
    ] {
        let answer = client::request(
            gateway.address,
            "POST",
            "/v1/chat/completions?key=QUERYSECRET",
            &[key],
            body.as_bytes(),
        )
        .await
        .unwrap();
        let allowed = !key.1.contains("wrong");
        assert_eq!(answer.status, if allowed { 200 } else { 401 });
        assert!(!answer.text().contains("sk-wrong"), "{}", answer.text());
    }
    for request in engines.all_requests() {
        assert_eq!(request.header_values("authorization"), ["Bearer ek-0002"]);
        assert_eq!(request.header("x-api-key"), None);
    }
    let log = eventually("three lines", async || {
        let log = gateway.access_log();
        (log.lines().count() == 3).then_some(log)
    })
    .await;
    let lines: Vec<serde_json::Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let second = &lines[1];
    assert_eq!(
        (&second["status"], &second["model"], &second["strategy"]),
        (&json!(200), &json!("m-a"), &json!("prefix-cache"))
    );
    assert_eq!(
        (&second["matched_blocks"], &second["total_blocks"]),
        (&json!(7), &json!(7)),
        "{second}"
    );
    assert_eq!(
        (&second["completion_tokens"], &second["ended_by"]),
        (&json!(7), &json!("ok"))
    );
    assert!(second["cached_tokens"].as_u64().unwrap() > 0, "{second}");
    assert_eq!(lines[2]["status"], 401);

    let metrics = gateway.metrics().await;
    for secret in [
        "HUSHHUSH",
        "sk-client-0001",
        "sk-wrong-0003",
        "ek-0002",
        "QUERYSECRET",
    ] {
        for (place, text) in [
            ("access log", &log),
            ("log", &gateway.error_log()),
            ("metrics", &metrics),
        ] {
            assert!(!text.contains(secret), "{secret} in the {place}");
        }
    }
}

#[tokio::test]
async fn the_reference_s_series_move_while_the_blend_is_active() {
    let engines = engines(2, &["m-a"]).await;
    let gateway = Gateway::start(&engines.pods()).await;
    let body =
        json!({"model": "m-a", "messages": [{"role": "user", "content": "counted ".repeat(100)}]});
    for _ in 0..3 {
        post_json(gateway.address, "/v1/chat/completions", &body).await;
    }
    for (family, label, count) in [
        (
            "aibrix_prefix_cache_routing_decisions_total",
            "match_percent_bucket=\"76-100\"",
            2.0,
        ),
        (
            "aibrix_prefix_cache_routing_decisions_total",
            "match_percent_bucket=\"0\"",
            1.0,
        ),
        (
            "aibrix_prefix_cache_routing_selection_total",
            "selection=\"prefix_match\"",
            2.0,
        ),
        (
            "aibrix_prefix_cache_routing_latency_seconds_count",
            "m-a",
            3.0,
        ),
        ("aibrix_prefix_cache_indexer_status", "local", 1.0),
        ("warmgate_requests_total", "path=\"chat_completions\"", 3.0),
        ("warmgate_index_evictions_total", "", 0.0),
    ] {
        eventually(family, async || {
            (gateway.metric(family, &[label]).await == count).then_some(())
        })
        .await;
    }
    let unknown = post_json(
        gateway.address,
        "/v1/chat/completions",
        &json!({"model": "made-up-name", "messages": [{}]}),
    )
    .await;
    assert_eq!(unknown.status, 404);
    assert!(!gateway.metrics().await.contains("made-up-name"));
}

#[tokio::test]
async fn the_operators_pages_answer() {
    let engines = engines(2, &["m-a"]).await;
    let gateway = Gateway::start(&engines.pods()).await;
    for (path, status) in [
        ("/livez", 200),
        ("/readyz", 200),
        ("/metrics", 200),
        ("/pods", 200),
        ("/models", 200),
        ("/", 200),
        ("/nowhere", 404),
    ] {
        assert_eq!(
            get(gateway.admin, path).await.unwrap().status,
            status,
            "{path}"
        );
    }
    assert_eq!(get(gateway.admin, "/reload").await.unwrap().status, 405);
    let pods = gateway.pods().await;
    assert_eq!(
        (&pods[0]["name"], &pods[0]["state"], &pods[0]["models"]),
        (&json!("e1"), &json!("ready"), &json!(["m-a"]))
    );
    eventually("the engine's own metrics are read", async || {
        let pods = gateway.pods().await;
        (pods[0]["engine"]["kind"] == "vllm" && pods[0]["engine"]["block_size"] == 16).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_client_without_a_key_reads_its_answer_however_much_it_sends() {
    let engines = engines(1, &["m-a"]).await;
    let gateway = Gateway::start(&format!(
        "auth: {{client_keys: [sk-1]}}\n{}",
        engines.pods()
    ))
    .await;
    for _ in 0..5 {
        let body = vec![b' '; 8 << 20];
        let answer = client::post(gateway.address, "/v1/completions", "application/json", body)
            .await
            .unwrap();
        assert_eq!(answer.status, 401);
    }
    assert!(engines.all_requests().is_empty());
    assert_eq!(get(gateway.address, "/health").await.unwrap().status, 200);
    assert_eq!(
        get(gateway.address, "/v1/models").await.unwrap().status,
        401
    );
}
