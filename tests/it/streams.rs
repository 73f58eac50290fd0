//! Answers on their way to the client: at once, unchanged, and broken where the engine broke.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use warmgate::sim::{Chunk, Faults};

use crate::support::client::{Answer, Connection, begin, post_json};
use crate::support::gateway::Gateway;
use crate::support::{engines, eventually};

const CHAT: &str = "/v1/chat/completions";

fn chat(stream: bool) -> Value {
    json!({"model": "m-a", "stream": stream, "max_tokens": 5, "messages": [{"role": "user", "content": "x"}]})
}

/// Sends a request for a stream; the connection is where the answer begins.
async fn ask(gateway: &Gateway, body: &Value) -> Connection {
    begin(gateway.address, CHAT, &[], body).await
}

/// One engine that sends exactly these chunks, and what the client got of them.
async fn through(script: Vec<Chunk>) -> Answer {
    let engines = engines(1, &["m-a"]).await;
    let gateway = Gateway::start(&engines.pods()).await;
    engines.set_faults(&Faults {
        script: Some(script),
        ..Faults::default()
    });
    ask(&gateway, &chat(true)).await.answer().await.unwrap()
}

#[tokio::test]
async fn odd_streams_reach_the_client_byte_for_byte() {
    for script in [
        vec![
            Chunk::bytes(0, b"data: \xf0\x9f"),
            Chunk::bytes(100, b"\x98\x80\n\n"),
            Chunk::text(0, "data: [DONE]\n\n"),
        ],
        vec![
            Chunk::text(0, "data: {}\r\n\r\n"),
            Chunk::text(20, "data: [DONE]\r\n\r\n"),
        ],
        vec![Chunk::text(0, "data:x"), Chunk::text(20, "data: [DONE]")],
        vec![
            Chunk::text(0, "data: [DONE]\n\n"),
            Chunk::text(20, "0123456789"),
        ],
        vec![
            Chunk::text(0, "data: {}\n\n"),
            Chunk::text(20, ": a comment\n\n"),
            Chunk::text(20, "data: {}\n\n"),
        ],
    ] {
        let sent: Vec<u8> = script
            .iter()
            .flat_map(|chunk| {
                if chunk.bytes.is_empty() {
                    chunk.text.clone().into_bytes()
                } else {
                    chunk.bytes.clone()
                }
            })
            .collect();
        let answer = through(script).await;
        assert_eq!(
            answer.body.escape_ascii().to_string(),
            sent.escape_ascii().to_string()
        );
        assert!(answer.complete);
    }
}

#[tokio::test]
async fn head_and_chunks_are_passed_on_while_the_engine_pauses() {
    let engines = engines(1, &["m-a"]).await;
    let gateway = Gateway::start(&engines.pods()).await;
    engines.set_faults(&Faults {
        hold: false,
        first_delay_ms: 1500,
        events: Some(3),
        event_interval_ms: 700,
        ..Faults::default()
    });
    let begun = Instant::now();
    let mut connection = ask(&gateway, &chat(true)).await;
    assert_eq!(connection.head().await.unwrap().status, 200);
    assert!(
        begun.elapsed() < Duration::from_millis(1400),
        "the head waited for the first event"
    );
    for event in 0..3 {
        let chunk = connection.chunk().await.unwrap().unwrap();
        assert_eq!(
            chunk,
            format!("data: {{\"event\":{event}}}\n\n").into_bytes()
        );
        let earliest = Duration::from_millis(1500 + 700 * event);
        assert!(
            begun.elapsed() < earliest + Duration::from_millis(650),
            "event {event} came late"
        );
    }
    assert_eq!(connection.chunk().await.unwrap(), Some(Vec::new()));
}

#[tokio::test]
async fn an_answer_with_a_length_does_not_wait_for_its_end_either() {
    let engines = engines(1, &["m-a"]).await;
    let gateway = Gateway::start(&engines.pods()).await;
    engines.set_faults(&Faults {
        content_length_pieces_ms: Some(700),
        ..Faults::default()
    });
    let begun = Instant::now();
    let mut connection = ask(&gateway, &chat(false)).await;
    connection.head().await.unwrap();
    connection.some_bytes().await.unwrap();
    assert!(
        begun.elapsed() < Duration::from_millis(650),
        "the first piece waited for the others"
    );
}

#[tokio::test]
async fn an_engine_that_dies_gives_a_broken_end() {
    let engines = engines(1, &["m-a"]).await;
    let gateway = Gateway::start(&engines.pods()).await;
    for reset in [false, true] {
        engines.set_faults(&Faults {
            events: Some(9),
            die_after_events: Some(2),
            reset,
            ..Faults::default()
        });
        let answer = ask(&gateway, &chat(true)).await.answer().await.unwrap();
        assert!(!answer.complete, "{}", answer.text());
        assert_eq!(answer.text().matches("event").count(), 2);
    }
    gateway.until_idle().await;
    let counted = gateway
        .metric("warmgate_requests_ended_total", &["by=\"engine\"", "m-a"])
        .await;
    assert_eq!(counted, 2.0);
}

