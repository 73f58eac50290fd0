//! The engine's OpenAI face.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::sleep;

use super::answer::{self, Counts, Events};
use super::drive::Driver;
use super::engine::Event;
use super::faults::Faults;
use super::prompt::Wanted;
use super::seen::{Ended, Entry, Log};
use super::socket::Switch;
use crate::request::PathKind;

/// An engine's state, shared by its connections.
pub(super) struct Face {
    pub(super) models: Vec<String>,
    pub(super) driver: Driver,
    pub(super) log: Arc<Log>,
    pub(super) observe: bool,
    pub(super) faults: Mutex<Faults>,
    /// Counts up with each release of held requests.
    pub(super) released: watch::Sender<u64>,
    pub(super) health_checks: AtomicU64,
    pub(super) connections: AtomicU64,
}

type Pieces = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;
type Body = StreamBody<Pin<Box<dyn Stream<Item = io::Result<Frame<Bytes>>> + Send>>>;

/// A connection that is to be closed without an answer.
#[derive(Debug, thiserror::Error)]
#[error("closed on purpose")]
pub(super) struct Close;

impl Face {
    pub(super) async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
        switch: Switch,
    ) -> Result<Response<Body>, Close> {
        let (parts, body) = request.into_parts();
        // A client that leaves while it sends has sent no request.
        let body = body.collect().await.map_err(|_| Close)?.to_bytes();
        let path = parts.uri.path().to_owned();
        match (parts.method.clone(), path.as_str()) {
            (Method::GET, "/health") => Ok(self.health().await),
            (Method::GET, "/v1/models") => Ok(self.models()),
            (Method::GET, "/metrics") => Ok(self.metrics()),
            (Method::GET, "/version") => {
                Ok(json_answer(StatusCode::OK, &json!({"version": "sim"})))
            }
            (Method::GET, "/sim/requests") => {
                Ok(json_answer(StatusCode::OK, &json!(self.log.all())))
            }
            (Method::GET, "/sim/state") => Ok(json_answer(StatusCode::OK, &self.state())),
            (Method::POST, "/sim/faults") => Ok(self.set_faults(&body)),
            (Method::POST, "/sim/release") => {
                self.release();
                Ok(json_answer(StatusCode::OK, &json!({})))
            }
            _ => self.serve(&parts, &body, switch).await,
        }
    }

    pub(super) fn release(&self) {
        self.released.send_modify(|times| *times += 1);
    }

    async fn serve(
        self: Arc<Self>,
        parts: &Parts,
        body: &Bytes,
        switch: Switch,
    ) -> Result<Response<Body>, Close> {
        let faults = match parts
            .headers
            .get("x-sim-fault")
            .map(|value| serde_json::from_slice(value.as_bytes()))
        {
            Some(Ok(faults)) => faults,
            Some(Err(error)) => {
                return Ok(json_answer(
                    StatusCode::BAD_REQUEST,
                    &answer::error(&format!("x-sim-fault: {error}"), "bad_fault"),
                ));
            }
            None => self.faults.lock().clone(),
        };
        let mut entry = self.observe.then(|| self.log.add(parts, body));
        if faults.close_on_head {
            end(&mut entry, Ended::Killed);
            return Err(Close);
        }
        if faults.never_answer {
            std::future::pending::<Infallible>().await;
        }
        if faults.hold {
            let mut released = self.released.subscribe();
            released.changed().await.map_err(|_| Close)?;
        }
        sleep(Duration::from_millis(faults.head_delay_ms)).await;
        if let Some(raw) = &faults.raw_response {
            switch.raw(Bytes::copy_from_slice(raw.as_bytes()));
        }
        if let Some(status) = faults.status {
            end(&mut entry, Ended::Finished);
            return Ok(refusal(status));
        }
        if let Some(pieces) = scripted(&faults) {
            return Ok(stream_answer(pieces, faults, entry, switch));
        }
        self.compute(parts, body, faults, entry, switch).await
    }

    async fn compute(
        &self,
        parts: &Parts,
        body: &Bytes,
        faults: Faults,
        mut entry: Option<Entry>,
        switch: Switch,
    ) -> Result<Response<Body>, Close> {
        let kind = PathKind::classify(parts.uri.path());
        if parts.method == Method::OPTIONS {
            end(&mut entry, Ended::Finished);
            return Ok(preflight());
        }
        if kind == PathKind::Other || parts.method != Method::POST {
            end(&mut entry, Ended::Finished);
            return Ok(self.other(parts));
        }
        let wanted = match self.wanted(kind, parts, body) {
            Ok(wanted) => wanted,
            Err(refused) => {
                end(&mut entry, Ended::Finished);
                return Ok(*refused);
            }
        };
        let counts = Counts {
            prompt: wanted.job.prompt_tokens,
            ..Counts::default()
        };
        let computes = kind.fills_cache()
            || matches!(
                kind,
                PathKind::AudioTranscriptions | PathKind::AudioTranslations
            );
        if wanted.stream
            && let Some(events) = Events::new(kind, &wanted.model, wanted.include_usage)
        {
            return Ok(stream_answer(
                self.tokens(wanted, events, counts),
                faults,
                entry,
                switch,
            ));
        }
        let counts = if computes {
            self.finish(wanted.job, counts).await
        } else {
            counts
        };
        let whole = answer::whole(kind, &wanted.model, counts).to_string();
        if let Some(pause) = faults.content_length_pieces_ms {
            let length = whole.len();
            let pieces = in_pieces(whole, Duration::from_millis(pause));
            let mut response = stream_answer(pieces, faults, entry, switch);
            response.headers_mut().insert(CONTENT_LENGTH, length.into());
            response.headers_mut().insert(CONTENT_TYPE, JSON);
            return Ok(response);
        }
        end(&mut entry, Ended::Finished);
        Ok(full(StatusCode::OK, JSON, whole.into()))
    }

    fn wanted(
        &self,
        kind: PathKind,
        parts: &Parts,
        body: &Bytes,
    ) -> Result<Wanted, Box<Response<Body>>> {
        let refuse = |status, message: &str, code: &str| {
            Err(Box::new(json_answer(status, &answer::error(message, code))))
        };
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
                    json!({"model": request.model, "input": format!("{} bytes", body.len())})
                }
                Err(error) => {
                    return refuse(StatusCode::BAD_REQUEST, &error.to_string(), "bad_form");
                }
            }
        } else {
            match serde_json::from_slice::<Value>(body) {
                Ok(value) => value,
                Err(error) => {
                    return refuse(StatusCode::BAD_REQUEST, &error.to_string(), "bad_json");
                }
            }
        };
        let Some(wanted) = Wanted::read(&value, block_tokens) else {
            return refuse(StatusCode::BAD_REQUEST, "no model", "no_model");
        };
        if !self.models.contains(&wanted.model) {
            return refuse(
                StatusCode::NOT_FOUND,
                "the model does not exist here",
                "model_not_found",
            );
        }
        Ok(wanted)
    }

    async fn finish(&self, job: super::engine::Job, mut counts: Counts) -> Counts {
        let mut running = self.driver.submit(job);
        while let Some(event) = running.next().await {
            counts.note(event);
        }
        counts
    }

    fn tokens(&self, wanted: Wanted, events: Events, counts: Counts) -> Pieces {
        let running = self.driver.submit(wanted.job);
        let state = (running, events, counts);
        let tokens = stream::unfold(Some(state), |state| async {
            let (mut running, events, mut counts) = state?;
            Some(match running.next().await {
                Some(event) => {
                    let first = counts.output == 0;
                    counts.note(event);
                    let start = if first { events.start(counts) } else { None };
                    let pieces: Vec<Bytes> = start.into_iter().chain([events.token()]).collect();
                    (pieces, Some((running, events, counts)))
                }
                None => (events.end(counts), None),
            })
        });
        Box::pin(tokens.flat_map(|pieces| stream::iter(pieces.into_iter().map(Ok))))
    }

    async fn health(&self) -> Response<Body> {
        let faults = self.faults.lock().clone();
        let check = self.health_checks.fetch_add(1, Ordering::Relaxed);
        if faults
            .health_slow_every
            .is_none_or(|every| check % every.max(1) == every.max(1) - 1)
        {
            sleep(Duration::from_millis(faults.health_delay_ms)).await;
        }
        match faults.health_status {
            Some(status) => refusal(status),
            None => full(StatusCode::OK, JSON, Bytes::from_static(b"{}")),
        }
    }

    fn models(&self) -> Response<Body> {
        if let Some(status) = self.faults.lock().models_status {
            return refusal(status);
        }
        let models = self
            .models
            .iter()
            .map(|id| json!({"id": id, "object": "model", "created": 0, "owned_by": "sim"}));
        json_answer(
            StatusCode::OK,
            &json!({"object": "list", "data": models.collect::<Vec<_>>()}),
        )
    }

    fn other(&self, parts: &Parts) -> Response<Body> {
        let named = crate::request::model_in_path(parts.uri.path());
        match named.filter(|name| self.models.contains(name)) {
            Some(name) => json_answer(
                StatusCode::OK,
                &json!({"id": name, "object": "model", "created": 0, "owned_by": "sim"}),
            ),
            None => json_answer(
                StatusCode::NOT_FOUND,
                &answer::error("not found", "not_found"),
            ),
        }
    }

    fn metrics(&self) -> Response<Body> {
        if self.faults.lock().no_metrics {
            return refusal(404);
        }
        let model = self.models.first().map_or("", String::as_str);
        let page = self.driver.with(|engine| {
            let totals = engine.totals();
            let labels = format!("{{engine=\"0\",model_name=\"{model}\"}}");
            format!(
                "vllm:num_requests_running{labels} {}\nvllm:num_requests_waiting{labels} {}\nvllm:kv_cache_usage_perc{labels} {}\n\
                 vllm:prefix_cache_queries_total{labels} {}\nvllm:prefix_cache_hits_total{labels} {}\n\
                 vllm:prompt_tokens_total{labels} {}\nvllm:generation_tokens_total{labels} {}\n\
                 vllm:cache_config_info{{engine=\"0\",block_size=\"{}\",num_gpu_blocks=\"{}\"}} 1\n",
                engine.running(),
                engine.waiting(),
                engine.kv_usage(),
                totals.prompt_tokens,
                totals.cached_tokens,
                totals.prompt_tokens,
                totals.output_tokens,
                engine.model().block_tokens,
                engine.model().kv_blocks,
            )
        });
        full(StatusCode::OK, TEXT, page.into())
    }

    pub(super) fn state(&self) -> Value {
        let (running, waiting) = self
            .driver
            .with(|engine| (engine.running(), engine.waiting()));
        json!({
            "running": running, "waiting": waiting, "requests": self.log.count(),
            "connections": self.connections.load(Ordering::Relaxed),
        })
    }

    fn set_faults(&self, body: &[u8]) -> Response<Body> {
        match serde_json::from_slice(body) {
            Ok(faults) => {
                *self.faults.lock() = faults;
                json_answer(StatusCode::OK, &json!({}))
            }
            Err(error) => json_answer(
                StatusCode::BAD_REQUEST,
                &answer::error(&error.to_string(), "bad_fault"),
            ),
        }
    }
}

