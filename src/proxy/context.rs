//! What one request has learned so far.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use tokio::time::Instant;

use super::deadline::Deadline;
use super::error::ErrorAnswer;
use super::replay::Replay;
use super::state::Live;
use crate::fleet::{InFlight, Pod};
use crate::request::PathKind;
use crate::routing::block::PrefixBlocks;
use crate::routing::{Choice, Plan, PodSlot};
use crate::usage::UsageScanner;

pub struct RequestContext {
    pub(super) started: Instant,
    pub(super) request_id: String,
    pub(super) client: Option<IpAddr>,
    pub(super) kind: PathKind,
    /// The settings this request began with; a reload does not change them under it.
    pub(super) live: Arc<Live>,
    pub(super) deadline: Arc<Deadline>,
    pub(super) replay: Arc<Replay>,
    pub(super) routing: Option<Routing>,
    /// The current try. Dropping it takes the request off the pod's count, on every path.
    pub(super) attempt: Option<Attempt>,
    /// Pods that could not be reached.
    pub(super) excluded: Vec<PodSlot>,
    pub(super) tries: usize,
    /// The answer for an error that was found inside a filter that can only return Pingora's error.
    pub(super) error: Option<ErrorAnswer>,
    pub(super) body_length: usize,
    /// The body was decoded: the engine gets it without its Content-Encoding.
    pub(super) decoded: bool,
    pub(super) answer: Answer,
}

/// How the request is to be routed: fixed before the first try.
pub(super) struct Routing {
    /// `None`: a path that names no model, passed by load.
    pub(super) model: Option<String>,
    pub(super) plan: Arc<Plan>,
    pub(super) blocks: PrefixBlocks,
    /// Whether the blocks are noted in the index when the request is sent.
    pub(super) records: bool,
    pub(super) seed: u64,
}

/// One try on one pod.
pub(super) struct Attempt {
    pub(super) pod: Arc<Pod>,
    pub(super) choice: Choice,
    pub(super) _in_flight: InFlight,
    pub(super) recorded: bool,
}

/// What is known of the answer.
#[derive(Default)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) from_engine: bool,
    pub(super) first_byte: Option<Instant>,
    pub(super) bytes: u64,
    pub(super) complete: bool,
    pub(super) usage: Option<UsageScanner>,
}

impl RequestContext {
    pub(super) fn new(live: Arc<Live>) -> Self {
        let started = Instant::now();
        Self {
            started,
            request_id: String::new(),
            client: None,
            kind: PathKind::Other,
            deadline: Arc::new(Deadline::new(&live.timeouts, started)),
            live,
            replay: Arc::default(),
            routing: None,
            attempt: None,
            excluded: Vec::new(),
            tries: 0,
            error: None,
            body_length: 0,
            decoded: false,
            answer: Answer::default(),
        }
    }

    pub(super) fn received(&mut self, body: &Bytes) {
        self.body_length = body.len();
    }
}
