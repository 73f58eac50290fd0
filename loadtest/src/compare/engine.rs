//! The engine behind the balancers that are compared: answers at once, costs next to nothing, and is the same for all.
//!
//! What it is to answer stands in the request: `stream`, `max_tokens` (how many events) and `seed` (milliseconds between
//! two of them). These are OpenAI's own parameters, so routers that read bodies and write them anew pass them on; some give
//! `max_tokens` its newer name on the way.

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
    } else if head.path != CHAT {
        // A router may ask for a prompt's tokens first. Engines that cannot tell say so, and it goes by the text.
        stream.write_all(NOT_FOUND.as_bytes())?;
    } else if value(body, "stream").is_some_and(|value| value.starts_with(b"true")) {
        let events = number(body, "max_tokens").or_else(|| number(body, "max_completion_tokens"));
        let pause = number(body, "seed").unwrap_or(0);
        stream_events(stream, events.unwrap_or(1), Duration::from_millis(pause))?;
    } else {
        stream.write_all(ANSWER.as_bytes())?;
    }
    Ok(())
}

const CHAT: &str = "/v1/chat/completions";
const NOT_FOUND: &str = "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n";

/// A whole answer that is not streamed.
pub(super) static ANSWER: LazyLock<String> =
    LazyLock::new(|| reply("application/json", ANSWER_BODY));
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

/// What a client looks for in it.
pub(super) const TEXT: &str = "A short answer";

/// The text of one token, once in each event and nowhere else.
pub(super) const TOKEN: &[u8] = b" token";

/// What a stream ends with.
pub(super) const END: &str = "data: [DONE]";

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
    let end = format!("{:x}\r\n{END}\n\n\r\n0\r\n\r\n", END.len() + 2);
    stream.write_all(end.as_bytes())?;
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

/// What follows a key; keys in the prompts' text have escaped quotes, so they are not taken for it.
fn value<'a>(body: &'a [u8], key: &str) -> Option<&'a [u8]> {
    let quoted = format!("\"{key}\"");
    let rest = &body[memmem::find(body, quoted.as_bytes())? + quoted.len()..];
    rest.trim_ascii_start()
        .strip_prefix(b":")
        .map(<[u8]>::trim_ascii_start)
}

fn number(body: &[u8], key: &str) -> Option<u64> {
    let value = value(body, key)?;
    let digits = value.iter().take_while(|byte| byte.is_ascii_digit());
    std::str::from_utf8(&value[..digits.count()])
        .ok()?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_however_they_are_written() {
        let body =
            br#"{"messages":[{"content":"say \"seed\":7"}], "seed" : 12,"stream":true,"user":"x"}"#;
        assert_eq!(number(body, "seed"), Some(12));
        assert_eq!(value(body, "stream"), Some(&br#"true,"user":"x"}"#[..]));
        assert_eq!(number(body, "max_tokens"), None);
        assert_eq!(number(body, "user"), None);
    }

    #[test]
    fn only_chats_are_answered() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let engine = thread::spawn(move || serve(listener.accept().unwrap().0));
        let post = |path: &str| format!("POST {path} HTTP/1.1\r\ncontent-length: 2\r\n\r\n{{}}");
        client
            .write_all(post("/v1/chat/completions/render").as_bytes())
            .unwrap();
        client.write_all(post(CHAT).as_bytes()).unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let said = std::io::read_to_string(client).unwrap();
        assert_eq!(said, format!("{NOT_FOUND}{}", *ANSWER));
        engine.join().unwrap().unwrap();
    }

    #[test]
    fn what_clients_look_for_is_in_the_answers() {
        assert_eq!(ANSWER.matches(TEXT).count(), 1);
        assert_eq!(memmem::find_iter(EVENT.as_bytes(), TOKEN).count(), 1);
    }
}
