//! Profiles of a model: which one a request gets, and what it changes.

use serde_json::{Value, json};

use crate::support::client::{Answer, Connection, begin, request};
use crate::support::gateway::Gateway;
use crate::support::{engines, eventually};

const PATH: &str = "/v1/completions";

async fn ask(gateway: &Gateway, headers: &[(&str, &str)], body: &Value) -> Answer {
    let mut all = vec![("content-type", "application/json")];
    all.extend_from_slice(headers);
    let body = body.to_string();
    request(gateway.address, "POST", PATH, &all, body.as_bytes())
        .await
        .expect("an answer")
}

fn prompt(bytes: usize) -> Value {
    json!({"model": "m-a", "max_tokens": 1, "prompt": "x".repeat(bytes)})
}

async fn until_in_flight(gateway: &Gateway, count: u64) {
    eventually("so many are in flight", async || {
        (gateway.in_flight().await.iter().sum::<u64>() == count).then_some(())
    })
    .await;
}

#[tokio::test]
async fn the_header_wins_over_the_profile_and_the_profile_over_the_file() {
    let engines = engines(2, &["m-a"]).await;
    let config = format!(
        "routing: {{strategy: random}}\n\
         models: {{m-a: {{strategy: load-balance, default_profile: base, profiles: {{base: , own: {{routingStrategy: least-request}}, \
         long: {{promptTokensGte: 100, routingStrategy: \"prefix-cache:2,least-request\"}}}}}}}}\n{}",
        engines.pods()
    );
    let gateway = Gateway::start(&config).await;
    let check = async |headers: &[(&str, &str)], bytes: usize, strategy: &str, profile: &str| {
        let answer = ask(&gateway, headers, &prompt(bytes)).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.header("routing-strategy"), Some(strategy));
        assert_eq!(answer.header("x-aibrix-config-profile"), Some(profile));
    };
    let blend = "prefix-cache:2,least-request";
    check(&[], 10, "load-balance", "base").await;
    check(&[("config-profile", "own")], 10, "least-request", "own").await;
    check(&[("config-profile", "nope")], 10, "load-balance", "base").await;
    check(&[("config-profile", " auto ")], 400, blend, "long").await;
    check(&[("config-profile", "auto")], 396, "load-balance", "base").await;
    let both = [("config-profile", "own"), ("routing-strategy", "random")];
    check(&both, 10, "random", "own").await;
}

#[tokio::test]
async fn a_locked_strategy_cannot_be_asked_away() {
    let engines = engines(1, &["m-a"]).await;
    let config = format!(
        "models: {{m-a: {{lockedRoutingStrategy: least-request}}}}\n{}",
        engines.pods()
    );
    let gateway = Gateway::start(&config).await;
    let answer = ask(&gateway, &[("routing-strategy", "random")], &prompt(9)).await;
    assert_eq!(answer.header("routing-strategy"), Some("least-request"));
    assert_eq!(answer.header("x-aibrix-config-profile"), None);
}

#[tokio::test]
async fn requests_beyond_the_profile_s_rate_are_told_to_wait() {
    let engines = engines(1, &["m-a", "m-a-2"]).await;
    let config = format!(
        "models: {{m-a: {{aliases: [m-a-2], profiles: {{default: , slow: {{requestsPerSecondPerReplica: 0.01}}}}}}}}\n{}",
        engines.pods()
    );
    let gateway = Gateway::start(&config).await;
    let slow = [("config-profile", "slow")];
    assert_eq!(ask(&gateway, &slow, &prompt(9)).await.status, 200);
    let alias = json!({"model": "m-a-2", "max_tokens": 1, "prompt": "x"});
    for body in [prompt(9), alias] {
        let refused = ask(&gateway, &slow, &body).await;
        assert_eq!(refused.status, 429);
        assert_eq!(refused.header("x-error-model-rps-exceeded"), Some("true"));
        assert_eq!(refused.json()["error"]["type"], "rate_limit_error");
        let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
        assert!((60..=100).contains(&wait), "{wait}");
    }
    assert_eq!(ask(&gateway, &[], &prompt(9)).await.status, 200);
}

#[tokio::test]
async fn a_pod_gets_no_more_requests_than_the_profile_lets_run() {
    let engines = engines(2, &["m-a"]).await;
    let config = format!(
        "models: {{m-a: {{profiles: {{default: {{requestsInflight: 2}}}}}}}}\n{}",
        engines.pods()
    );
    let gateway = Gateway::start(&config).await;
    let hold = async |count: usize| {
        let mut held: Vec<Connection> = Vec::new();
        for _ in 0..count {
            let fault = [("x-sim-fault", r#"{"never_answer":true}"#)];
            held.push(begin(gateway.address, PATH, &fault, &prompt(9)).await);
        }
        held
    };
    // No strategy is named, so the limit spreads them.
    let held = hold(4).await;
    until_in_flight(&gateway, 4).await;
    assert_eq!(gateway.in_flight().await, [2, 2]);
    let refused = ask(&gateway, &[], &prompt(9)).await;
    assert_eq!(refused.status, 429);
    assert_eq!(
        refused.header("x-error-replica-inflight-exceeded"),
        Some("true")
    );
    assert_eq!(refused.json()["error"]["type"], "overloaded_error");
    assert!(refused.header("retry-after").is_some());
    drop(held);
    gateway.until_idle().await;
    let answer = ask(&gateway, &[], &prompt(9)).await;
    assert_eq!(answer.header("routing-strategy"), Some("least-request"));
}
