//! The capture: a line for each routed request, from which `loadtest replay` plays the traffic again.
//!
//! Invariants: no text, only sizes, times and hashes; writing never makes a request wait.
//!
//! What is written of a prompt's blocks and of a session's id is SipHash under a 128-bit key that the
//! process draws at its start and keeps nowhere. Equal beginnings of prompts are equal in one file, as a
//! replay needs; but who has the file, and even the seed of the index, cannot try whether a text that
//! he guesses was among them. After a restart nothing equals what was written before.

use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Serialize, Serializer};

use crate::routing::PrefixBlocks;
use crate::telemetry::Writer;
use crate::usage::Usage;

/// What may wait for a slow disk.
const MAX_WAITING: usize = 8 << 20;
/// A process that ends does not wait longer for a disk that is stuck.
const FLUSH_PATIENCE: Duration = Duration::from_secs(2);
/// Finer blocks are told as blocks of about so many bytes: a line for a long prompt stays short.
const BLOCK_BYTES: usize = 512;

pub struct Capture {
    writer: Writer,
    key: RandomState,
}

/// What is told of one request.
#[derive(Clone, Copy, Debug)]
pub struct Captured<'a> {
    /// When it arrived.
    pub time: SystemTime,
    pub path: &'static str,
    pub model: Option<&'a str>,
    pub pod: Option<&'a str>,
    /// As the client names it.
    pub session: Option<&'a [u8]>,
    pub status: u16,
    pub body_bytes: u64,
    pub blocks: &'a PrefixBlocks,
    /// Of the prefix index.
    pub block_size: usize,
    pub usage: Option<Usage>,
    pub output_bytes: u64,
    /// The answer came as events.
    pub stream: bool,
    pub first_byte: Option<Duration>,
    pub total: Duration,
}

/// A line, in the order of its keys.
#[derive(Serialize)]
struct Line<'a> {
    time_ms: u64,
    path: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<Hex>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pod: Option<&'a str>,
    status: u16,
    body_bytes: u64,
    prompt_bytes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cached_tokens: Option<u64>,
    output_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_tokens: Option<u64>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttft_ms: Option<u64>,
    duration_ms: u64,
    block_bytes: usize,
    blocks: Vec<Hex>,
}

struct Hex(u64);

impl Serialize for Hex {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:016x}", self.0))
    }
}

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Capture {
    /// Appends to a file, which only its owner may read if it is made here. Starts a thread, so not
    /// before the process has forked, if it does.
    pub fn start(path: &Path) -> io::Result<Self> {
        let writer = Writer::start("capture", open(path)?, MAX_WAITING)?;
        Ok(Self {
            writer,
            key: RandomState::new(),
        })
    }

    pub fn write(&self, request: &Captured<'_>) {
        BUFFER.with_borrow_mut(|buffer| {
            buffer.clear();
            let line = Line::new(request, &self.key);
            // Writing to memory does not fail, and every key is a string.
            if serde_json::to_writer(&mut *buffer, &line).is_ok() {
                buffer.push(b'\n');
                self.writer.hand_over(buffer);
            }
        });
    }

    /// Lines that were not written since the start: the disk was too slow, full, or is gone.
    pub fn dropped(&self) -> u64 {
        self.writer.dropped()
    }

    /// Waits until what was handed over before is written, for a moment at most; false: it is not.
    pub fn flush(&self) -> bool {
        self.writer.flush(FLUSH_PATIENCE)
    }
}

