//! The requests: chats whose first half is shared by many and whose second half nobody has sent before.

use std::fmt::Write;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) body: usize,
    /// `None`: one answer. Else a stream of so many events.
    pub(super) stream: Option<u32>,
    /// Milliseconds between two events.
    pub(super) pause_ms: u32,
}

impl Shape {
    pub(super) fn events(self) -> u64 {
        self.stream.map_or(0, u64::from)
    }

    /// How long the engine takes for a stream.
    pub(super) fn stream_time(self) -> Duration {
        Duration::from_millis(self.events() * u64::from(self.pause_ms))
    }
}

/// The system prompts, by number.
const GROUPS: usize = 8;
/// Large bodies are few, so that the load's own copies stay small.
const LARGE: usize = 128 << 10;

/// The requests of one connection.
pub(super) struct Prompts {
    requests: Vec<Template>,
    worker: usize,
    count: usize,
}

struct Template {
    bytes: Vec<u8>,
    /// Where the number stands that makes each request a new one.
    number: usize,
}

const DIGITS: usize = 12;

impl Prompts {
    pub(super) fn new(shape: Shape, worker: usize) -> Self {
        let groups = if shape.body >= LARGE { 1 } else { GROUPS };
        let requests = (0..groups)
            .map(|group| Template::new(shape, (worker + group) % GROUPS))
            .collect();
        Self {
            requests,
            worker,
            count: 0,
        }
    }

    /// The next request, head and body.
    pub(super) fn next(&mut self) -> &[u8] {
        let place = self.count % self.requests.len();
        self.count += 1;
        let template = &mut self.requests[place];
        let number = format!("{:04}{:08}", self.worker % 10_000, self.count % 100_000_000);
        template.bytes[template.number..template.number + DIGITS]
            .copy_from_slice(number.as_bytes());
        &template.bytes
    }
}

impl Template {
    fn new(shape: Shape, group: usize) -> Self {
        let mut body = String::with_capacity(shape.body + 256);
        body += r#"{"model":"m","#;
        if let Some(events) = shape.stream {
            let pause = shape.pause_ms;
            body += &format!(r#""stream":true,"max_tokens":{events},"seed":{pause},"#);
        }
        body += r#""messages":[{"role":"system","content":""#;
        fill(&mut body, shape.body / 2, group);
        body += r#""},{"role":"user","content":""#;
        let number = body.len();
        body += &"0".repeat(DIGITS);
        let rest = shape.body.saturating_sub(4);
        fill(&mut body, rest, group + GROUPS);
        body += r#""}]}"#;
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: loadtest\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        Self {
            number: head.len() + number,
            bytes: (head + &body).into_bytes(),
        }
    }
}

/// Words up to a length; now and then an escape and a letter that is not ASCII, as in real text.
fn fill(text: &mut String, length: usize, salt: usize) {
    const WORDS: [&str; 8] = [
        "pods",
        "hold",
        "prefixes",
        "of",
        "prompts",
        "caf\u{e9}",
        "and",
        "tokens",
    ];
    let mut word = salt;
    while text.len() + 24 < length {
        word += 1;
        let choice = WORDS[(word * 7 + word / 8 + salt) % WORDS.len()];
        if word.is_multiple_of(16) {
            text.push_str("\\n");
        }
        // Writing to a string cannot fail.
        let _ = write!(text, "{choice} {word} ");
    }
    while text.len() < length {
        text.push('.');
    }
}
