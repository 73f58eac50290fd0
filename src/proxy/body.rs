//! Reads a whole request body, bounded in size and in time.

use std::pin::pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::FutureExt;
use http::header::{CONTENT_LENGTH, EXPECT};
use pingora_core::protocols::http::ServerSession;
use pingora_core::{Error, Result};
use tokio::time::{Instant, timeout};

use super::error::ErrorAnswer;
use crate::config::Limits;

/// Why there is no body: something to tell the client, or a connection that is gone.
pub(super) enum ReadError {
    Answer(ErrorAnswer),
    Connection(Box<Error>),
}

/// Refuses a body whose announced length is over the limit, before any of it is read.
pub(super) fn check_announced(session: &ServerSession, limits: &Limits) -> Result<(), ErrorAnswer> {
    match announced_length(session) {
        Some(length) if length > limits.body as u64 => {
            Err(ErrorAnswer::body_too_large(limits.body))
        }
        _ => Ok(()),
    }
}

/// Reads the body to its end. Answers `Expect: 100-continue` first.
pub(super) async fn read(session: &mut ServerSession, limits: &Limits) -> Result<Bytes, ReadError> {
    if session.is_body_empty() {
        return Ok(Bytes::new());
    }
    if expects_continue(session) {
        // Pingora takes any answer before the body's end, this one too, as the end of the connection.
        session.set_close_on_response_before_downstream_finish(false);
        let written = session.write_continue_response().await;
        session.set_close_on_response_before_downstream_finish(true);
        written.map_err(|error| ReadError::Connection(error.into_down()))?;
    }
    let announced = announced_length(session).and_then(|length| usize::try_from(length).ok());
    // A body that is there already needs no clock.
    let mut waiting_since = None;
    let mut gathered = Gathered::new(announced.unwrap_or(0));
    while let Some(chunk) = next_chunk(session, limits.body_idle, &mut waiting_since).await? {
        gathered.push(chunk);
        if gathered.received > limits.body {
            return Err(ReadError::Answer(ErrorAnswer::body_too_large(limits.body)));
        }
        let waited = waiting_since.map(|since| since.elapsed());
        if waited.is_some_and(|waited| is_too_slow(gathered.received, waited, limits)) {
            return Err(ReadError::Answer(ErrorAnswer::body_too_slow()));
        }
    }
    Ok(gathered.into_body())
}

/// A body as it comes in. One that comes in one piece is kept as it is, without a copy.
struct Gathered {
    announced: usize,
    received: usize,
    first: Option<Bytes>,
    rest: BytesMut,
}

impl Gathered {
    fn new(announced: usize) -> Self {
        Self {
            announced,
            received: 0,
            first: None,
            rest: BytesMut::new(),
        }
    }

    fn push(&mut self, chunk: Bytes) {
        self.received += chunk.len();
        if self.received == chunk.len() {
            self.first = Some(chunk);
            return;
        }
        if let Some(first) = self.first.take() {
            self.append(&first);
        }
        self.append(&chunk);
    }

    /// Memory is given for what was announced only up to a bound: more must be earned by sending that much.
    fn append(&mut self, chunk: &[u8]) {
        if self.rest.capacity() - self.rest.len() < chunk.len() {
            let earned = if self.rest.len() < TRUSTED_LENGTH {
                TRUSTED_LENGTH
            } else {
                usize::MAX
            };
            let expected = self.announced.min(earned).saturating_sub(self.rest.len());
            self.rest.reserve(expected.max(chunk.len()));
        }
        self.rest.extend_from_slice(chunk);
    }

    fn into_body(self) -> Bytes {
        self.first.unwrap_or_else(|| self.rest.freeze())
    }
}

const TRUSTED_LENGTH: usize = 1 << 20;

/// Reads and drops what the client still sends after it was refused, so that closing the connection does not
/// destroy the answer on its way (a close with unread data resets the connection).
pub(super) async fn linger(session: &mut ServerSession) {
    const LONGEST: Duration = Duration::from_secs(2);
    let drain = async { while let Ok(Some(_)) = session.read_request_body().await {} };
    // Running out of time is the expected end for a client that never stops sending.
    let _ = timeout(LONGEST, drain).await;
}

async fn next_chunk(
    session: &mut ServerSession,
    idle: Option<Duration>,
    waiting_since: &mut Option<Instant>,
) -> Result<Option<Bytes>, ReadError> {
    let mut read = pin!(session.read_request_body());
    let chunk = match (read.as_mut().now_or_never(), idle) {
        (Some(chunk), _) => chunk,
        (None, None) => read.await,
        (None, Some(idle)) => {
            waiting_since.get_or_insert_with(Instant::now);
            timeout(idle, read)
                .await
                .map_err(|_| ReadError::Answer(ErrorAnswer::body_too_slow()))?
        }
    };
    chunk.map_err(|error| ReadError::Connection(error.into_down()))
}

/// The lowest rate holds on average, once a body has taken as long as a single pause may take.
fn is_too_slow(received: usize, elapsed: Duration, limits: &Limits) -> bool {
    let Some(grace) = limits.body_idle else {
        return false;
    };
    elapsed > grace && (received as f64) < elapsed.as_secs_f64() * limits.body_rate as f64
}

fn announced_length(session: &ServerSession) -> Option<u64> {
    let value = session.req_header().headers.get(CONTENT_LENGTH)?;
    value.to_str().ok()?.trim().parse().ok()
}

fn expects_continue(session: &ServerSession) -> bool {
    session
        .req_header()
        .headers
        .get(EXPECT)
        .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_in_one_piece_is_not_copied() {
        let chunk = Bytes::from(vec![7; 1000]);
        let mut gathered = Gathered::new(1000);
        gathered.push(chunk.clone());
        assert_eq!(gathered.into_body().as_ptr(), chunk.as_ptr());
    }

    #[test]
    fn pieces_are_put_together_and_memory_must_be_earned() {
        let mut gathered = Gathered::new(1 << 40);
        for piece in [&b"one"[..], b"two", b"three"] {
            gathered.push(Bytes::from_static(piece));
        }
        assert!(gathered.rest.capacity() <= 2 * TRUSTED_LENGTH);
        assert_eq!(gathered.into_body(), &b"onetwothree"[..]);
    }
}
