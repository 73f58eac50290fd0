//! What reached the engine: every request and how it ended, for tests to look at.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::Serialize;
use xxhash_rust::xxh3::xxh3_64;

/// One request as the engine got it.
#[derive(Clone, Debug, Serialize)]
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
    #[serde(skip)]
    pub body: Vec<u8>,
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

const KEPT: usize = 10_000;
const KEPT_BODY: usize = 64 << 10;

#[derive(Default)]
pub(super) struct Log {
    requests: Mutex<VecDeque<SeenRequest>>,
    next: std::sync::atomic::AtomicU64,
}

/// Notes the end of a request; dropped without one, the client has gone.
pub(super) struct Entry {
    log: Arc<Log>,
    id: u64,
    ended: bool,
}

impl Log {
    pub(super) fn add(self: &Arc<Self>, parts: &http::request::Parts, body: &[u8]) -> Entry {
        let id = self.next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let headers = parts.headers.iter().map(|(name, value)| {
            (
                name.as_str().to_owned(),
                String::from_utf8_lossy(value.as_bytes()).into_owned(),
            )
        });
        let target = parts
            .uri
            .path_and_query()
            .map_or("*", |target| target.as_str());
        let mut requests = self.requests.lock();
        if requests.len() == KEPT {
            requests.pop_front();
        }
        requests.push_back(SeenRequest {
            id,
            method: parts.method.to_string(),
            target: target.to_owned(),
            version: format!("{:?}", parts.version),
            headers: headers.collect(),
            body_length: body.len(),
            body_hash: xxh3_64(body),
            body: if body.len() <= KEPT_BODY {
                body.to_vec()
            } else {
                Vec::new()
            },
            ended: Ended::Running,
        });
        Entry {
            log: Arc::clone(self),
            id,
            ended: false,
        }
    }

    pub(super) fn all(&self) -> Vec<SeenRequest> {
        self.requests.lock().iter().cloned().collect()
    }

    pub(super) fn clear(&self) {
        self.requests.lock().clear();
    }

    pub(super) fn count(&self) -> u64 {
        self.next.load(std::sync::atomic::Ordering::Relaxed)
    }

    fn end(&self, id: u64, how: Ended) {
        let mut requests = self.requests.lock();
        if let Some(request) = requests.iter_mut().rev().find(|request| request.id == id) {
            request.ended = how;
        }
    }
}

impl Entry {
    pub(super) fn ended(&mut self, how: Ended) {
        self.ended = true;
        self.log.end(self.id, how);
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if !self.ended {
            self.log.end(self.id, Ended::ClientGone);
        }
    }
}
