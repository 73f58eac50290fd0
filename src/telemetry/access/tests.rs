use std::io;
use std::net::Ipv6Addr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::UNIX_EPOCH;

use parking_lot::Mutex;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const PATIENCE: Duration = Duration::from_secs(30);

fn line<'a>() -> AccessLine<'a> {
    AccessLine {
        time: UNIX_EPOCH,
        request_id: "req-1",
        client: Some(Ipv6Addr::LOCALHOST.into()),
        method: "POST",
        path: "/v1/chat/completions",
        status: 200,
        model: Some("m-a"),
        pod: Some("10.0.0.1:8000"),
        strategy: Some("prefix-cache:5,load-balance:4"),
        reason: Some("prefix_match"),
        matched_blocks: 3,
        total_blocks: 10,
        request_bytes: 1500,
        response_bytes: 900,
        usage: Some(Usage {
            prompt: 400,
            completion: 20,
            cached: 96,
        }),
        first_byte: Some(Duration::from_micros(12_345)),
        total: Duration::from_micros(1_010_125),
        tries: 1,
        ended_by: EndedBy::Ok,
    }
}

fn bare<'a>() -> AccessLine<'a> {
    AccessLine {
        client: None,
        status: 0,
        model: None,
        pod: None,
        strategy: None,
        reason: None,
        matched_blocks: 0,
        total_blocks: 0,
        usage: None,
        first_byte: None,
        tries: 0,
        ended_by: EndedBy::Client,
        ..line()
    }
}

fn format(line: &AccessLine<'_>, format: LogFormat) -> String {
    let mut out = Vec::new();
    line.push(&mut out, format);
    String::from_utf8(out).unwrap()
}

#[test]
fn a_line_tells_all_there_is_to_tell() {
    assert_eq!(
        format(&line(), LogFormat::Text),
        "time=1970-01-01T00:00:00.000Z request_id=req-1 client=::1 method=POST \
         path=/v1/chat/completions status=200 model=m-a pod=10.0.0.1:8000 \
         strategy=prefix-cache:5,load-balance:4 reason=prefix_match matched_blocks=3 \
         total_blocks=10 request_bytes=1500 response_bytes=900 prompt_tokens=400 \
         completion_tokens=20 cached_tokens=96 first_byte_ms=12.345 total_ms=1010.125 tries=1 \
         ended_by=ok\n",
    );
    assert_eq!(
        format(&bare(), LogFormat::Text),
        "time=1970-01-01T00:00:00.000Z request_id=req-1 client=- method=POST \
         path=/v1/chat/completions status=0 model=- pod=- strategy=- reason=- matched_blocks=0 \
         total_blocks=0 request_bytes=1500 response_bytes=900 prompt_tokens=- \
         completion_tokens=- cached_tokens=- first_byte_ms=- total_ms=1010.125 tries=0 \
         ended_by=client\n",
    );
}

#[test]
fn a_json_line_has_the_same_keys_whatever_is_known() {
    let full: Value = serde_json::from_str(&format(&line(), LogFormat::Json)).unwrap();
    let expected = json!({
        "time": "1970-01-01T00:00:00.000Z", "request_id": "req-1", "client": "::1",
        "method": "POST", "path": "/v1/chat/completions", "status": 200, "model": "m-a",
        "pod": "10.0.0.1:8000", "strategy": "prefix-cache:5,load-balance:4",
        "reason": "prefix_match", "matched_blocks": 3, "total_blocks": 10,
        "request_bytes": 1500, "response_bytes": 900, "prompt_tokens": 400,
        "completion_tokens": 20, "cached_tokens": 96, "first_byte_ms": 12.345,
        "total_ms": 1010.125, "tries": 1, "ended_by": "ok",
    });
    assert_eq!(full, expected);
    let bare: Value = serde_json::from_str(&format(&bare(), LogFormat::Json)).unwrap();
    let keys = |value: &Value| {
        value
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(keys(&bare), keys(&full));
    assert_eq!(bare["model"], Value::Null);
}

#[test]
fn a_query_is_left_out() {
    for format_ in [LogFormat::Text, LogFormat::Json] {
        let path = "/v1/models?api_key=sk-client-0001";
        let text = format(&AccessLine { path, ..line() }, format_);
        assert!(text.contains("/v1/models"), "{text}");
        assert!(!text.contains("sk-client"), "{text}");
    }
}

proptest! {
    #[test]
    fn a_client_cannot_write_lines_or_fields(id in any::<String>(), model in any::<String>()) {
        let line = AccessLine { request_id: &id, model: Some(&model), ..line() };
        let text = format(&line, LogFormat::Text);
        prop_assert_eq!(text.lines().count(), 1);
        prop_assert_eq!(text.chars().filter(|char| char.is_control()).count(), 1);
        // Without what is quoted, each key is there once.
        let mut inside = false;
        let outside: String = text
            .replace(r"\\", "")
            .replace("\\\"", "")
            .chars()
            .filter(|char| {
                inside ^= *char == '"';
                !inside
            })
            .collect();
        prop_assert_eq!(outside.matches(" status=").count(), 1, "{}", text);

        let json = format(&line, LogFormat::Json);
        prop_assert_eq!(json.lines().count(), 1);
        prop_assert!(serde_json::from_str::<Value>(&json).is_ok(), "{}", json);
        prop_assert!(json.len() < 8192);
    }
}

#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_flush_waits_for_every_line_of_every_thread() {
    let memory = Memory::default();
    let log = AccessLog::to(LogFormat::Json, memory.clone(), MAX_WAITING).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..500).for_each(|_| log.write(&line())));
        }
    });
    assert!(log.writer.flush(PATIENCE));
    assert_eq!(log.dropped(), 0);
    let written = memory.0.lock();
    let lines: Vec<_> = written.split_inclusive(|byte| *byte == b'\n').collect();
    assert_eq!(lines.len(), 2000);
    assert!(
        lines
            .iter()
            .all(|line| serde_json::from_slice::<Value>(line).is_ok())
    );
}

/// Tells that a write has begun, then waits until it may go on.
struct Stuck(Sender<()>, Receiver<()>, Memory);

impl Write for Stuck {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send(()).map_err(io::Error::other)?;
        self.1.recv().map_err(io::Error::other)?;
        self.2.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_slow_reader_costs_lines_and_no_time() {
    let (began, has_begun) = channel();
    let (go_on, may_go_on) = channel();
    let memory = Memory::default();
    let size = format(&line(), LogFormat::Text).len();
    let output = Stuck(began, may_go_on, memory.clone());
    let log = AccessLog::to(LogFormat::Text, output, 10 * size).unwrap();

    log.write(&line());
    has_begun.recv_timeout(PATIENCE).unwrap();
    (0..25).for_each(|_| log.write(&line()));
    assert_eq!(log.dropped(), 15);
    assert!(!log.writer.flush(Duration::ZERO), "it is still stuck");

    go_on.send(()).unwrap();
    go_on.send(()).unwrap();
    assert!(log.writer.flush(PATIENCE));
    assert_eq!(memory.0.lock().len(), 11 * size, "whole lines only");
}

struct Broken;

impl Write for Broken {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_reader_that_is_gone_is_survived_and_counted() {
    let log = AccessLog::to(LogFormat::Text, Broken, MAX_WAITING).unwrap();
    (0..5).for_each(|_| log.write(&line()));
    assert!(log.writer.flush(PATIENCE));
    assert_eq!(log.dropped(), 5);
}
