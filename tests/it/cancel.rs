//! Clients that leave, and time limits: the engine's work ends, and the counts are right.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use warmgate::sim::{Ended, Faults};

use crate::support::client::{Connection, begin, post_json};
use crate::support::gateway::Gateway;
use crate::support::{Engines, engines, eventually, within};

const CHAT: &str = "/v1/chat/completions";

fn chat(stream: bool, content: &str) -> Value {
    json!({"model": "m-a", "stream": stream, "messages": [{"role": "user", "content": content}]})
}

async fn ask(gateway: &Gateway, body: &Value) -> Connection {
    begin(gateway.address, CHAT, &[], body).await
}

async fn until_at_engines(engines: &Engines, count: usize) {
    eventually("the requests are at the engines", async || {
        (engines.all_requests().len() == count).then_some(())
    })
    .await;
}

async fn until_gone(engines: &Engines) {
    within(
        Duration::from_secs(1),
        "the engines have noticed",
        async || {
            engines
                .all_requests()
                .iter()
                .all(|request| request.ended == Ended::ClientGone)
                .then_some(())
        },
    )
    .await;
}

#[tokio::test]
async fn a_client_that_leaves_during_a_silent_prefill_ends_it() {
    let engines = engines(3, &["m-a"]).await;
    let gateway = Gateway::start(&engines.pods()).await;
    for stream in [true, false] {
        engines.set_faults(&Faults {
            never_answer: true,
            ..Faults::default()
        });
        let mut clients = Vec::new();
        for number in 0..30 {
            clients.push(ask(&gateway, &chat(stream, &number.to_string())).await);
        }
        until_at_engines(&engines, 30).await;
        assert_eq!(gateway.in_flight().await.iter().sum::<u64>(), 30);
        drop(clients);
        until_gone(&engines).await;
        gateway.until_idle().await;
        engines.0.iter().for_each(|engine| engine.clear_requests());
    }
    let left = gateway
        .metric("warmgate_requests_ended_total", &["by=\"client\"", "m-a"])
        .await;
    assert_eq!(left, 60.0);
}

#[tokio::test]
async fn a_client_that_sent_more_and_left_is_noticed_all_the_same() {
    let engines = engines(1, &["m-a"]).await;
    let gateway = Gateway::start(&engines.pods()).await;
    engines.set_faults(&Faults {
        never_answer: true,
        ..Faults::default()
    });
    let mut client = ask(&gateway, &chat(false, "x")).await;
    until_at_engines(&engines, 1).await;
    client.send(b"GET /v1/models HTTP/1.1\r\n").await.unwrap();
    drop(client);
    until_gone(&engines).await;
    gateway.until_idle().await;
}

#[tokio::test]
async fn clients_that_leave_in_mid_stream_are_counted_as_such() {
    let engines = engines(2, &["m-a"]).await;
    let gateway = Gateway::start(&engines.pods()).await;
    engines.set_faults(&Faults {
        events: Some(300),
        event_interval_ms: 20,
        ..Faults::default()
    });
    let mut clients = Vec::new();
    for number in 0..50 {
        clients.push(ask(&gateway, &chat(true, &number.to_string())).await);
    }
    for client in &mut clients {
        client.head().await.unwrap();
        let mut events = 0;
        while events < 5 {
            let chunk = client.chunk().await.unwrap().unwrap();
            events += String::from_utf8_lossy(&chunk).matches("event").count();
        }
    }
    drop(clients);
    within(
        Duration::from_secs(2),
        "no request is in flight",
        async || {
            gateway
                .in_flight()
                .await
                .iter()
                .all(|&count| count == 0)
                .then_some(())
        },
    )
    .await;
    until_gone(&engines).await;
    let ended = async |by: &str| {
        gateway
            .metric("warmgate_requests_ended_total", &[by, "m-a"])
            .await
    };
    assert_eq!(
        (
            ended("by=\"client\"").await,
            ended("by=\"ok\"").await,
            ended("by=\"engine\"").await
        ),
        (50.0, 0.0, 0.0)
    );
}