impl Counts {
    fn note(&mut self, event: Event) {
        if let Event::FirstToken { cached_tokens, .. } = event {
            self.cached = cached_tokens;
        }
        self.output += 1;
    }
}

const JSON: http::HeaderValue = http::HeaderValue::from_static("application/json");
const TEXT: http::HeaderValue = http::HeaderValue::from_static("text/plain; version=0.0.4");
const SSE: http::HeaderValue = http::HeaderValue::from_static("text/event-stream");

/// A body that a fault prescribes, whatever was asked.
fn scripted(faults: &Faults) -> Option<Pieces> {
    if let Some(script) = faults.script.clone() {
        return Some(Box::pin(stream::iter(script).then(|chunk| async move {
            sleep(chunk.delay()).await;
            Ok(chunk.data())
        })));
    }
    if let Some(bytes) = faults.flood_bytes {
        let chunk = Bytes::from(vec![b'x'; 64 << 10]);
        let count = bytes.div_ceil(chunk.len() as u64);
        return Some(Box::pin(stream::iter(
            (0..count).map(move |_| Ok(chunk.clone())),
        )));
    }
    if let Some(bytes) = faults.big_event_bytes {
        let chunk = Bytes::from(vec![b'x'; 64 << 10]);
        let middle = (0..bytes.div_ceil(chunk.len())).map(move |_| chunk.clone());
        let all = [Bytes::from_static(b"data: ")]
            .into_iter()
            .chain(middle)
            .chain([Bytes::from_static(b"\n\n")]);
        return Some(Box::pin(stream::iter(all.map(Ok))));
    }
    let events = faults.events?;
    let interval = Duration::from_millis(faults.event_interval_ms);
    Some(Box::pin(stream::iter(0..events).then(
        move |event| async move {
            if event > 0 {
                sleep(interval).await;
            }
            Ok(Bytes::from(format!("data: {{\"event\":{event}}}\n\n")))
        },
    )))
}

