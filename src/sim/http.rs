//! The engine's OpenAI face.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use bytes::Bytes;
use futures::{StreamExt, stream};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::answer::{self, Counts, Events, Identity};
use super::drive::Driver;
use super::engine::{Event, Job};
use super::faults::Faults;
use super::pages::{bad_request, no_model, not_found, preflight, refusal};
use super::prompt::{self, Wanted};
use super::seen::{Ended, Entry, Log};
use super::socket::Switch;
use super::stream::{Body, Pieces, in_three, pause, scripted, streamed, whole};
use crate::request::PathKind;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// An engine's state, shared by its connections.
pub(super) struct Face {
    pub(super) models: Vec<String>,
    pub(super) driver: Driver,
    pub(super) log: Arc<Log>,
    pub(super) faults: Mutex<Arc<Faults>>,
    /// Counts up with each release of held requests.
    pub(super) released: watch::Sender<u64>,
    pub(super) health_checks: AtomicU64,
    pub(super) connections: AtomicU64,
}

impl Face {
    /// Fails when the client leaves while it still sends.
    pub(super) async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
        switch: Switch,
    ) -> hyper::Result<Response<Body>> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        if let Some(page) = self.page(&parts.method, parts.uri.path(), &body).await {
            return Ok(page);
        }
        let mut entry = self.log.add(&parts, &body);
        let faults = match parts.headers.get("x-sim-fault") {
            None => self.faults(),
            Some(own) => match serde_json::from_slice(own.as_bytes()) {
                Ok(faults) => Arc::new(faults),
                Err(error) => {
                    entry.ended(Ended::Finished);
                    return Ok(bad_request(&format!("x-sim-fault: {error}"), "bad_fault"));
                }
            },
        };
        Ok(self.serve(&parts, &body, faults, entry, switch).await)
    }

    async fn serve(
        &self,
        parts: &Parts,
        body: &Bytes,
        faults: Arc<Faults>,
        mut entry: Entry,
        switch: Switch,
    ) -> Response<Body> {
        if faults.close_on_head {
            entry.ended(Ended::Killed);
            switch.die(faults.reset).await;
        }
        if faults.never_answer {
            let () = std::future::pending().await;
        }
        if faults.hold {
            let mut released = self.released.subscribe();
            // It cannot fail while the sender, which is in `self`, is there.
            let _ = released.changed().await;
        }
        pause(faults.head_delay_ms).await;
        if let Some(raw) = faults.raw() {
            entry.ended(Ended::Killed);
            switch.say(raw).await;
        }
        if let Some(status) = faults.status {
            entry.ended(Ended::Finished);
            return refusal(status);
        }
        if let Some(pieces) = scripted(&faults) {
            return streamed(pieces, faults, entry, switch);
        }
        match self.compute(parts, body).await {
            Computed::Stream(pieces) => streamed(pieces, faults, entry, switch),
            Computed::Whole(text) => {
                if faults.die_after_events.is_none() && faults.content_length_pieces_ms.is_none() {
                    entry.ended(Ended::Finished);
                    return whole(StatusCode::OK, JSON, text);
                }
                let length = text.len();
                let pieces = in_three(text, faults.content_length_pieces_ms.unwrap_or(0));
                let mut response = streamed(pieces, faults, entry, switch);
                let headers = response.headers_mut();
                headers.insert(CONTENT_LENGTH, length.into());
                headers.insert(CONTENT_TYPE, JSON);
                response
            }
            Computed::Other(response) => {
                entry.ended(Ended::Finished);
                *response
            }
        }
    }

    async fn compute(&self, parts: &Parts, body: &Bytes) -> Computed {
        let kind = PathKind::classify(parts.uri.path());
        if parts.method == Method::OPTIONS {
            return Computed::Other(Box::new(preflight()));
        }
        if kind == PathKind::Other || parts.method != Method::POST {
            return Computed::Other(Box::new(not_found()));
        }
        let wanted = match self.wanted(kind, parts, body) {
            Ok(wanted) => wanted,
            Err(refused) => return Computed::Other(refused),
        };
        let counts = Counts {
            prompt: wanted.job.prompt_tokens,
            ..Counts::default()
        };
        let request_id = parts.headers.get("x-request-id");
        let request_id = request_id.and_then(|id| id.to_str().ok());
        let identity = Identity {
            model: wanted.model,
            request_id: request_id.map(str::to_owned),
        };
        if wanted.stream
            && let Some(events) = Events::new(kind, &identity, wanted.include_usage)
        {
            return Computed::Stream(self.tokens(wanted.job, events, counts));
        }
        let is_audio = matches!(
            kind,
            PathKind::AudioTranscriptions | PathKind::AudioTranslations
        );
        let counts = if kind.fills_cache() || is_audio {
            self.finish(wanted.job, counts).await
        } else {
            counts
        };
        Computed::Whole(answer::whole(kind, &identity, counts).to_string().into())
    }

    fn wanted(
        &self,
        kind: PathKind,
        parts: &Parts,
        body: &Bytes,
    ) -> Result<Wanted, Box<Response<Body>>> {
        let refuse = |message: &str, code: &str| Err(Box::new(bad_request(message, code)));
        let block_tokens = self.driver.with(|engine| engine.model().block_tokens);
        let content_type = parts
            .headers
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok());
        let value = if matches!(
            kind,
            PathKind::AudioTranscriptions | PathKind::AudioTranslations
        ) {
            let options = crate::request::ParseOptions {
                include_tools: true,
            };
            match crate::request::parse(kind, content_type, body, &options) {
                Ok(request) => {
                    serde_json::json!({"model": request.model, "input": format!("{} bytes", body.len())})
                }
                Err(error) => {
                    return refuse(&error.to_string(), "bad_form");
                }
            }
        } else {
            match prompt::read_json(body) {
                Ok(value) => value,
                Err(error) => {
                    return refuse(&error.to_string(), "bad_json");
                }
            }
        };
        let Some(wanted) = Wanted::read(&value, block_tokens) else {
            return refuse("no model", "no_model");
        };
        if !self.models.contains(&wanted.model) {
            return Err(Box::new(no_model()));
        }
        Ok(wanted)
    }

    async fn finish(&self, job: Job, mut counts: Counts) -> Counts {
        let mut running = self.driver.submit(job);
        while let Some(event) = running.next().await {
            counts.note(event);
        }
        counts
    }

    fn tokens(&self, job: Job, events: Events, counts: Counts) -> Pieces {
        let output_tokens = job.output_tokens;
        let running = self.driver.submit(job);
        let state = (running, events, counts);
        let tokens = stream::unfold(Some(state), move |state| async move {
            let (mut running, events, mut counts) = state?;
            Some(match running.next().await {
                Some(event) => {
                    let first = counts.output == 0;
                    counts.note(event);
                    let start = if first { events.start(counts) } else { None };
                    let pieces: Vec<Bytes> = start
                        .into_iter()
                        .chain([events.token(counts, counts.output == output_tokens)])
                        .collect();
                    (pieces, Some((running, events, counts)))
                }
                None => (events.end(counts), None),
            })
        });
        Box::pin(tokens.flat_map(stream::iter))
    }
}

/// What came of a request.
enum Computed {
    Stream(Pieces),
    Whole(Bytes),
    Other(Box<Response<Body>>),
}

impl Counts {
    fn note(&mut self, event: Event) {
        if let Event::FirstToken { cached_tokens, .. } = event {
            self.cached = cached_tokens;
        }
        self.output += 1;
    }
}
