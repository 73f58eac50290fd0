//! How many output tokens a second a pod gives: the capacity in the `load-balance` score.
//!
//! The rate over about a minute is taken from snapshots of a counter, and smoothed with a time constant of ten seconds:
//! `estimate += (1 - exp(-dt / 10 s)) * (rate - estimate)`. A minute without tokens changes nothing, since an idle pod is not
//! a slow one.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

#[derive(Debug, Default)]
pub struct OutputRate {
    /// Oldest first.
    snapshots: VecDeque<(Instant, u64)>,
    estimate: Option<f64>,
    updated: Option<Instant>,
}

const SPACING: Duration = Duration::from_secs(5);
const KEPT_FOR: Duration = Duration::from_secs(180);
const KEPT: usize = 36;
const WINDOW: Duration = Duration::from_secs(60);
const SHORTEST: Duration = Duration::from_secs(10);
const TIME_CONSTANT: Duration = Duration::from_secs(10);

impl OutputRate {
    /// Takes the counter as it is now; gives the estimate.
    pub fn tick(&mut self, tokens: u64, now: Instant) -> Option<f64> {
        let rate = self.rate(tokens, now);
        self.note(tokens, now);
        if let Some(rate) = rate {
            let passed = self.updated.map(|at| now.saturating_duration_since(at));
            self.estimate = Some(match (self.estimate, passed) {
                (Some(estimate), Some(passed)) => {
                    let weight = 1.0 - (-passed.as_secs_f64() / TIME_CONSTANT.as_secs_f64()).exp();
                    estimate + weight * (rate - estimate)
                }
                _ => rate,
            });
            self.updated = Some(now);
        }
        self.estimate
    }

    /// Tokens a second since the snapshot whose age is closest to the window; `None` for too short a time or no tokens.
    fn rate(&self, tokens: u64, now: Instant) -> Option<f64> {
        let age = |at: Instant| now.saturating_duration_since(at);
        let &(at, base) = self
            .snapshots
            .iter()
            .min_by_key(|(at, _)| age(*at).abs_diff(WINDOW))?;
        let elapsed = age(at);
        let delta = tokens.checked_sub(base).unwrap_or(tokens);
        (elapsed >= SHORTEST && delta > 0).then(|| delta as f64 / elapsed.as_secs_f64())
    }

    fn note(&mut self, tokens: u64, now: Instant) {
        let age = |at: Instant| now.saturating_duration_since(at);
        if self
            .snapshots
            .back()
            .is_some_and(|(at, _)| age(*at) < SPACING)
        {
            return;
        }
        self.snapshots.push_back((now, tokens));
        while self.snapshots.len() > KEPT
            || self
                .snapshots
                .front()
                .is_some_and(|(at, _)| age(*at) > KEPT_FOR)
        {
            self.snapshots.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ticks each second with the counter growing by `per_second`; the last estimate.
    fn run(
        rate: &mut OutputRate,
        start: Instant,
        seconds: std::ops::Range<u64>,
        counter: impl Fn(u64) -> u64,
    ) -> Option<f64> {
        let mut last = None;
        for second in seconds {
            last = rate.tick(counter(second), start + Duration::from_secs(second));
        }
        last
    }

    #[test]
    fn a_steady_rate_is_found_and_needs_ten_seconds() {
        let (mut rate, start) = (OutputRate::default(), Instant::now());
        assert_eq!(run(&mut rate, start, 0..10, |second| second * 100), None);
        let found = run(&mut rate, start, 10..40, |second| second * 100).unwrap();
        assert!((found - 100.0).abs() < 1e-9, "{found}");
    }

    #[test]
    fn once_a_window_is_without_tokens_the_estimate_stays() {
        let (mut rate, start) = (OutputRate::default(), Instant::now());
        let counter = |second: u64| second.min(60) * 50;
        let idle = run(&mut rate, start, 0..130, counter);
        assert!(idle.is_some());
        assert_eq!(run(&mut rate, start, 130..900, counter), idle);
    }

    #[test]
    fn memory_is_bounded() {
        let (mut rate, start) = (OutputRate::default(), Instant::now());
        run(&mut rate, start, 0..10_000, |second| second);
        assert!(rate.snapshots.len() <= KEPT);
    }
}
