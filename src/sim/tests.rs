use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;

async fn engine() -> SimEngine {
    start(Options {
        time_scale: 0.0,
        ..Options::default()
    })
    .await
    .unwrap()
}

fn post(body: &str, fault: &Faults) -> String {
    format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-sim-fault: {}\r\ncontent-length: {}\r\n\r\n{body}",
        serde_json::to_string(fault).unwrap(),
        body.len()
    )
}

async fn exchange(engine: &SimEngine, request: &str) -> String {
    let mut stream = TcpStream::connect(engine.address()).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // A reset is one of the ends that are tried.
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8(answer).unwrap()
}

fn chat(stream: bool) -> String {
    serde_json::json!({
        "model": "sim-model", "stream": stream, "stream_options": {"include_usage": true}, "max_tokens": 3,
        "messages": [{"role": "user", "content": "a b c d ".repeat(100)}],
    })
    .to_string()
}

#[tokio::test]
async fn a_chat_is_answered_whole_or_as_a_stream_with_usage() {
    let engine = engine().await;
    let whole = exchange(&engine, &post(&chat(false), &Faults::default())).await;
    assert!(whole.starts_with("HTTP/1.1 200"), "{whole}");
    assert!(whole.contains("\"completion_tokens\":3"), "{whole}");
    assert!(whole.contains("\"cached_tokens\":0"), "{whole}");
    let stream = exchange(&engine, &post(&chat(true), &Faults::default())).await;
    assert_eq!(stream.matches("\"delta\":").count(), 3, "{stream}");
    assert!(
        stream.contains("\"usage\":") && !stream.contains("\"cached_tokens\":0"),
        "{stream}"
    );
    assert!(
        stream.ends_with("data: [DONE]\n\n\r\n0\r\n\r\n"),
        "{stream}"
    );
}

#[tokio::test]
async fn an_engine_that_dies_leaves_the_stream_without_its_last_chunk() {
    let engine = engine().await;
    let fault = Faults {
        events: Some(9),
        die_after_events: Some(2),
        ..Faults::default()
    };
    let stream = exchange(&engine, &post(&chat(true), &fault)).await;
    assert_eq!(stream.matches("\"event\":").count(), 2, "{stream}");
    assert!(!stream.contains("\r\n0\r\n\r\n"), "{stream}");
    assert_eq!(engine.requests()[0].ended, Ended::Killed);
}

#[tokio::test]
async fn a_script_is_sent_byte_for_byte() {
    let engine = engine().await;
    let fault = Faults {
        script: Some(vec![
            Chunk::text(0, "data:x\r\n\r\n"),
            Chunk::bytes(1, b"tail"),
        ]),
        ..Faults::default()
    };
    let stream = exchange(&engine, &post(&chat(true), &fault)).await;
    assert!(
        stream.ends_with("A\r\ndata:x\r\n\r\n\r\n4\r\ntail\r\n0\r\n\r\n"),
        "{stream:?}"
    );
}

#[tokio::test]
async fn a_client_that_leaves_is_noticed() {
    let engine = engine().await;
    engine.set_faults(Faults {
        hold: true,
        ..Faults::default()
    });
    let mut stream = TcpStream::connect(engine.address()).await.unwrap();
    let request = post(
        &chat(true),
        &Faults {
            hold: true,
            ..Faults::default()
        },
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    while engine.requests().is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(engine.requests()[0].ended, Ended::Running);
    drop(stream);
    while engine.requests()[0].ended == Ended::Running {
        tokio::task::yield_now().await;
    }
    assert_eq!(engine.requests()[0].ended, Ended::ClientGone);
}

#[tokio::test]
async fn raw_bytes_can_stand_in_place_of_an_answer() {
    let engine = engine().await;
    let fault = Faults {
        raw_response: Some("HTTP/1.1 101 Switching Protocols\r\n\r\n".to_owned()),
        status: Some(500),
        ..Faults::default()
    };
    let answer = exchange(&engine, &post(&chat(false), &fault)).await;
    assert_eq!(answer, "HTTP/1.1 101 Switching Protocols\r\n\r\n");
}
