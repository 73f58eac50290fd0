//! Requests that belong together and stay on a pod: by the id they were given, or by a key of their own.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use warmgate::sim::Faults;

use crate::support::client::{Answer, request};
use crate::support::gateway::Gateway;
use crate::support::{Engines, engines, eventually, free_address};

const AFFINITY: &str = "routing: {strategy: session-affinity, session_affinity: {key_headers: [x-run, x-aibrix-session-key]}}\n";

async fn started(count: usize) -> (Engines, Gateway) {
    let engines = engines(count, &["m-a"]).await;
    let gateway = Gateway::start(&format!("{AFFINITY}{}", engines.pods())).await;
    (engines, gateway)
}

async fn ask(gateway: &Gateway, headers: &[(&str, &str)]) -> Answer {
    let mut all = vec![("content-type", "application/json")];
    all.extend_from_slice(headers);
    let body = json!({"model": "m-a", "max_tokens": 1, "prompt": "anything"}).to_string();
    let answer = request(
        gateway.address,
        "POST",
        "/v1/completions",
        &all,
        body.as_bytes(),
    )
    .await
    .expect("an answer");
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer
}

fn id(answer: &Answer) -> String {
    answer.header("x-session-id").expect("an id").to_owned()
}

#[tokio::test]
async fn a_session_s_id_leads_back_to_its_pod_and_failover_gives_another() {
    let (mut engines, gateway) = started(3).await;
    let first = ask(&gateway, &[]).await;
    let own = id(&first);
    assert_eq!(
        STANDARD.decode(&own).unwrap(),
        first.header("target-pod-ip").unwrap().as_bytes()
    );
    for _ in 0..5 {
        let again = ask(&gateway, &[("x-session-id", &own)]).await;
        assert_eq!((again.pod(), id(&again)), (first.pod(), own.clone()));
        // Others are spread meanwhile.
        ask(&gateway, &[]).await;
    }
    let number: usize = first.pod()[1..].parse().unwrap();
    drop(engines.0.remove(number - 1));
    let moved = ask(&gateway, &[("x-session-id", &own)]).await;
    assert_ne!(moved.pod(), first.pod());
    let next = id(&moved);
    assert_ne!(next, own);
    let stays = ask(&gateway, &[("x-session-id", &next)]).await;
    assert_eq!((stays.pod(), id(&stays)), (moved.pod(), next));
}

#[tokio::test]
async fn an_address_that_is_none_of_our_pods_is_never_connected_to() {
    let (engines, gateway) = started(2).await;
    let stranger = std::net::TcpListener::bind(free_address()).unwrap();
    stranger.set_nonblocking(true).unwrap();
    let address = stranger.local_addr().unwrap().to_string();
    for id in [
        STANDARD.encode(&address),
        STANDARD.encode(format!("http://{address}")),
        "not base64 \u{fffd}".to_owned(),
        "A".repeat(4000),
    ] {
        ask(&gateway, &[("x-session-id", &id)]).await;
    }
    assert_eq!(engines.all_requests().len(), 4);
    let error = stranger.accept().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
}

#[tokio::test]
async fn a_run_of_an_agent_stays_on_its_pod_on_every_gateway() {
    let (engines, one) = started(3).await;
    let other = Gateway::start(&format!("{AFFINITY}{}", engines.pods())).await;
    let mut used = std::collections::BTreeSet::new();
    for run in 0..12 {
        let run = format!("run-{run}");
        let home = ask(&one, &[("x-run", &run)]).await.pod().to_owned();
        for gateway in [&one, &other, &one] {
            let both = [("x-aibrix-session-key", "something"), ("x-run", &*run)];
            assert_eq!(ask(gateway, &both).await.pod(), home);
        }
        let same_key = ask(&other, &[("x-aibrix-session-key", &run)]).await;
        assert_eq!(same_key.pod(), home);
        used.insert(home);
    }
    assert!(used.len() > 1, "{used:?}");
}

#[tokio::test]
async fn a_run_leaves_a_pod_that_is_out_and_comes_back_with_it() {
    let (engines, gateway) = started(2).await;
    let key = [("x-aibrix-session-key", "run-1")];
    let home = ask(&gateway, &key).await.pod().to_owned();
    let number: usize = home[1..].parse().unwrap();
    let out = Faults {
        health_status: Some(503),
        ..Faults::default()
    };
    engines.0[number - 1].set_faults(out);
    eventually("the run moves", async || {
        (ask(&gateway, &key).await.pod() != home).then_some(())
    })
    .await;
    engines.0[number - 1].set_faults(Faults::default());
    eventually("the run is back", async || {
        (ask(&gateway, &key).await.pod() == home).then_some(())
    })
    .await;
}

#[tokio::test]
async fn other_strategies_give_no_id() {
    let engines = engines(1, &["m-a"]).await;
    let gateway = Gateway::start(&engines.pods()).await;
    let answer = ask(&gateway, &[("x-aibrix-session-key", "k")]).await;
    assert_eq!(answer.header("x-session-id"), None);
    let list = [("routing-strategy", "prefix-cache:2,session-affinity")];
    assert!(ask(&gateway, &list).await.header("x-session-id").is_some());
}
