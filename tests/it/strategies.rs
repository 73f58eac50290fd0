//! Every strategy through the real gateway, and what some of them need of it.

use serde_json::{Value, json};
use warmgate::routing::strategy::ALL;

use crate::support::client::{Answer, begin, request};
use crate::support::gateway::Gateway;
use crate::support::{Engines, engines, eventually};

const CHAT: &str = "/v1/chat/completions";
const NEVER: (&str, &str) = ("x-sim-fault", r#"{"never_answer":true}"#);

fn chat(content: &str) -> Value {
    json!({"model": "m-a", "max_tokens": 2, "stream": true,
        "messages": [{"role": "user", "content": content.repeat(100)}]})
}

async fn ask(gateway: &Gateway, headers: &[(&str, &str)], body: &Value) -> Answer {
    let body = body.to_string();
    let mut all = vec![("content-type", "application/json")];
    all.extend(headers);
    request(gateway.address, "POST", CHAT, &all, body.as_bytes())
        .await
        .expect("an answer")
}

fn served(engines: &Engines) -> Vec<usize> {
    let engines = engines.0.iter();
    engines.map(|engine| engine.requests().len()).collect()
}

async fn until_in_flight(gateway: &Gateway, counts: &[u64]) {
    eventually("so many are in flight", async || {
        (gateway.in_flight().await == counts).then_some(())
    })
    .await;
}

#[tokio::test]
async fn every_strategy_routes_and_says_its_name() {
    let engines = engines(3, &["m-a"]).await;
    let gateway = Gateway::start(&engines.pods()).await;
    for definition in ALL {
        for number in 0..3 {
            let headers = [("routing-strategy", definition.name), ("user", "ann")];
            let answer = ask(&gateway, &headers, &chat(&format!("{number} "))).await;
            assert_eq!(answer.status, 200, "{}: {}", definition.name, answer.text());
            assert_eq!(answer.header("routing-strategy"), Some(definition.name));
        }
    }
    gateway.until_idle().await;
}

#[tokio::test]
async fn round_robin_goes_round() {
    let engines = engines(3, &["m-a"]).await;
    let gateway = Gateway::start(&engines.pods()).await;
    for number in 0..12 {
        let headers = [("routing-strategy", "round-robin")];
        ask(&gateway, &headers, &chat(&format!("{number} "))).await;
    }
    assert_eq!(served(&engines), [4, 4, 4]);
}

#[tokio::test]
async fn waiting_prefill_keeps_least_work_away_and_streams_teach_its_speed() {
    let engines = engines(2, &["m-a"]).await;
    let gateway = Gateway::start(&engines.pods()).await;
    let headers = [("routing-strategy", "least-work")];
    ask(&gateway, &headers, &chat("first ")).await;
    let taught = gateway.pods().await;
    let speeds = taught
        .iter()
        .map(|pod| &pod["engine"]["prompt_tokens_per_second"]);
    assert_eq!(
        speeds.filter(|speed| speed.is_number()).count(),
        1,
        "{taught:?}"
    );

    // A long prompt waits at one engine: short ones go to the other.
    let held = begin(
        gateway.address,
        CHAT,
        &[NEVER, headers[0]],
        &chat(&"long ".repeat(50)),
    )
    .await;
    eventually("it is in flight", async || {
        (gateway.in_flight().await.iter().sum::<u64>() == 1).then_some(())
    })
    .await;
    let busy = gateway
        .in_flight()
        .await
        .iter()
        .position(|&count| count == 1);
    let name = format!("e{}", busy.unwrap() + 1);
    for number in 0..4 {
        let answer = ask(&gateway, &headers, &chat(&format!("{number} "))).await;
        assert_ne!(answer.pod(), name);
    }
    drop(held);
    gateway.until_idle().await;
}

#[tokio::test]
async fn with_a_latency_goal_requests_wait_for_a_pod_that_can_keep_it() {
    let engines = engines(2, &["m-a"]).await;
    let config = |wait: &str| {
        let slo = format!("routing: {{slo: {{pod_requests: 1, max_wait: {wait}}}}}\n");
        engines.pods() + &slo
    };
    let gateway = Gateway::start(&config("200ms")).await;
    let slo = ("routing-strategy", "slo");
    let first = begin(gateway.address, CHAT, &[NEVER, slo], &chat("first ")).await;
    let second = begin(gateway.address, CHAT, &[NEVER, slo], &chat("second ")).await;
    until_in_flight(&gateway, &[1, 1]).await;
    let refused = ask(&gateway, &[slo], &chat("third ")).await;
    assert_eq!(refused.status, 503, "{}", refused.text());
    assert!(
        refused.text().contains("latency goal"),
        "{}",
        refused.text()
    );
    assert!(refused.header("retry-after").is_some());
    assert_eq!(served(&engines), [1, 1]);
    // This one does not wait.
    let other = ask(
        &gateway,
        &[("routing-strategy", "slo-least-load")],
        &chat("other "),
    )
    .await;
    assert_eq!(other.status, 200);

    assert_eq!(gateway.reload(&config("30s")).await.status, 200);
    let mut waiting = begin(gateway.address, CHAT, &[slo], &chat("fourth ")).await;
    drop(first);
    let answer = waiting.answer().await.expect("an answer");
    assert_eq!(answer.status, 200, "{}", answer.text());
    drop(second);
    gateway.until_idle().await;
}

#[tokio::test]
async fn a_request_that_waits_for_certain_pods_holds_up_no_other() {
    let engines = engines(2, &["m-a"]).await;
    let slo = "routing: {strategy: slo, slo: {pod_requests: 1, max_wait: 5m}}\n";
    let pods = engines
        .pods()
        .replace("name: e1}", "name: e1, labels: {tier: gold}}");
    let gateway = Gateway::start(&(pods + slo)).await;
    let gold = ("external-filter", "tier=gold");
    let held = begin(gateway.address, CHAT, &[NEVER, gold], &chat("first ")).await;
    until_in_flight(&gateway, &[1, 0]).await;
    let mut waits = begin(gateway.address, CHAT, &[gold], &chat("second ")).await;
    for number in 0..5 {
        let answer = ask(&gateway, &[], &chat(&format!("{number} "))).await;
        assert_eq!((answer.status, answer.pod()), (200, "e2"));
    }
    drop(held);
    let answer = waits.answer().await.expect("an answer");
    assert_eq!((answer.status, answer.pod()), (200, "e1"));
}

#[tokio::test]
async fn a_client_that_leaves_while_it_waits_leaves_the_queue() {
    let engines = engines(1, &["m-a"]).await;
    let slo = "routing: {strategy: slo, slo: {pod_requests: 1, max_wait: 5m}}\n";
    let gateway = Gateway::start(&(engines.pods() + slo)).await;
    let held = begin(gateway.address, CHAT, &[NEVER], &chat("first ")).await;
    until_in_flight(&gateway, &[1]).await;
    let waits = begin(gateway.address, CHAT, &[], &chat("second ")).await;
    let behind = begin(gateway.address, CHAT, &[], &chat("third ")).await;
    drop((waits, behind));
    let gone = || {
        let log = gateway.access_log();
        let lines = log.lines().filter(|line| line.contains("status=499"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let lines = eventually("both are logged", async || {
        Some(gone()).filter(|lines| lines.len() == 2)
    })
    .await;
    for line in lines {
        assert!(line.contains("pod=-") && line.contains("tries=0"), "{line}");
    }
    // The first is counted before the engine has read it.
    eventually("the first alone is served", async || {
        (served(&engines) == [1]).then_some(())
    })
    .await;
    drop(held);
    gateway.until_idle().await;
}
