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
async fn an_answer_and_all_its_events_carry_the_id_of_their_request() {
    let engine = engine().await;
    for (stream, times) in [(false, 1), (true, 4)] {
        let request = post(&chat(stream), &Faults::default());
        let request = request.replace("host: x", "host: x\r\nx-request-id: mine-7");
        let answer = exchange(&engine, &request).await;
        let found = answer.matches("\"id\":\"chatcmpl-mine-7\"").count();
        assert_eq!(found, times, "{answer}");
    }
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

async fn until(condition: impl Fn() -> bool) {
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(10);
    while !condition() {
        assert!(tokio::time::Instant::now() < deadline, "it never happened");
        tokio::task::yield_now().await;
    }
}

async fn get(engine: &SimEngine, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    exchange(engine, &request).await
}

#[tokio::test]
async fn a_client_that_leaves_a_stream_ends_its_job() {
    let engine = start(Options::default()).await.unwrap();
    let mut stream = TcpStream::connect(engine.address()).await.unwrap();
    let body = chat(true).replace("\"max_tokens\":3", "\"max_tokens\":1000000");
    stream
        .write_all(post(&body, &Faults::default()).as_bytes())
        .await
        .unwrap();
    let mut head = [0; 12];
    stream.read_exact(&mut head).await.unwrap();
    assert_eq!(&head, b"HTTP/1.1 200");
    until(|| engine.face.driver.with(|engine| engine.running()) == 1).await;
    drop(stream);
    until(|| engine.requests()[0].ended == Ended::ClientGone).await;
    assert_eq!(engine.face.driver.with(|engine| engine.running()), 0);
    let state = get(&engine, "/sim/state").await;
    assert!(state.contains("\"running\":0"), "{state}");
}

#[tokio::test]
async fn held_requests_count_as_running_until_they_are_released() {
    let engine = engine().await;
    engine.set_faults(Faults {
        hold: true,
        ..Faults::default()
    });
    let mut stream = TcpStream::connect(engine.address()).await.unwrap();
    let request = post(&chat(false), &Faults::default()).replace("x-sim-fault", "x-none");
    stream.write_all(request.as_bytes()).await.unwrap();
    until(|| engine.face.released.receiver_count() == 1).await;
    let metrics = get(&engine, "/metrics").await;
    let running = "vllm:num_requests_running{engine=\"0\",model_name=\"sim-model\"} 1\n";
    assert!(metrics.contains(running), "{metrics}");
    engine.release();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(engine.requests()[0].ended, Ended::Finished);
}

#[tokio::test]
async fn faults_of_the_connection_close_it_as_they_say() {
    let check = async |faults: Faults, wanted: &str, reset: bool| {
        let engine = engine().await;
        let mut stream = TcpStream::connect(engine.address()).await.unwrap();
        let request = post(&chat(true), &faults).replace("connection: close\r\n", "");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let end = stream.read_to_end(&mut answer).await;
        assert_eq!(end.is_err(), reset, "{faults:?} {end:?}");
        // A reset may overtake what was sent before it.
        if !reset {
            let answer = String::from_utf8(answer).unwrap();
            assert_eq!(answer, wanted, "{faults:?}");
        }
        assert_eq!(engine.requests()[0].ended, Ended::Killed);
    };
    let none = Faults::default;
    let close = || Faults {
        close_on_head: true,
        ..none()
    };
    check(close(), "", false).await;
    let reset = Faults {
        reset: true,
        ..close()
    };
    check(reset, "", true).await;
    let reset = Faults {
        die_after_events: Some(1),
        reset: true,
        ..none()
    };
    check(reset, "", true).await;
    let raw = Faults {
        raw_response_bytes: b"no HTTP\r\n".to_vec(),
        ..none()
    };
    check(raw, "no HTTP\r\n", false).await;
}

#[tokio::test]
async fn sizes_that_faults_ask_for_are_exact() {
    let check = async |faults: Faults, wanted: usize| {
        let engine = engine().await;
        // Without chunks what follows the head is the body.
        let request = post(&chat(true), &faults).replace("HTTP/1.1", "HTTP/1.0");
        let answer = exchange(&engine, &request).await;
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        assert_eq!(body.len(), wanted);
    };
    let none = Faults::default;
    let flood = Faults {
        flood_bytes: Some(1_000_001),
        ..none()
    };
    check(flood, 1_000_001).await;
    let big = Faults {
        big_event_bytes: Some(70_000),
        ..none()
    };
    check(big, "data: \n\n".len() + 70_000).await;
}

#[tokio::test]
async fn the_log_tells_over_http_what_arrived_and_can_be_cleared() {
    let engine = engine().await;
    let request = post("{\"model\":\"other\"}", &Faults::default());
    let request = request.replace("completions HTTP", "completions?a=%20b HTTP");
    let refused = exchange(&engine, &request).await;
    assert!(refused.starts_with("HTTP/1.1 404"), "{refused}");
    get(&engine, "/health").await;
    get(&engine, "/v1/models/sim-model").await;
    let log = get(&engine, "/sim/requests").await;
    let (_, log) = log.split_once("\r\n\r\n").unwrap();
    let log: serde_json::Value = serde_json::from_str(log).unwrap();
    assert_eq!(log.as_array().map(Vec::len), Some(1), "{log}");
    let seen = &log[0];
    assert_eq!(seen["target"], "/v1/chat/completions?a=%20b");
    assert_eq!(seen["body"], "{\"model\":\"other\"}");
    assert_eq!(seen["ended"], "finished");
    let reset = "POST /sim/reset HTTP/1.1\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    exchange(&engine, reset).await;
    assert_eq!(engine.requests().len(), 0);
}

#[tokio::test]
async fn http2_without_tls_is_spoken_on_the_same_port_and_dies_as_a_whole() {
    use http_body_util::{BodyExt, Full};
    use hyper_util::client::legacy::Client;

    let engine = engine().await;
    let client = Client::builder(TokioExecutor::new())
        .http2_only(true)
        .build_http::<Full<bytes::Bytes>>();
    let send = async |faults: Faults| {
        let request = ::http::Request::post(format!("{}/v1/chat/completions", engine.url()))
            .header("x-sim-fault", serde_json::to_string(&faults).unwrap())
            .body(Full::from(chat(true)))
            .unwrap();
        let answer = client.request(request).await.unwrap();
        answer.into_body().collect().await
    };
    let body = send(Faults::default()).await.unwrap().to_bytes();
    assert!(body.ends_with(b"data: [DONE]\n\n"));
    assert_eq!(engine.requests()[0].version, "HTTP/2.0");
    let dying = Faults {
        die_after_events: Some(1),
        ..Faults::default()
    };
    assert!(send(dying).await.is_err());
    until(|| engine.connections() == 0).await;
}

#[tokio::test]
async fn an_engine_can_be_started_again_at_its_address() {
    let first = engine().await;
    let address = first.address();
    // A connection that is still open must not hold the address.
    let _open = TcpStream::connect(address).await.unwrap();
    first.stop().await;
    let second = start(Options {
        address,
        ..Options::default()
    });
    assert_eq!(second.await.unwrap().address(), address);
}

#[tokio::test]
async fn each_kind_of_request_is_streamed_in_its_own_way() {
    let check = async |path: &str, body: &str, wanted: &[&str]| {
        let engine = engine().await;
        let body = format!("{{\"model\":\"sim-model\",\"stream\":true,\"max_tokens\":2,{body}}}");
        let request = post(&body, &Faults::default()).replace("/v1/chat/completions", path);
        let answer = exchange(&engine, &request).await;
        let mut rest = answer.as_str();
        for part in wanted {
            let found = rest.split_once(part);
            rest = found
                .unwrap_or_else(|| panic!("no {part} in its place: {answer}"))
                .1;
        }
    };
    let messages = "\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]";
    let chat = [
        "\"role\":\"assistant\"",
        "\"finish_reason\":\"length\"",
        "[DONE]",
    ];
    check("/v1/chat/completions", messages, &chat).await;
    let completion = [
        "\"finish_reason\":null",
        "\"finish_reason\":\"length\"",
        "[DONE]",
    ];
    check("/v1/completions", "\"prompt\":\"hello\"", &completion).await;
    let message = [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ];
    check("/v1/messages", messages, &message).await;
    let response = [
        "response.created",
        "output_text.delta",
        "response.completed",
        "cached_tokens",
    ];
    check("/v1/responses", "\"input\":\"hello\"", &response).await;
}

#[tokio::test]
async fn an_answer_of_the_largest_size_comes_to_an_end() {
    let engine = engine().await;
    let body = chat(false).replace("\"max_tokens\":3", &format!("\"max_tokens\":{}", u64::MAX));
    let answer = exchange(&engine, &post(&body, &Faults::default())).await;
    assert!(answer.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_time_scale_that_makes_no_sense_is_refused() {
    for time_scale in [-1.0, f64::NAN, f64::INFINITY] {
        let options = Options {
            time_scale,
            ..Options::default()
        };
        assert!(start(options).await.is_err(), "{time_scale}");
    }
}
