//! Prompt tokens that wait on a pod to be read, and how fast it has been found to read them.
//!
//! Tokens are added when a request is sent there and taken off at the first byte of its answer, or whenever the request
//! ends. The speed is tokens over time, both smoothed over about the last twenty answers: long prompts, which say the most,
//! count the most. Only streams teach it: the first byte of any other answer comes when all of it is there.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

/// Of the sums that a new answer replaces.
const NEW: f64 = 0.05;

#[derive(Debug, Default)]
pub struct Prefill {
    requests: AtomicU32,
    tokens: AtomicU64,
    /// Bits of the speed; 0: not known.
    rate: AtomicU64,
    sums: Mutex<Sums>,
}

#[derive(Debug, Default)]
struct Sums {
    tokens: f64,
    seconds: f64,
}

impl Prefill {
    /// Gives the tokens that were waiting before.
    pub fn begin(&self, tokens: u64) -> u64 {
        self.requests.fetch_add(1, Ordering::AcqRel);
        self.tokens.fetch_add(tokens, Ordering::AcqRel)
    }

    pub fn end(&self, tokens: u64) {
        self.requests.fetch_sub(1, Ordering::AcqRel);
        self.tokens.fetch_sub(tokens, Ordering::AcqRel);
    }

    /// So many tokens, those that were before them included, took so long.
    pub fn learn(&self, tokens: u64, took: Duration) {
        let (tokens, seconds) = (tokens as f64, took.as_secs_f64());
        let mut sums = self.sums.lock();
        if sums.seconds == 0.0 {
            *sums = Sums { tokens, seconds };
        } else {
            sums.tokens += NEW * (tokens - sums.tokens);
            sums.seconds += NEW * (seconds - sums.seconds);
        }
        let rate = sums.tokens / sums.seconds;
        if rate.is_finite() {
            self.rate.store(rate.to_bits(), Ordering::Relaxed);
        }
    }

    pub fn requests(&self) -> u32 {
        self.requests.load(Ordering::Acquire)
    }

    pub fn tokens(&self) -> u64 {
        self.tokens.load(Ordering::Acquire)
    }

    /// Tokens a second.
    pub fn rate(&self) -> Option<f64> {
        let rate = f64::from_bits(self.rate.load(Ordering::Relaxed));
        (rate > 0.0).then_some(rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_wait_until_their_answer_begins() {
        let prefill = Prefill::default();
        assert_eq!(prefill.begin(100), 0);
        assert_eq!(prefill.begin(50), 100);
        prefill.end(100);
        assert_eq!((prefill.requests(), prefill.tokens()), (1, 50));
    }

    #[test]
    fn the_speed_follows_the_long_prompts() {
        let prefill = Prefill::default();
        assert_eq!(prefill.rate(), None);
        prefill.learn(0, Duration::ZERO);
        assert_eq!(prefill.rate(), None);
        prefill.learn(1000, Duration::from_secs(1));
        assert_eq!(prefill.rate(), Some(1000.0));
        for _ in 0..200 {
            prefill.learn(10, Duration::from_millis(50));
            prefill.learn(4000, Duration::from_secs(1));
        }
        let rate = prefill.rate().unwrap();
        assert!((3500.0..4500.0).contains(&rate), "{rate}");
    }
}
