//! Reads a whole request body, bounded in size and in time.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
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
        session
            .write_continue_response()
            .await
            .map_err(ReadError::Connection)?;
    }
    let announced = announced_length(session).unwrap_or(0);
    let started = Instant::now();
    let mut received = 0_usize;
    let mut first: Option<Bytes> = None;
    let mut rest = BytesMut::new();
    while let Some(chunk) = next_chunk(session, limits.body_idle).await? {
        received += chunk.len();
        if received > limits.body {
            return Err(ReadError::Answer(ErrorAnswer::body_too_large(limits.body)));
        }
        if is_too_slow(received, started.elapsed(), limits) {
            return Err(ReadError::Answer(ErrorAnswer::body_too_slow()));
        }
        match first.take() {
            // A body that comes in one piece is kept as it is, without a copy.
            None if rest.is_empty() => first = Some(chunk),
            None => rest.extend_from_slice(&chunk),
            Some(earlier) => {
                let known = usize::try_from(announced).unwrap_or(0);
                // Memory is given for what was announced only up to a bound: more must be earned by sending it.
                rest.reserve(known.min(TRUSTED_LENGTH).max(earlier.len() + chunk.len()));
                rest.extend_from_slice(&earlier);
                rest.extend_from_slice(&chunk);
            }
        }
    }
    Ok(first.unwrap_or_else(|| rest.freeze()))
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
) -> Result<Option<Bytes>, ReadError> {
    let read = session.read_request_body();
    let chunk = match idle {
        None => read.await,
        Some(idle) => timeout(idle, read)
            .await
            .map_err(|_| ReadError::Answer(ErrorAnswer::body_too_slow()))?,
    };
    chunk.map_err(ReadError::Connection)
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
