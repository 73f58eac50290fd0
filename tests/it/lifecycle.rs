//! Health, reload, start and end.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use warmgate::sim::Faults;

use crate::support::client::{Connection, begin, get, post_json};
use crate::support::gateway::Gateway;
use crate::support::{engine_at, engines, eventually};

const CHAT: &str = "/v1/chat/completions";

fn chat(content: &str) -> Value {
    json!({"model": "m-a", "max_tokens": 1, "messages": [{"role": "user", "content": content}]})
}

/// A stream of `events` events, 100 ms apart; returns when the first has come.
async fn stream(gateway: &Gateway, events: usize) -> (Connection, String) {
    let body =
        json!({"model": "m-a", "stream": true, "messages": [{"role": "user", "content": "x"}]});
    let fault = format!(r#"{{"events":{events},"event_interval_ms":100}}"#);
    let mut connection = begin(gateway.address, CHAT, &[("x-sim-fault", &fault)], &body).await;
    let pod = connection.head().await.unwrap().pod().to_owned();
    connection.chunk().await.unwrap().unwrap();
    (connection, pod)
}

async fn rest(connection: &mut Connection) -> (usize, bool) {
    let mut events = 1;
    loop {
        match connection.chunk().await.unwrap() {
            None => return (events, false),
            Some(chunk) if chunk.is_empty() => return (events, true),
            Some(chunk) => events += String::from_utf8_lossy(&chunk).matches("event").count(),
        }
    }
}

#[tokio::test]
async fn one_failed_check_removes_nobody_and_several_in_a_row_do_until_it_is_well() {
    let engines = engines(3, &["m-a"]).await;
    let config = engines.pods().replace("timeout: 1s", "timeout: 300ms");
    let gateway = Gateway::start(&config).await;
    let now_and_then = Faults {
        health_delay_ms: 450,
        health_slow_every: Some(3),
        ..Faults::default()
    };
    engines.set_faults(&now_and_then);
    let checks = engines.0[0].health_checks();
    eventually("many checks, some of them slow", async || {
        (engines.0[0].health_checks() >= checks + 9).then_some(())
    })
    .await;
    assert!(
        !gateway.error_log().contains("taken out"),
        "{}",
        gateway.error_log()
    );
    assert_eq!(
        post_json(gateway.address, CHAT, &chat("x")).await.status,
        200
    );

    engines.set_faults(&Faults {
        health_status: Some(500),
        ..Faults::default()
    });
    eventually("all are out", async || {
        gateway
            .pods()
            .await
            .iter()
            .all(|pod| pod["state"] == "out")
            .then_some(())
    })
    .await;
    // The floor of a half keeps some of them routable.
    assert_eq!(
        post_json(gateway.address, CHAT, &chat("x")).await.status,
        200
    );
    engines.set_faults(&Faults::default());
    eventually("all are back", async || {
        gateway
            .pods()
            .await
            .iter()
            .all(|pod| pod["state"] == "ready")
            .then_some(())
    })
    .await;
    let log = gateway.error_log();
    for change in ["is taken out", "is well again"] {
        assert_eq!(log.matches(change).count(), 3, "{log}");
    }
}

#[tokio::test]
async fn without_a_floor_a_sick_fleet_is_503() {
    let engines = engines(2, &["m-a"]).await;
    let config = engines
        .pods()
        .replace("health: {", "health: {min_available: 0, ");
    let gateway = Gateway::start(&config).await;
    engines.set_faults(&Faults {
        health_status: Some(500),
        ..Faults::default()
    });
    let answer = eventually("no pod is left", async || {
        let answer = post_json(gateway.address, CHAT, &chat("x")).await;
        (answer.status == 503).then_some(answer)
    })
    .await;
    assert!(answer.header("retry-after").is_some());
    assert_eq!(get(gateway.admin, "/readyz").await.unwrap().status, 503);
    assert_eq!(get(gateway.admin, "/livez").await.unwrap().status, 200);
}

#[tokio::test]
async fn a_pod_that_goes_and_comes_back_counts_right_and_gets_its_share() {
    let mut engines = engines(2, &["m-a"]).await;
    let config = format!("routing: {{strategy: least-request}}\n{}", engines.pods());
    let gateway = Gateway::start(&config).await;
    let address = engines.0[1].address();
    let (mut open, _) = stream(&gateway, 30).await;
    let total = async || gateway.in_flight().await.iter().sum::<u64>();
    assert_eq!(total().await, 1);
    engines.0.pop().unwrap().stop().await;
    eventually("it is out", async || {
        (gateway.pods().await[1]["state"] == "out").then_some(())
    })
    .await;
    assert!(total().await <= 1);
    engines.0.push(engine_at(address, &["m-a"]).await);
    eventually("it is back", async || {
        (gateway.pods().await[1]["state"] == "ready").then_some(())
    })
    .await;
    for number in 0..40 {
        assert_eq!(
            post_json(gateway.address, CHAT, &chat(&number.to_string()))
                .await
                .status,
            200
        );
    }
    assert!(engines.0[1].requests().len() >= 10);
    rest(&mut open).await;
    gateway.until_idle().await;
}

#[tokio::test]
async fn a_removed_pod_ends_its_streams_and_gets_nothing_new() {
    let engines = engines(2, &["m-a"]).await;
    let gateway = Gateway::start(&engines.pods()).await;
    let (mut open, pod) = stream(&gateway, 12).await;
    let without: String = engines
        .pods()
        .lines()
        .filter(|line| !line.contains(&format!("name: {pod}")))
        .map(|line| format!("{line}\n"))
        .collect();
    assert_eq!(gateway.reload(&without).await.status, 200);
    let number = if pod == "e1" { 0 } else { 1 };
    let before = engines.0[number].requests().len();
    for number in 0..10 {
        assert_ne!(
            post_json(gateway.address, CHAT, &chat(&number.to_string()))
                .await
                .pod(),
            pod
        );
    }
    assert_eq!(rest(&mut open).await, (12, true));
    assert_eq!(engines.0[number].requests().len(), before);
}

#[tokio::test]
async fn a_broken_file_changes_nothing_and_says_why() {
    let engines = engines(1, &["m-a"]).await;
    let gateway = Gateway::start(&engines.pods()).await;
    let prompt = chat(&"a prompt to remember ".repeat(40));
    post_json(gateway.address, CHAT, &prompt).await;
    let blocks = gateway.metric("warmgate_index_blocks", &[]).await;
    assert!(blocks > 0.0);
    let (mut open, _) = stream(&gateway, 8).await;
    let answer = gateway
        .reload(&format!(
            "timeuts: 5\nretry: {{attempts: many}}\n{}",
            engines.pods()
        ))
        .await;
    assert_eq!(answer.status, 422);
    for part in [
        "timeuts: unknown key, did you mean timeouts?",
        "retry.attempts: ",
    ] {
        assert!(answer.text().contains(part), "{}", answer.text());
    }
    assert_eq!(
        post_json(gateway.address, CHAT, &chat("x")).await.status,
        200
    );
    assert_eq!(gateway.metric("warmgate_index_blocks", &[]).await, blocks);
    assert_eq!(
        gateway
            .metric("warmgate_config_reloads_total", &["error"])
            .await,
        1.0
    );
    assert_eq!(
        gateway
            .error_log()
            .matches("reload: nothing changed")
            .count(),
        1
    );
    assert_eq!(rest(&mut open).await, (8, true));
}

#[tokio::test]
async fn sighup_reads_the_file_again_with_index_and_limits() {
    let engines = engines(1, &["m-a"]).await;
    let gateway = Gateway::start(&engines.pods()).await;
    post_json(
        gateway.address,
        CHAT,
        &chat(&"a prompt to remember ".repeat(40)),
    )
    .await;
    let blocks = gateway.metric("warmgate_index_blocks", &[]).await;
    gateway.write(&format!("limits: {{body: 1KiB}}\n{}", engines.pods()));
    gateway.signal("HUP");
    eventually("the new limit holds", async || {
        let answer = post_json(gateway.address, CHAT, &chat(&"long ".repeat(1000))).await;
        (answer.status == 413).then_some(())
    })
    .await;
    assert!(gateway.metric("warmgate_index_blocks", &[]).await >= blocks);
}

#[tokio::test]
async fn sigterm_lets_open_requests_finish_and_takes_no_new_ones() {
    let engines = engines(1, &["m-a"]).await;
    let mut gateway = Gateway::start(&engines.pods()).await;
    let (mut open, _) = stream(&gateway, 15).await;
    gateway.signal("TERM");
    eventually("new connections are refused", async || {
        tokio::net::TcpStream::connect(gateway.address)
            .await
            .is_err()
            .then_some(())
    })
    .await;
    assert_eq!(rest(&mut open).await, (15, true));
    assert_eq!(gateway.ended().await, Some(0));
}

#[tokio::test]
async fn an_answer_that_begins_after_sigterm_ends_its_connection() {
    let engines = engines(1, &["m-a"]).await;
    let mut gateway = Gateway::start(&engines.pods()).await;
    engines.set_faults(&Faults {
        hold: true,
        ..Faults::default()
    });
    let mut open = begin(gateway.address, CHAT, &[], &chat("x")).await;
    eventually("it is at the engine", async || {
        (engines.all_requests().len() == 1).then_some(())
    })
    .await;
    gateway.signal("TERM");
    eventually("new connections are refused", async || {
        tokio::net::TcpStream::connect(gateway.address)
            .await
            .is_err()
            .then_some(())
    })
    .await;
    engines.0[0].release();
    let answer = open.answer().await.unwrap();
    assert_eq!(
        (answer.status, answer.header("connection")),
        (200, Some("close"))
    );
    assert_eq!(gateway.ended().await, Some(0));
}

#[tokio::test]
async fn sigterm_waits_no_longer_than_the_grace_time() {
    let engines = engines(1, &["m-a"]).await;
    let config = format!(
        "server: {{listen: [\"$ADDRESS\"], shutdown_grace: 500ms}}\n{}",
        engines.pods()
    );
    let mut gateway = Gateway::start(&config).await;
    let (_open, _) = stream(&gateway, 1000).await;
    gateway.signal("TERM");
    let ended = tokio::time::timeout(Duration::from_secs(10), gateway.ended()).await;
    assert_eq!(ended.expect("in time"), Some(0));
}

fn warmgate(arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_warmgate"))
        .args(arguments)
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.code(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

#[test]
fn a_start_that_cannot_be_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bad.yaml");
    std::fs::write(&file, "pods: [ftp://x]\nlimits: {body: big}\nsrver: 1\n").unwrap();
    let (code, text) = warmgate(&["check", "-c", file.to_str().unwrap()]);
    assert_eq!(code, Some(64), "{text}");
    for part in ["pods[0]", "limits.body", "srver: unknown key"] {
        assert!(text.contains(part), "{text}");
    }
    let (code, text) = warmgate(&["serve", "-c", "/nowhere/x.yaml"]);
    assert_eq!(code, Some(64), "{text}");
    assert!(text.contains("/nowhere/x.yaml"), "{text}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, text) = warmgate(&[
        "serve",
        "--pod",
        "http://127.0.0.1:1",
        "--listen",
        &address,
        "--admin",
        "127.0.0.1:0",
    ]);
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains(&address) && text.contains("server.listen"),
        "{text}"
    );
}