fn in_pieces(text: String, pause: Duration) -> Pieces {
    let bytes = Bytes::from(text);
    let third = bytes.len() / 3;
    let pieces = [
        bytes.slice(..third),
        bytes.slice(third..2 * third),
        bytes.slice(2 * third..),
    ];
    Box::pin(
        stream::iter(pieces.into_iter().enumerate()).then(move |(at, piece)| async move {
            if at > 0 {
                sleep(pause).await;
            }
            Ok(piece)
        }),
    )
}

/// A body in pieces, with the faults of streams and the note of its end.
fn stream_answer(
    pieces: Pieces,
    faults: Faults,
    entry: Option<Entry>,
    switch: Switch,
) -> Response<Body> {
    let first = Duration::from_millis(faults.first_delay_ms);
    let state = (pieces, entry, switch, 0_u64);
    let body = stream::unfold(Some(state), move |state| {
        let (die_after, reset) = (faults.die_after_events, faults.reset);
        async move {
            let (mut pieces, mut entry, switch, sent) = state?;
            if sent == 0 {
                sleep(first).await;
            }
            if die_after.is_some_and(|after| sent >= after) {
                // While the body waits, what came before is written out.
                tokio::task::yield_now().await;
                end(&mut entry, Ended::Killed);
                if reset {
                    switch.reset();
                }
                return Some((Err(io::Error::other("died on purpose")), None));
            }
            match pieces.next().await {
                Some(piece) => Some((
                    piece.map(Frame::data),
                    Some((pieces, entry, switch, sent + 1)),
                )),
                None => {
                    end(&mut entry, Ended::Finished);
                    None
                }
            }
        }
    });
    let mut response = Response::new(StreamBody::new(Box::pin(body) as _));
    response.headers_mut().insert(CONTENT_TYPE, SSE);
    response
}

