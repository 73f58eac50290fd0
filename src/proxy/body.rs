//! Reads a whole request body, bounded in size and in time.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use http::header::{CONTENT_LENGTH, EXPECT};
use pingora_core::protocols::http::ServerSession;
use pingora_core::{Error, Result};
use tokio::time::{Instant, timeout};

use super::error::ErrorAnswer;
use super::shelf::Shelf;
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
pub(super) async fn read(
    session: &mut ServerSession,
    limits: &Limits,
    shelf: &Arc<Shelf>,
) -> Result<Bytes, ReadError> {
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
    let mut gathered = Gathered::new(announced.unwrap_or(0), shelf);
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
struct Gathered<'a> {
    announced: usize,
    received: usize,
    first: Option<Bytes>,
    rest: Vec<u8>,
    shelf: &'a Arc<Shelf>,
}

impl<'a> Gathered<'a> {
    fn new(announced: usize, shelf: &'a Arc<Shelf>) -> Self {
        Self {
            announced,
            received: 0,
            first: None,
            rest: Vec::new(),
            shelf,
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

    fn append(&mut self, chunk: &[u8]) {
        let length = self.rest.len() + chunk.len();
        if length > self.rest.capacity() {
            self.grow(length);
        }
        self.rest.extend_from_slice(chunk);
    }

    /// Memory is given for what was announced only up to a bound: more must be earned by sending that much.
    fn grow(&mut self, length: usize) {
        let announced = match self.rest.len() {
            0 => self.announced.min(TRUSTED_LENGTH),
            _ => self.announced,
        };
        let wanted = match announced >= length {
            true => announced,
            // A body without a length, or of another one than it had told.
            false => length.max(2 * self.rest.capacity()),
        };
        let mut larger = self.shelf.take(wanted);
        larger.extend_from_slice(&self.rest);
        self.shelf.put(std::mem::replace(&mut self.rest, larger));
    }

    fn into_body(mut self) -> Bytes {
        let rest = std::mem::take(&mut self.rest);
        self.first.take().unwrap_or_else(|| self.shelf.lend(rest))
    }
}

/// A client that leaves in the middle of its body leaves the memory for others.
impl Drop for Gathered<'_> {
    fn drop(&mut self) {
        self.shelf.put(std::mem::take(&mut self.rest));
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
        let shelf = Arc::default();
        let mut gathered = Gathered::new(1000, &shelf);
        gathered.push(chunk.clone());
        assert_eq!(gathered.into_body().as_ptr(), chunk.as_ptr());
    }

    #[test]
    fn pieces_are_put_together_and_memory_must_be_earned() {
        let shelf = Arc::default();
        let mut gathered = Gathered::new(1 << 40, &shelf);
        for piece in [&b"one"[..], b"two", b"three"] {
            gathered.push(Bytes::from_static(piece));
        }
        assert!(gathered.rest.capacity() <= 2 * TRUSTED_LENGTH);
        assert_eq!(gathered.into_body(), &b"onetwothree"[..]);
    }

    #[test]
    fn a_large_body_takes_the_memory_of_the_one_before() {
        let shelf = Arc::default();
        let piece = Bytes::from(vec![7; 300 << 10]);
        let body = || {
            let mut gathered = Gathered::new(10 * piece.len(), &shelf);
            (0..10).for_each(|_| gathered.push(piece.clone()));
            gathered.into_body()
        };
        let first = body();
        assert_eq!(first, vec![7; 10 * piece.len()]);
        let place = first.as_ptr();
        drop(first);
        assert_eq!(body().as_ptr(), place);
    }

    #[test]
    fn a_body_without_a_length_grows_by_doubling() {
        let shelf = Arc::default();
        let mut gathered = Gathered::new(0, &shelf);
        let mut places = std::collections::HashSet::new();
        for at in 0..10_000_u32 {
            gathered.push(Bytes::copy_from_slice(&at.to_be_bytes()));
            places.insert(gathered.rest.as_ptr());
        }
        assert!(places.len() < 20, "moved {} times", places.len());
        let expected: Vec<u8> = (0..10_000_u32).flat_map(u32::to_be_bytes).collect();
        assert_eq!(gathered.into_body(), expected);
    }
}
