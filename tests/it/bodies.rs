//! Bodies of all sizes and framings, on the way to one pod or to the next.

use serde_json::{Value, json};
use warmgate::sim::Faults;
use xxhash_rust::xxh3::xxh3_64;

use crate::support::client::{Connection, chunked, head, post_json};
use crate::support::gateway::Gateway;
use crate::support::{engines, eventually, free_address};

const COMPLETIONS: &str = "/v1/completions";

/// A completion request of exactly `size` bytes.
fn body(size: usize) -> Vec<u8> {
    let frame = r#"{"model":"m-a","max_tokens":1,"prompt":""}"#;
    let padding = "x y ".repeat(size / 4 + 1);
    frame
        .replace("\"\"", &format!("\"{}\"", &padding[..size - frame.len()]))
        .into_bytes()
}

const SIZES: [usize; 6] = [1 << 10, 63 << 10, 64 << 10, 65 << 10, 1 << 20, 20 << 20];

#[tokio::test]
async fn every_size_and_framing_arrives_byte_for_byte() {
    let engines = engines(1, &["m-a"]).await;
    let gateway = Gateway::start(&engines.pods()).await;
    let mut connection = Connection::open(gateway.address).await.unwrap();
    for size in SIZES {
        let body = body(size);
        for (framing, expect) in [
            ("length", false),
            ("chunked", false),
            ("length", true),
            ("chunked", true),
        ] {
            let mut headers = Vec::new();
            if expect {
                headers.push(("expect", "100-continue"));
            }
            let length = if framing == "chunked" {
                headers.push(("transfer-encoding", "chunked"));
                None
            } else {
                Some(size)
            };
            connection
                .send(&head("POST", COMPLETIONS, &headers, length))
                .await
                .unwrap();
            if expect {
                assert_eq!(
                    connection.any_answer().await.unwrap().status,
                    100,
                    "{size} {framing}"
                );
            }
            let bytes = if length.is_some() {
                body.clone()
            } else {
                chunked(&body, 10_000)
            };
            connection.send(&bytes).await.unwrap();
            let answer = connection.answer().await.unwrap();
            assert_eq!(answer.status, 200, "{size} {framing} {}", answer.text());
            let seen = engines.0[0].requests().pop().unwrap();
            assert_eq!(
                (seen.body_length, seen.body_hash),
                (size, xxh3_64(&body)),
                "{size} {framing}"
            );
            assert_eq!(
                seen.header("content-length"),
                Some(size.to_string().as_str())
            );
            assert_eq!(
                (seen.header("expect"), seen.header("transfer-encoding")),
                (None, None)
            );
            engines.0[0].clear_requests();
            if framing == "chunked" {
                // What follows a chunked body is never taken for a request.
                assert_eq!(answer.header("connection"), Some("close"));
                connection = Connection::open(gateway.address).await.unwrap();
            }
        }
    }
}

#[tokio::test]
async fn an_empty_body_is_told_what_it_lacks() {
    let engines = engines(1, &["m-a"]).await;
    let gateway = Gateway::start(&engines.pods()).await;
    let mut connection = Connection::open(gateway.address).await.unwrap();
    connection
        .send(&head("POST", COMPLETIONS, &[], Some(0)))
        .await
        .unwrap();
    assert_eq!(connection.answer().await.unwrap().status, 400);
}

#[tokio::test]
async fn a_pod_that_refuses_is_passed_over_with_the_body_whole() {
    let engines = engines(1, &["m-a"]).await;
    let dead: String = (0..2)
        .map(|number| {
            format!(
                "  - {{url: \"http://{}\", name: dead{number}, models: [m-a]}}\n",
                free_address()
            )
        })
        .collect();
    // Checks are too rare to take the dead pods out: only the tries can find them.
    let config = format!("health: {{interval: 1h, unhealthy_after: 100}}\n{dead}").replace(
        "100}\n",
        &format!(
            "100}}\npods:\n  - {{url: \"{}\", name: live, models: [m-a]}}\n",
            engines.0[0].url()
        ),
    );
    let gateway = Gateway::start(&config).await;
    for (number, size) in SIZES.into_iter().cycle().take(12).enumerate() {
        let mut request: Value = serde_json::from_slice(&body(size)).unwrap();
        request["prompt"] = json!(format!("{number} {}", request["prompt"].as_str().unwrap()));
        let answer = post_json(gateway.address, COMPLETIONS, &request).await;
        assert_eq!(
            (answer.status, answer.pod()),
            (200, "live"),
            "{}",
            answer.text()
        );
        let seen = engines.0[0].requests().pop().unwrap();
        assert_eq!(seen.body_hash, xxh3_64(request.to_string().as_bytes()));
    }
    assert!(
        gateway
            .metric("warmgate_pod_connect_failures_total", &["pod=\"dead"])
            .await
            > 0.0
    );
    assert_eq!(engines.all_requests().len(), 12);
}

#[tokio::test]
async fn what_an_engine_may_have_read_is_never_sent_again() {
    let engines = engines(3, &["m-a"]).await;
    let gateway = Gateway::start(&engines.pods()).await;
    let request = serde_json::from_slice(&body(2000)).unwrap();
    // The first request leaves a kept connection to each pod; the second meets it.
    for fault in [
        Faults::default(),
        Faults {
            close_on_head: true,
            ..Faults::default()
        },
    ] {
        engines.set_faults(&fault);
        for _ in 0..6 {
            let answer = post_json(gateway.address, COMPLETIONS, &request).await;
            let expected = if fault.close_on_head { 502 } else { 200 };
            assert_eq!(answer.status, expected, "{}", answer.text());
        }
    }
    assert_eq!(engines.all_requests().len(), 12);
    gateway.until_idle().await;
}

#[tokio::test]
async fn an_upload_that_breaks_off_leaves_nothing_behind() {
    let engines = engines(1, &["m-a"]).await;
    let gateway = Gateway::start(&engines.pods()).await;
    let mut connection = Connection::open(gateway.address).await.unwrap();
    connection
        .send(&head("POST", COMPLETIONS, &[], Some(1 << 20)))
        .await
        .unwrap();
    connection.send(&body(1 << 20)[..300_000]).await.unwrap();
    connection.reset();
    eventually("the request is written down", async || {
        let ended = gateway
            .metric("warmgate_requests_ended_total", &["by=\"client\""])
            .await;
        (ended >= 1.0).then_some(())
    })
    .await;
    assert!(engines.all_requests().is_empty());
    assert_eq!(gateway.in_flight().await, [0]);
}
