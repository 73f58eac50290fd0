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
use super::queue::Leaving;
use super::replay::Replay;
use super::rules::ProfileRules;
use super::sessions::ClientSession;
use super::state::{Live, OpenRequest};
use crate::answer::AnswerText;
use crate::fleet::{ConnectionHandle, InFlight, Pod, Selector};
use crate::request::PathKind;
use crate::routing::block::PrefixBlocks;
use crate::routing::{Choice, Plan, PodSlot, Request, Session};
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
    pub(super) prompt_tokens: u64,
    pub(super) user: Option<String>,
    pub(super) session: ClientSession,
    /// Labels that the pod must have.
    pub(super) selector: Option<Selector>,
    pub(super) profile: Option<Arc<ProfileRules>>,
}

impl Routing {
    /// Running requests with which a pod gets no more.
    pub(super) fn most_in_flight(&self) -> Option<u32> {
        self.profile.as_ref()?.profile.requests_inflight
    }

    pub(super) fn request(&self, now_ms: u64) -> Request<'_> {
        Request {
            blocks: &self.blocks,
            seed: self.seed,
            now_ms,
            prompt_tokens: self.prompt_tokens,
            user: self.user.as_deref(),
            session: Session {
                pod: self.session.pod,
                key: self.session.key.as_deref(),
            },
        }
    }
}

/// One try on one pod.
pub(super) struct Attempt {
    pub(super) pod: Arc<Pod>,
    pub(super) choice: Choice,
    /// Dropped with the attempt, whatever ends it.
    pub(super) in_flight: InFlight,
    /// After the count: who waits looks at it.
    #[expect(dead_code, reason = "held for its drop")]
    pub(super) leaving: Leaving,
    pub(super) connection: Option<ConnectionHandle>,
    /// The connection has served requests before.
    pub(super) kept_connection: bool,
}

impl Attempt {
    /// The answer was read to its end.
    pub(super) fn answered(&self) {
        if let Some(connection) = &self.connection {
            connection.answered();
        }
    }
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
    /// Its text, when that is noted in the index.
    pub(super) text: Option<AnswerText>,
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
        if let Some(text) = &mut self.text {
            text.feed(chunk);
        }
    }
}