#[tokio::test]
async fn usage_is_seen_only_by_those_who_asked_and_counted_however_it_is_cut() {
    let engines = engines(1, &["m-a"]).await;
    let gateway = Gateway::start(&engines.pods()).await;
    let plain = ask(&gateway, &chat(true)).await.answer().await.unwrap();
    assert!(!plain.text().contains("usage"), "{}", plain.text());
    let mut asking = chat(true);
    asking["stream_options"] = json!({"include_usage": true});
    let asked = ask(&gateway, &asking).await.answer().await.unwrap();
    assert!(asked.text().contains("\"usage\""), "{}", asked.text());
    gateway.until_idle().await;
    assert_eq!(
        gateway
            .metric("warmgate_completion_tokens_total", &["m-a"])
            .await,
        5.0
    );

    let usage = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":40,\"completion_tokens\":30,\"prompt_tokens_details\":{\"cached_tokens\":20}}}\n\n";
    let (first, second) = usage.split_at(50);
    engines.set_faults(&Faults {
        script: Some(vec![
            Chunk::text(0, "data: {}\n\n"),
            Chunk::text(0, first),
            Chunk::text(100, second),
            Chunk::text(0, "data: [DONE]\n\n"),
        ]),
        ..Faults::default()
    });
    ask(&gateway, &asking).await.answer().await.unwrap();
    gateway.until_idle().await;
    assert_eq!(
        gateway
            .metric("warmgate_completion_tokens_total", &["m-a"])
            .await,
        35.0
    );
    assert_eq!(
        gateway
            .metric("warmgate_cached_tokens_total", &["m-a"])
            .await,
        20.0
    );
}

#[tokio::test]
async fn a_reader_that_stops_holds_little_memory_and_is_cut_off() {
    let engines = engines(1, &["m-a"]).await;
    let gateway = Gateway::start(&format!(
        "timeouts: {{client_write: 2s}}\n{}",
        engines.pods()
    ))
    .await;
    engines.set_faults(&Faults {
        flood_bytes: Some(200 << 20),
        ..Faults::default()
    });
    let before = gateway.memory_kib();
    let mut stalled = ask(&gateway, &chat(true)).await;
    stalled.head().await.unwrap();
    assert_eq!(gateway.in_flight().await, [1]);
    engines.set_faults(&Faults::default());
    let other = post_json(gateway.address, CHAT, &chat(false)).await;
    assert_eq!(other.status, 200);
    gateway.until_idle().await;
    assert!(
        gateway.memory_kib() < before + 16 * 1024,
        "{} KiB more",
        gateway.memory_kib() - before
    );
    assert_eq!(
        gateway
            .metric("warmgate_requests_ended_total", &["by=\"client\"", "m-a"])
            .await,
        1.0
    );
}

#[tokio::test]
async fn one_event_of_many_megabytes_passes_in_bounded_memory() {
    let engines = engines(1, &["m-a"]).await;
    let gateway = Gateway::start(&engines.pods()).await;
    engines.set_faults(&Faults {
        big_event_bytes: Some(64 << 20),
        ..Faults::default()
    });
    let before = gateway.memory_kib();
    let mut connection = ask(&gateway, &chat(true)).await;
    connection.head().await.unwrap();
    let mut received = 0;
    while let Some(chunk) = connection
        .chunk()
        .await
        .unwrap()
        .filter(|chunk| !chunk.is_empty())
    {
        received += chunk.len();
    }
    assert!(received >= 64 << 20);
    assert!(gateway.memory_kib() < before + 16 * 1024);
}

#[tokio::test]
async fn engines_own_errors_pass_untouched() {
    let engines = engines(1, &["m-a"]).await;
    let gateway = Gateway::start(&engines.pods()).await;
    for status in [400, 429, 500, 503] {
        engines.set_faults(&Faults {
            status: Some(status),
            ..Faults::default()
        });
        let answer = post_json(gateway.address, CHAT, &chat(false)).await;
        assert_eq!(answer.status, status);
        assert_eq!(answer.error_code(), "sim_fault");
        assert_eq!(
            answer.header("retry-after").is_some(),
            matches!(status, 429 | 503)
        );
    }
    gateway.until_idle().await;
    eventually("all four reached the engine", async || {
        (engines.all_requests().len() == 4).then_some(())
    })
    .await;
}
