//! The time limits of one request, which Pingora does not have: for the whole request, for the answer's first byte
//! and between two chunks of an answer.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::config::Timeouts;

/// Checked while the gateway waits for the engine or the client; a blocked write to the client has its own limit.
pub(super) struct Deadline {
    start: Instant,
    request: Option<Duration>,
    first_byte: Option<Duration>,
    idle: Option<Duration>,
    /// Milliseconds after `start` at which the engine was last heard of: the try's start, then each chunk. [`NEVER`] while
    /// there has been no try: a request that waits for a pod does not wait for an engine.
    heard_ms: AtomicU64,
    answered: std::sync::atomic::AtomicBool,
}

const NEVER: u64 = u64::MAX;

impl Deadline {
    pub(super) fn new(timeouts: &Timeouts, start: Instant) -> Self {
        Self {
            start,
            request: timeouts.request,
            first_byte: timeouts.first_byte,
            idle: timeouts.idle,
            heard_ms: AtomicU64::new(NEVER),
            answered: false.into(),
        }
    }

    pub(super) fn is_set(&self) -> bool {
        self.request.is_some() || self.first_byte.is_some() || self.idle.is_some()
    }

    /// A try begins: the wait for the first byte starts again.
    pub(super) fn try_started(&self) {
        if self.is_set() {
            self.hear();
        }
    }

    /// Something of the answer arrived.
    pub(super) fn heard(&self) {
        if self.is_set() {
            self.answered.store(true, Ordering::Relaxed);
            self.hear();
        }
    }

    /// Resolves when a limit has passed, with the reason.
    pub(super) async fn expired(&self) -> &'static str {
        loop {
            let Some((at, reason)) = self.next() else {
                return std::future::pending().await;
            };
            if Instant::now() >= at {
                return reason;
            }
            sleep_until(at).await;
        }
    }

    fn hear(&self) {
        let elapsed = self.start.elapsed().as_millis();
        self.heard_ms
            .store(u64::try_from(elapsed).unwrap_or(NEVER), Ordering::Relaxed);
    }

    fn next(&self) -> Option<(Instant, &'static str)> {
        let heard = match self.heard_ms.load(Ordering::Relaxed) {
            NEVER => None,
            after => Some(self.start + Duration::from_millis(after)),
        };
        let silence = if self.answered.load(Ordering::Relaxed) {
            heard.zip(self.idle).map(|(heard, limit)| {
                (
                    heard + limit,
                    "no further data from the engine within timeouts.idle",
                )
            })
        } else {
            heard.zip(self.first_byte).map(|(heard, limit)| {
                (
                    heard + limit,
                    "no answer from the engine within timeouts.first_byte",
                )
            })
        };
        let whole = self.request.map(|limit| {
            (
                self.start + limit,
                "the request took longer than timeouts.request",
            )
        });
        [silence, whole]
            .into_iter()
            .flatten()
            .min_by_key(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeouts(request: Option<u64>, first_byte: Option<u64>, idle: Option<u64>) -> Timeouts {
        Timeouts {
            connect: None,
            first_byte: first_byte.map(Duration::from_secs),
            idle: idle.map(Duration::from_secs),
            request: request.map(Duration::from_secs),
            client_write: None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_byte_limit_runs_from_the_start_of_the_try() {
        let start = Instant::now();
        let deadline = Deadline::new(&timeouts(None, Some(5), None), start);
        tokio::time::advance(Duration::from_secs(3)).await;
        deadline.try_started();
        let reason = deadline.expired().await;
        assert!(reason.contains("first_byte"), "{reason}");
        assert_eq!(start.elapsed().as_secs(), 8);
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_for_a_pod_is_not_waiting_for_an_engine() {
        let start = Instant::now();
        let deadline = Deadline::new(&timeouts(Some(9), Some(5), None), start);
        let reason = deadline.expired().await;
        assert!(reason.contains("timeouts.request"), "{reason}");
        assert_eq!(start.elapsed().as_secs(), 9);
    }

    #[tokio::test(start_paused = true)]
    async fn each_chunk_moves_the_idle_limit_but_never_the_whole_limit() {
        let start = Instant::now();
        let deadline = Deadline::new(&timeouts(Some(7), None, Some(4)), start);
        for _ in 0..2 {
            tokio::time::advance(Duration::from_secs(2)).await;
            deadline.heard();
        }
        let reason = deadline.expired().await;
        assert!(reason.contains("timeouts.request"), "{reason}");
        assert_eq!(start.elapsed().as_secs(), 7);
    }

    #[tokio::test(start_paused = true)]
    async fn without_limits_nothing_expires() {
        let deadline = Deadline::new(&timeouts(None, None, None), Instant::now());
        assert!(!deadline.is_set());
        let waited = tokio::time::timeout(Duration::from_secs(1_000_000), deadline.expired()).await;
        assert!(waited.is_err());
    }
}
