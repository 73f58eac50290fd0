//! What one request has learned so far.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::HeaderValue;
use pingora_core::{Error, ErrorType};
use tokio::time::Instant;

use super::deadline::Deadline;
use super::error::ErrorAnswer;
use super::headers::RequestId;
use super::replay::Replay;
use super::state::{Live, OpenRequest};
use crate::fleet::{InFlight, Pod};
use crate::request::PathKind;
use crate::routing::block::PrefixBlocks;
use crate::routing::{Choice, Plan, PodSlot};
use crate::usage::UsageScanner;

pub struct RequestContext {
    pub(super) started: Instant,
    pub(super) request_id: RequestId,
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
    pub(super) tries: u32,
    /// The answer for an error that was found inside a filter that can only return Pingora's error.
    pub(super) error: Option<ErrorAnswer>,
    pub(super) body_length: usize,
    /// The body was decoded: the engine gets it without its Content-Encoding.
    pub(super) decoded: bool,
    /// The client asked for a websocket, and the engine may agree.
    pub(super) may_upgrade: bool,
    pub(super) answer: Answer,
    /// Counts the request as open until its end.
    pub(super) open: Option<OpenRequest>,
}

/// How the request is to be routed: fixed before the first try.
pub(super) struct Routing {
    /// `None`: a path that names no model, passed by load.
    pub(super) model: Option<String>,
    pub(super) plan: Arc<Plan>,
    /// What was asked for, for a header.
    pub(super) strategy: HeaderValue,
    pub(super) blocks: PrefixBlocks,
    /// Whether the blocks are noted in the index when the request is sent.
    pub(super) records: bool,
    pub(super) seed: u64,
}

/// One try on one pod.
pub(super) struct Attempt {
    pub(super) pod: Arc<Pod>,
    pub(super) choice: Choice,
    /// Dropped with the attempt, whatever ends it.
    #[expect(dead_code, reason = "held for its drop")]
    pub(super) in_flight: InFlight,
}

/// What is known of the answer.
#[derive(Default)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) from_engine: bool,
    /// It comes as events.
    pub(super) stream: bool,
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
            request_id: RequestId::NONE,
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
            may_upgrade: false,
            answer: Answer::default(),
            open: None,
        }
    }

    /// Keeps the answer for `fail_to_proxy` and gives the error that leads there.
    pub(super) fn fail(&mut self, answer: ErrorAnswer) -> Box<Error> {
        let status = answer.status.as_u16();
        self.error = Some(answer);
        Error::new(ErrorType::HTTPStatus(status)).into_in()
    }

    pub(super) fn may_try_again(&self) -> bool {
        self.tries as usize <= self.live.retry.attempts
    }
}

impl Answer {
    pub(super) fn received(&mut self, chunk: &Bytes) {
        if chunk.is_empty() {
            return;
        }
        self.bytes += chunk.len() as u64;
        self.first_byte.get_or_insert_with(Instant::now);
        if let Some(usage) = &mut self.usage {
            usage.feed(chunk);
        }
    }
}