fn end(entry: &mut Option<Entry>, how: Ended) {
    if let Some(entry) = entry {
        entry.ended(how);
    }
}

fn refusal(status: u16) -> Response<Body> {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = json_answer(status, &answer::error("refused on purpose", "sim_fault"));
    if matches!(status.as_u16(), 429 | 503) {
        response
            .headers_mut()
            .insert(http::header::RETRY_AFTER, 7.into());
    }
    response
}

fn preflight() -> Response<Body> {
    let mut response = full(StatusCode::OK, TEXT, Bytes::from_static(b"OK"));
    for (name, value) in [
        ("access-control-allow-origin", "*"),
        ("access-control-allow-methods", "GET, POST, OPTIONS"),
        (
            "access-control-allow-headers",
            "authorization, content-type",
        ),
    ] {
        response
            .headers_mut()
            .insert(name, http::HeaderValue::from_static(value));
    }
    response
}

fn json_answer(status: StatusCode, value: &Value) -> Response<Body> {
    full(status, JSON, value.to_string().into())
}

fn full(status: StatusCode, content_type: http::HeaderValue, body: Bytes) -> Response<Body> {
    let length = body.len();
    let once = stream::once(std::future::ready(Ok(Frame::data(body))));
    let mut response = Response::new(StreamBody::new(Box::pin(once) as _));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response.headers_mut().insert(CONTENT_LENGTH, length.into());
    response
}
