//! The engine behind the balancers that are compared: answers at once, costs next to nothing, and is the same for all.
//!
//! What it is to answer stands in the request: `stream`, `max_tokens` (how many events) and `seed` (milliseconds between
//! two of them). These are OpenAI's own parameters, so routers that read and rewrite bodies pass them on.

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use memchr::memmem;

use super::wire::{Connection, RequestHead};

/// Ends with the process; one thread a connection, since they are few and each is served at once.
pub(super) fn run(addresses: &[SocketAddr]) -> Result<()> {
    let mut accepting = Vec::new();
    for address in addresses {
        let listener =
            TcpListener::bind(address).with_context(|| format!("cannot listen on {address}"))?;
        accepting.push(thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A connection that breaks is the balancer's matter; it shows up as an error at the client.
                thread::spawn(move || drop(serve(stream)));
            }
        }));
    }
    for thread in accepting {
        if thread.join().is_err() {
            anyhow::bail!("a listening thread of the engine failed");
        }
    }
    Ok(())
}

fn serve(stream: TcpStream) -> Result<()> {
    let mut connection = Connection::accepted(stream)?;
    while let Some(head) = connection.read_request()? {
        if head.expects_continue {
            connection
                .stream
                .write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        connection.read_body(&head)?;
        answer(&connection, &head)?;
        connection.request_done(&head);
    }
    Ok(())
}

fn answer(connection: &Connection, head: &RequestHead) -> Result<()> {
    let mut stream = &connection.stream;
    let body = connection.body(head);
    if head.is_get {
        stream.write_all(page(&head.path).as_bytes())?;
    } else if memmem::find(body, b"\"stream\":true").is_some() {
        let events = parameter(body, b"\"max_tokens\":").unwrap_or(1);
        let pause = parameter(body, b"\"seed\":").unwrap_or(0);
        stream_events(stream, events, Duration::from_millis(pause))?;
    } else {
        stream.write_all(ANSWER.as_bytes())?;
    }
    Ok(())
}

/// A whole answer that is not streamed.
static ANSWER: LazyLock<String> = LazyLock::new(|| reply("application/json", ANSWER_BODY));
const ANSWER_BODY: &str = concat!(
    r#"{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"#,
    r#""message":{"role":"assistant","content":"A short answer of a few words."},"finish_reason":"stop"}],"#,
    r#""usage":{"prompt_tokens":256,"completion_tokens":8,"total_tokens":264}}"#,
);

fn reply(kind: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// An event as engines send it, in a chunk of its own.
pub(super) const EVENT: &str = concat!(
    r#"data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","#,
    r#""choices":[{"index":0,"delta":{"content":" token"},"logprobs":null,"finish_reason":null}]}"#,
    "\n\n",
);

fn stream_events(mut stream: &TcpStream, events: u64, pause: Duration) -> Result<()> {
    stream.write_all(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
    )?;
    let chunk = format!("{:x}\r\n{EVENT}\r\n", EVENT.len());
    let mut due = Instant::now();
    for _ in 0..events {
        if !pause.is_zero() {
            due += pause;
            thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        stream.write_all(chunk.as_bytes())?;
    }
    stream.write_all(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")?;
    Ok(())
}

/// What routers ask of a worker before they use it.
fn page(path: &str) -> String {
    let (kind, body) = match path {
        "/v1/models" => (
            "application/json",
            r#"{"object":"list","data":[{"id":"m","object":"model","created":1,"owned_by":"loadtest"}]}"#,
        ),
        "/metrics" => (
            "text/plain; version=0.0.4",
            "vllm:num_requests_running{model_name=\"m\"} 0\nvllm:num_requests_waiting{model_name=\"m\"} 0\n",
        ),
        "/health" | "/health_generate" | "/liveness" | "/readiness" => ("text/plain", ""),
        "/version" => ("application/json", r#"{"version":"0.11.0"}"#),
        _ => (
            "application/json",
            r#"{"model_path":"m","served_model_name":"m","is_generation":true,"max_total_num_tokens":100000}"#,
        ),
    };
    reply(kind, body)
}

/// The number after a key.
fn parameter(body: &[u8], key: &[u8]) -> Option<u64> {
    let start = memmem::find(body, key)? + key.len();
    let digits = body[start..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit());
    std::str::from_utf8(&body[start..start + digits.count()])
        .ok()?
        .parse()
        .ok()
}
