//! Where requests go: with their prefix, by load, apart from other models.

use serde_json::{Value, json};
use warmgate::sim::Faults;

use crate::support::client::{Answer, Connection, begin, get, post_json};
use crate::support::gateway::Gateway;
use crate::support::{Engines, engines, eventually, free_address};

const CHAT: &str = "/v1/chat/completions";

fn chat(model: &str, content: &str) -> Value {
    json!({"model": model, "max_tokens": 1, "messages": [{"role": "user", "content": content}]})
}

/// A prompt that shares no block with that of another number.
fn cold(number: usize) -> Value {
    chat("m-a", &format!("{number} ").repeat(200))
}

async fn send(gateway: &Gateway, body: &Value) -> Answer {
    let answer = post_json(gateway.address, CHAT, body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer
}

/// Requests that stay open at their engine until they are dropped.
async fn hold(gateway: &Gateway, count: usize, body: impl Fn(usize) -> Value) -> Vec<Connection> {
    let mut held = Vec::new();
    for number in 0..count {
        let fault = [("x-sim-fault", r#"{"never_answer":true}"#)];
        held.push(begin(gateway.address, CHAT, &fault, &body(number)).await);
    }
    held
}

async fn until_in_flight(gateway: &Gateway, count: u64) {
    eventually("so many are in flight", async || {
        (gateway.in_flight().await.iter().sum::<u64>() == count).then_some(())
    })
    .await;
}

fn counts(engines: &Engines) -> Vec<usize> {
    engines
        .0
        .iter()
        .map(|engine| engine.requests().len())
        .collect()
}

#[tokio::test]
async fn held_requests_count_all_the_time_and_keep_cold_prompts_away() {
    let engines = engines(3, &["m-a"]).await;
    let gateway = Gateway::start(&engines.pods()).await;
    let hot = "a prefix that all of these share ".repeat(50);
    send(&gateway, &chat("m-a", &hot)).await;
    let held = hold(&gateway, 8, |number| chat("m-a", &format!("{hot}{number}"))).await;
    until_in_flight(&gateway, 8).await;
    let before = gateway.in_flight().await;
    assert_eq!(before.iter().max(), Some(&8), "{before:?}");
    let busy = format!(
        "e{}",
        before.iter().position(|&count| count == 8).unwrap() + 1
    );
    for number in 0..6 {
        assert_ne!(send(&gateway, &cold(number)).await.pod(), busy);
        eventually("the held ones are counted as before", async || {
            let now = gateway.in_flight().await;
            assert!(
                now.iter().zip(&before).all(|(now, before)| now >= before),
                "{now:?}"
            );
            (now == before).then_some(())
        })
        .await;
    }
    drop(held);
    gateway.until_idle().await;
}

#[tokio::test]
async fn unlike_prompts_spread_evenly_also_after_a_restart() {
    let engines = engines(3, &["m-a"]).await;
    for start in 0..2 {
        let gateway = Gateway::start(&engines.pods()).await;
        for number in 0..150 {
            send(&gateway, &cold(start * 1000 + number)).await;
        }
        let spread = counts(&engines);
        assert!(
            spread.iter().all(|count| (37..=63).contains(count)),
            "{spread:?}"
        );
        engines.0.iter().for_each(|engine| engine.clear_requests());
    }
}

#[tokio::test]
async fn a_conversation_stays_where_it_is_and_leaves_only_over_the_gate_once() {
    let engines = engines(3, &["m-a"]).await;
    let gateway = Gateway::start(&engines.pods()).await;
    let turn = |count: usize| {
        chat(
            "m-a",
            &(0..=count)
                .map(|turn| format!("turn {turn}: ").repeat(100))
                .collect::<String>(),
        )
    };
    let first = send(&gateway, &turn(0)).await.pod().to_owned();
    // Two more than the others is below the gate (a gap of 8): the only holder of the prefix wins by 5 of 9.
    let held = hold(&gateway, 2, |number| {
        chat("m-a", &format!("{}held {number}", "turn 0: ".repeat(100)))
    })
    .await;
    until_in_flight(&gateway, 2).await;
    for count in 1..5 {
        assert_eq!(send(&gateway, &turn(count)).await.pod(), first);
    }
    let more = hold(&gateway, 6, |number| {
        chat("m-a", &format!("{}more {number}", "turn 0: ".repeat(100)))
    })
    .await;
    until_in_flight(&gateway, 8).await;
    let second = send(&gateway, &turn(5)).await.pod().to_owned();
    assert_ne!(second, first);
    for count in 6..9 {
        // The gate takes only the least busy: the turn before must be off the count.
        until_in_flight(&gateway, 8).await;
        assert_eq!(send(&gateway, &turn(count)).await.pod(), second);
    }
    drop((held, more));
}

#[tokio::test]
async fn a_new_pod_gets_cold_prompts_and_the_hot_prefix_stays() {
    let all = engines(3, &["m-a"]).await;
    let pods = all.pods();
    let two = pods.rsplit_once("  - ").unwrap().0.to_owned();
    let gateway = Gateway::start(&two).await;
    let hot = chat("m-a", &"the hot prefix ".repeat(100));
    let home = send(&gateway, &hot).await.pod().to_owned();
    for number in 0..20 {
        send(&gateway, &cold(number)).await;
    }
    assert_eq!(gateway.reload(&pods).await.status, 200);
    eventually("the new pod serves", async || {
        let pods = gateway.pods().await;
        (pods.len() == 3 && pods[2]["models"][0] == "m-a").then_some(())
    })
    .await;
    for number in 100..190 {
        send(&gateway, &cold(number)).await;
        assert_eq!(send(&gateway, &hot).await.pod(), home);
    }
    let new = all.0[2].requests().len();
    assert!((18..=54).contains(&new), "{new} of 90");
}

#[tokio::test]
async fn names_keep_their_pods_and_their_prefixes_apart() {
    let mut all = engines(1, &["m-a", "m-a-2", "lora-x"]).await;
    all.0.extend(engines(1, &["m-a"]).await.0);
    all.0
        .extend(engines(1, &["m-a", "m-a-2", "lora-x"]).await.0);
    let config = format!(
        "models: {{m-a: {{strategy: prefix-cache}}}}\n{}",
        all.pods()
    );
    let gateway = Gateway::start(&config).await;
    gateway.until_models(&["m-a", "m-a-2", "lora-x"]).await;
    let prompt = "words that were warmed under another name ".repeat(40);
    for _ in 0..3 {
        send(&gateway, &chat("m-a", &prompt)).await;
    }
    let first = send(&gateway, &chat("lora-x", &prompt))
        .await
        .pod()
        .to_owned();
    assert!(["e1", "e3"].contains(&first.as_str()), "{first}");
    for _ in 0..5 {
        assert_eq!(send(&gateway, &chat("lora-x", &prompt)).await.pod(), first);
    }
    assert_ne!(send(&gateway, &chat("m-a-2", &prompt)).await.pod(), "e2");
    let list = get(gateway.address, "/v1/models").await.unwrap().json();
    let names: Vec<_> = list["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|model| model["id"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["lora-x", "m-a", "m-a-2"]);
    eventually("the first lora request matched nothing", async || {
        let log = gateway.access_log();
        let line = log
            .lines()
            .find(|line| line.contains("model=lora-x"))?
            .to_owned();
        assert!(line.contains("matched_blocks=0"), "{line}");
        Some(())
    })
    .await;
}

#[tokio::test]
async fn an_alias_from_the_configuration_is_a_name_of_its_own() {
    let engines = engines(2, &["m-a", "m-a-2"]).await;
    let listed = engines.pods().replace("name: e", "models: [m-a], name: e");
    let models = "models: {m-a: {aliases: [m-a-2], strategy: \"prefix-cache:3,load-balance:1\"}}\n";
    let gateway = Gateway::start(&format!("{models}{listed}")).await;
    let prompt = "some prompt ".repeat(100);
    send(&gateway, &chat("m-a", &prompt)).await;
    let by_alias = send(&gateway, &chat("m-a-2", &prompt)).await;
    assert_eq!(
        by_alias.header("routing-strategy"),
        Some("prefix-cache:3,load-balance:1")
    );
    assert_eq!(
        gateway
            .metric(
                "aibrix_prefix_cache_routing_selection_total",
                &["least_request_fallback"]
            )
            .await,
        2.0
    );
}

#[tokio::test]
async fn other_paths_go_by_the_model_they_name_or_to_any_pod_of_a_uniform_fleet() {
    let uniform = engines(2, &["m-a"]).await;
    // One that never tells what it serves is no reason to refuse.
    let dead = format!("  - {{url: \"http://{}\", name: dead}}\n", free_address());
    let gateway = Gateway::start(&(uniform.pods() + &dead)).await;
    uniform.set_faults(&Faults {
        events: Some(1),
        ..Faults::default()
    });
    assert_eq!(
        get(gateway.address, "/v1/unheard-of?x=1")
            .await
            .unwrap()
            .status,
        200
    );
    assert_eq!(uniform.all_requests()[0].target, "/v1/unheard-of?x=1");

    let mut mixed = engines(1, &["m-a"]).await;
    mixed.0.extend(engines(1, &["m-b"]).await.0);
    let gateway = Gateway::start(&mixed.pods()).await;
    gateway.until_models(&["m-a", "m-b"]).await;
    mixed.set_faults(&Faults {
        events: Some(1),
        ..Faults::default()
    });
    assert_eq!(
        get(gateway.address, "/v1/unheard-of").await.unwrap().status,
        404
    );
    let named = post_json(gateway.address, "/v1/unheard-of", &json!({"model": "m-b"})).await;
    assert_eq!((named.status, named.pod()), (200, "e2"));
}
