//! Bodies of answers: whole, token by token, or as a fault prescribes.
//!
//! A body owns the request's entry in the log and its job, so that both end with it: at its last byte, or
//! when the client goes and the body is dropped.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use http::Response;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http_body_util::{Either, Full, StreamBody};
use hyper::body::Frame;

use super::faults::Faults;
use super::seen::{Ended, Entry};
use super::socket::Switch;

pub(super) type Pieces = Pin<Box<dyn Stream<Item = Bytes> + Send>>;
type Frames = Pin<Box<dyn Stream<Item = Result<Frame<Bytes>, Infallible>> + Send>>;
pub(super) type Body = Either<Full<Bytes>, StreamBody<Frames>>;

const SSE: http::HeaderValue = http::HeaderValue::from_static("text/event-stream");
const FILL: &[u8] = &[b'x'; 16 << 10];

/// A timer's shortest sleep is a millisecond; no pause is none.
pub(super) async fn pause(milliseconds: u64) {
    if milliseconds > 0 {
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
    }
}

/// A body that a fault prescribes, whatever was asked.
pub(super) fn scripted(faults: &Faults) -> Option<Pieces> {
    if let Some(script) = faults.script.clone() {
        return Some(Box::pin(stream::iter(script).then(|chunk| async move {
            pause(chunk.delay_ms).await;
            chunk.data()
        })));
    }
    if let Some(bytes) = faults.flood_bytes {
        return Some(Box::pin(stream::iter(filling(bytes))));
    }
    if let Some(bytes) = faults.big_event_bytes {
        let event = std::iter::once(Bytes::from_static(b"data: "))
            .chain(filling(bytes))
            .chain([Bytes::from_static(b"\n\n")]);
        return Some(Box::pin(stream::iter(event)));
    }
    let events = (0..faults.events?).map(|event| format!("data: {{\"event\":{event}}}\n\n").into());
    Some(Box::pin(stream::iter(events)))
}

/// Exactly so many bytes, in pieces.
fn filling(bytes: u64) -> impl Iterator<Item = Bytes> + Send {
    let mut left = bytes;
    std::iter::from_fn(move || {
        let piece = left.min(FILL.len() as u64);
        left -= piece;
        (piece > 0).then(|| Bytes::from_static(FILL).slice(..piece as usize))
    })
}

pub(super) fn in_three(text: Bytes, pause_ms: u64) -> Pieces {
    let third = text.len() / 3;
    let pieces = [0..third, third..2 * third, 2 * third..text.len()].map(|part| text.slice(part));
    let paused = stream::iter(pieces.into_iter().enumerate()).then(move |(at, piece)| async move {
        if at > 0 {
            pause(pause_ms).await;
        }
        piece
    });
    Box::pin(paused)
}

/// Streams the pieces with the faults of streams, and notes how that ended.
pub(super) fn streamed(
    pieces: Pieces,
    faults: Arc<Faults>,
    entry: Entry,
    switch: Switch,
) -> Response<Body> {
    // A script has its own pauses.
    let interval_ms = match faults.script {
        Some(_) => 0,
        None => faults.event_interval_ms,
    };
    let state = (pieces, entry, 0_u64);
    let frames = stream::unfold(state, move |(mut pieces, mut entry, sent)| {
        let faults = Arc::clone(&faults);
        let switch = switch.clone();
        async move {
            pause(if sent == 0 { faults.first_delay_ms } else { 0 }).await;
            if faults.die_after_events.is_some_and(|after| sent >= after) {
                entry.ended(Ended::Killed);
                switch.die(faults.reset).await;
            }
            let Some(piece) = pieces.next().await else {
                entry.ended(Ended::Finished);
                return None;
            };
            pause(if sent == 0 { 0 } else { interval_ms }).await;
            Some((Ok(Frame::data(piece)), (pieces, entry, sent + 1)))
        }
    });
    let mut response = Response::new(Either::Right(StreamBody::new(Box::pin(frames) as _)));
    response.headers_mut().insert(CONTENT_TYPE, SSE);
    response
}

pub(super) fn whole(
    status: http::StatusCode,
    content_type: http::HeaderValue,
    body: Bytes,
) -> Response<Body> {
    let length = body.len();
    let mut response = Response::new(Either::Left(Full::new(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response.headers_mut().insert(CONTENT_LENGTH, length.into());
    response
}