#[tokio::test]
async fn errors_and_leavers_leave_counts_at_zero_and_the_spread_even() {
    let engines = engines(3, &["m-a"]).await;
    let gateway = Gateway::start(&engines.pods()).await;
    engines.set_faults(&Faults {
        status: Some(500),
        ..Faults::default()
    });
    for number in 0..30 {
        assert_eq!(
            post_json(gateway.address, CHAT, &chat(false, &number.to_string()))
                .await
                .status,
            500
        );
    }
    gateway.until_idle().await;
    engines.set_faults(&Faults::default());
    engines.0.iter().for_each(|engine| engine.clear_requests());
    for number in 0..30 {
        let cold = format!("{number} ").repeat(100);
        assert_eq!(
            post_json(gateway.address, CHAT, &chat(false, &cold))
                .await
                .status,
            200
        );
    }
    let spread: Vec<usize> = engines
        .0
        .iter()
        .map(|engine| engine.requests().len())
        .collect();
    assert!(
        spread.iter().all(|count| (7..=13).contains(count)),
        "{spread:?}"
    );
}

#[tokio::test]
async fn each_time_limit_is_504_or_a_cut_and_frees_the_pod() {
    let cases = [
        (
            "request: 500ms",
            Faults {
                never_answer: true,
                ..Faults::default()
            },
            false,
        ),
        (
            "first_byte: 500ms",
            Faults {
                never_answer: true,
                ..Faults::default()
            },
            false,
        ),
        (
            "idle: 500ms",
            Faults {
                events: Some(2),
                event_interval_ms: 60_000,
                ..Faults::default()
            },
            true,
        ),
    ];
    for (limit, fault, stream) in cases {
        let engines = engines(1, &["m-a"]).await;
        let gateway = Gateway::start(&format!("timeouts: {{{limit}}}\n{}", engines.pods())).await;
        engines.set_faults(&fault);
        let begun = Instant::now();
        let answer = ask(&gateway, &chat(stream, "x"))
            .await
            .answer()
            .await
            .unwrap();
        let took = begun.elapsed();
        assert!((400..2000).contains(&took.as_millis()), "{limit}: {took:?}");
        if stream {
            assert!(!answer.complete, "{limit}");
        } else {
            assert_eq!(answer.status, 504, "{limit}");
            assert!(
                answer.json()["error"]["message"]
                    .as_str()
                    .unwrap()
                    .contains("timeouts."),
                "{}",
                answer.text()
            );
        }
        until_gone(&engines).await;
        gateway.until_idle().await;
    }
}

#[tokio::test]
async fn an_address_that_swallows_connections_costs_only_the_connect_limit() {
    let engines = engines(1, &["m-a"]).await;
    // A listener whose queue is full takes no further connection, and refuses none.
    let full = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = full.local_addr().unwrap();
    let mut queued = Vec::new();
    while let Ok(stream) =
        std::net::TcpStream::connect_timeout(&address, Duration::from_millis(200))
    {
        queued.push(stream);
        assert!(queued.len() < 10_000, "the queue has no end");
    }
    let config = format!(
        "timeouts: {{connect: 1s}}\nhealth: {{interval: 1h, timeout: 300ms, unhealthy_after: 100}}\nmetrics_poll: 1h\npods:\n  \
         - {{url: \"http://{address}\", name: full, models: [m-a]}}\n  - {{url: \"{}\", name: live, models: [m-a]}}\n",
        engines.0[0].url()
    );
    let gateway = Gateway::start(&config).await;
    for number in 0..4 {
        let begun = Instant::now();
        let answer = post_json(
            gateway.address,
            CHAT,
            &chat(false, &format!("{number} ").repeat(100)),
        )
        .await;
        assert_eq!(
            (answer.status, answer.pod()),
            (200, "live"),
            "{}",
            answer.text()
        );
        assert!(begun.elapsed() < Duration::from_secs(4));
    }
    assert!(
        gateway
            .metric("warmgate_pod_connect_failures_total", &["pod=\"full\""])
            .await
            > 0.0
    );
}