impl<'a> Line<'a> {
    fn new(request: &Captured<'a>, key: &RandomState) -> Self {
        let step = BLOCK_BYTES.div_ceil(request.block_size.max(1));
        let tokens = |of: fn(&Usage) -> u64| request.usage.as_ref().map(of);
        let told = |tokens: Option<u64>| tokens.filter(|&tokens| tokens > 0);
        // A block's hash stands for all before it, too: so does that of the last of several.
        let hashes = request.blocks.hashes().iter().skip(step - 1).step_by(step);
        Self {
            time_ms: request
                .time
                .duration_since(UNIX_EPOCH)
                .map_or(0, |time| millis(time)),
            path: request.path,
            model: request.model,
            session: request.session.map(|session| Hex(key.hash_one(session))),
            pod: request.pod,
            status: request.status,
            body_bytes: request.body_bytes,
            prompt_bytes: request.blocks.bytes(),
            prompt_tokens: told(tokens(|usage| usage.prompt)),
            cached_tokens: tokens(|usage| usage.cached),
            output_bytes: request.output_bytes,
            output_tokens: told(tokens(|usage| usage.completion)),
            stream: request.stream,
            ttft_ms: request.first_byte.map(millis),
            duration_ms: millis(request.total),
            block_bytes: request.block_size * step,
            blocks: hashes.map(|hash| Hex(key.hash_one(hash.0))).collect(),
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::routing::{BlockHasher, Scope};

    const TEXT: &[u8] = &[b'x'; 1200];

    fn captured<'a>(blocks: &'a PrefixBlocks, block_size: usize) -> Captured<'a> {
        Captured {
            time: UNIX_EPOCH + Duration::from_millis(1_700_000_000_123),
            path: "chat_completions",
            model: Some("m\"a"),
            pod: Some("e1"),
            session: Some(b"user-7"),
            status: 200,
            body_bytes: 1300,
            blocks,
            block_size,
            usage: Some(Usage {
                prompt: 300,
                completion: 7,
                cached: 0,
            }),
            output_bytes: 900,
            stream: true,
            first_byte: Some(Duration::from_micros(20_900)),
            total: Duration::from_millis(700),
        }
    }

    fn hashed(block_size: usize) -> PrefixBlocks {
        let scope = Scope {
            model: "m",
            cache_salt: None,
        };
        let mut blocks = PrefixBlocks::default();
        BlockHasher::new(block_size, 0, usize::MAX).fill(scope, [TEXT], &mut blocks);
        blocks
    }

    fn write(path: &Path, requests: &[Captured<'_>]) -> Vec<serde_json::Value> {
        let capture = Capture::start(path).unwrap();
        for request in requests {
            capture.write(request);
        }
        assert!(capture.flush());
        assert_eq!(capture.dropped(), 0);
        let text = std::fs::read_to_string(path).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    #[test]
    fn a_line_holds_sizes_times_and_hashes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("capture.jsonl");
        let blocks = hashed(128);
        let mut lines = write(&path, &[captured(&blocks, 128)]);
        let line = lines[0].as_object_mut().unwrap();
        let hex = |value: &serde_json::Value| {
            let text = value.as_str().unwrap();
            assert_eq!(text.len(), 16, "{text}");
            u64::from_str_radix(text, 16).unwrap()
        };
        let session = hex(&line.remove("session").unwrap());
        let told: Vec<u64> = line["blocks"].as_array().unwrap().iter().map(hex).collect();
        line.remove("blocks");
        assert_eq!(told.len(), 2, "four blocks of 128 bytes are one");
        assert!(blocks.hashes().iter().all(|hash| !told.contains(&hash.0)));
        assert!(!told.contains(&session));
        let expected = serde_json::json!({
            "time_ms": 1_700_000_000_123_u64, "path": "chat_completions", "model": "m\"a", "pod": "e1", "status": 200,
            "body_bytes": 1300, "prompt_bytes": 1200, "prompt_tokens": 300, "cached_tokens": 0, "output_bytes": 900,
            "output_tokens": 7, "stream": true, "ttft_ms": 20, "duration_ms": 700, "block_bytes": 512,
        });
        assert_eq!(lines[0], expected);
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn hashes_are_equal_within_a_process_and_in_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("capture.jsonl");
        let blocks = hashed(1000);
        let request = captured(&blocks, 1000);
        let first = write(&path, &[request, request]);
        let second = write(&path, &[request]);
        assert_eq!(first[0], first[1]);
        assert_eq!((second.len(), &second[1]), (3, &first[1]));
        assert_eq!(
            (
                &second[2]["block_bytes"],
                second[2]["blocks"].as_array().unwrap().len()
            ),
            (&1000.into(), 1)
        );
        for key in ["session", "blocks"] {
            assert_ne!(second[2][key], first[0][key], "{key}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_written_is_an_error() {
        assert!(Capture::start(Path::new("/nonexistent/capture")).is_err());
    }
}
