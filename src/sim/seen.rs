//! What reached the engine: every request and how it ended, for tests to look at.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use bytes::Bytes;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_64;

/// One request as the engine got it.
#[derive(Clone, Debug)]
pub struct SeenRequest {
    pub id: u64,
    pub method: String,
    /// Path and query, byte for byte.
    pub target: String,
    pub version: String,
    pub headers: Vec<(String, String)>,
    pub body_length: usize,
    /// XXH3-64 of the body.
    pub body_hash: u64,
    /// The body itself while it is small.
    pub body: Bytes,
    pub ended: Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    Running,
    Finished,
    ClientGone,
    /// The engine broke it off, by a fault.
    Killed,
}

impl SeenRequest {
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(given, _)| given == name);
        values.next().map(|(_, value)| value.as_str())
    }

    pub fn header_values(&self, name: &str) -> Vec<&str> {
        let matching = self.headers.iter().filter(|(given, _)| given == name);
        matching.map(|(_, value)| value.as_str()).collect()
    }
}

/// Bounds of the log: the oldest requests go first.
const KEPT: usize = 10_000;
const KEPT_BODY: usize = 64 << 10;
const KEPT_BODIES: usize = 64 << 20;

pub(super) struct Log {
    /// Off, requests are counted and nothing else.
    observe: bool,
    kept: Mutex<Kept>,
    total: AtomicU64,
    running: AtomicU64,
}

#[derive(Default)]
struct Kept {
    /// In order of their ids, which are consecutive.
    requests: VecDeque<SeenRequest>,
    body_bytes: usize,
}

/// A request under way. Notes its end; dropped without one, the client has gone.
pub(super) struct Entry {
    log: Arc<Log>,
    id: u64,
    ended: bool,
}

impl Log {
    pub(super) fn new(observe: bool) -> Self {
        Self {
            observe,
            kept: Mutex::default(),
            total: AtomicU64::new(0),
            running: AtomicU64::new(0),
        }
    }

    pub(super) fn add(self: &Arc<Self>, parts: &http::request::Parts, body: &Bytes) -> Entry {
        self.running.fetch_add(1, Ordering::Relaxed);
        let id = if self.observe {
            let mut request = seen(parts, body);
            let mut kept = self.kept.lock();
            // Counted under the lock, so that ids stay in order.
            request.id = self.total.fetch_add(1, Ordering::Relaxed);
            let id = request.id;
            kept.push(request);
            id
        } else {
            self.total.fetch_add(1, Ordering::Relaxed)
        };
        Entry {
            log: Arc::clone(self),
            id,
            ended: false,
        }
    }

    pub(super) fn all(&self) -> Vec<SeenRequest> {
        self.kept.lock().requests.iter().cloned().collect()
    }

    pub(super) fn clear(&self) {
        *self.kept.lock() = Kept::default();
    }

    pub(super) fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// Requests that have not ended, those that a fault holds up included.
    pub(super) fn running(&self) -> u64 {
        self.running.load(Ordering::Relaxed)
    }
}

fn seen(parts: &http::request::Parts, body: &Bytes) -> SeenRequest {
    let headers = parts.headers.iter().map(|(name, value)| {
        let value = String::from_utf8_lossy(value.as_bytes());
        (name.as_str().to_owned(), value.into_owned())
    });
    let target = parts.uri.path_and_query();
    SeenRequest {
        id: 0,
        method: parts.method.to_string(),
        target: target.map_or("*", |target| target.as_str()).to_owned(),
        version: format!("{:?}", parts.version),
        headers: headers.collect(),
        body_length: body.len(),
        body_hash: xxh3_64(body),
        body: if body.len() <= KEPT_BODY {
            body.clone()
        } else {
            Bytes::new()
        },
        ended: Ended::Running,
    }
}

impl Kept {
    fn push(&mut self, request: SeenRequest) {
        self.body_bytes += request.body.len();
        self.requests.push_back(request);
        while (self.requests.len() > KEPT || self.body_bytes > KEPT_BODIES)
            && let Some(oldest) = self.requests.pop_front()
        {
            self.body_bytes -= oldest.body.len();
        }
    }

    fn end(&mut self, id: u64, how: Ended) {
        let Some(oldest) = self.requests.front().map(|request| request.id) else {
            return;
        };
        // Before the oldest: it has been dropped from the log.
        if let Some(at) = id.checked_sub(oldest)
            && let Some(request) = self.requests.get_mut(at as usize)
        {
            request.ended = how;
        }
    }
}

impl SeenRequest {
    /// As `GET /sim/requests` tells it: a body that is no text is `body_base64`.
    pub(super) fn to_json(&self) -> Value {
        let mut value = json!({
            "id": self.id, "method": self.method, "target": self.target, "version": self.version,
            "headers": self.headers, "body_length": self.body_length,
            "body_xxh3": format!("{:016x}", self.body_hash), "ended": self.ended,
        });
        match std::str::from_utf8(&self.body) {
            // Too large to be kept.
            Ok("") if self.body_length > 0 => {}
            Ok(text) => value["body"] = text.into(),
            Err(_) => value["body_base64"] = BASE64_STANDARD.encode(&self.body).into(),
        }
        value
    }
}

impl Entry {
    /// Told before the client can see the end, so that who has seen it finds it in the log.
    pub(super) fn ended(&mut self, how: Ended) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        self.log.running.fetch_sub(1, Ordering::Relaxed);
        if self.log.observe {
            self.log.kept.lock().end(self.id, how);
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.ended(Ended::ClientGone);
    }
}
