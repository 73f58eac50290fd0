//! What an engine's counters say of its last minute: means per request and per token.
//!
//! Counters tell of all time. The figures here are of what was added since the snapshot of about a minute ago; with
//! nothing added the last ones stay for as long as the engine tells the counters they are from, and an engine that has
//! begun again counts from its new zero.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// Counters of a metrics page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counter {
    QueueSeconds,
    Queued,
    PrefillSeconds,
    DecodeSeconds,
    FirstTokenSeconds,
    TokenSeconds,
    Tokens,
    Outputs,
    OutputTokens,
    PromptTokens,
    GeneratedTokens,
    /// By this gateway: usage in answers, prompt tokens twice.
    OwnWeighted,
}

const COUNTERS: usize = 12;

/// `None`: the engine does not tell it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Counters([Option<f64>; COUNTERS]);

impl Counters {
    pub(super) fn add(&mut self, counter: Counter, value: f64) {
        let sum = &mut self.0[counter as usize];
        *sum = Some(sum.unwrap_or(0.0) + value.max(0.0));
    }

    fn since(&self, earlier: &Self) -> Self {
        let mut added = *self;
        for (now, before) in added.0.iter_mut().zip(&earlier.0) {
            *now = match (*now, before) {
                (Some(now), Some(before)) if now >= *before => Some(now - before),
                (now, _) => now,
            };
        }
        added
    }

    fn get(&self, counter: Counter) -> Option<f64> {
        self.0[counter as usize]
    }

    fn ratio(&self, above: Counter, below: Counter) -> Option<f64> {
        let (above, below) = (self.get(above)?, self.get(below)?);
        (below > 0.0).then(|| above / below)
    }
}

/// Figures of the last minute.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Recent {
    pub(super) queue_seconds: Option<f64>,
    pub(super) prefill_seconds_per_token: Option<f64>,
    pub(super) decode_seconds_per_token: Option<f64>,
    pub(super) output_tokens: Option<f64>,
    pub(super) weighted_token_rate: Option<f64>,
}

#[derive(Debug, Default)]
pub(super) struct History {
    /// Oldest first.
    snapshots: VecDeque<(Instant, Counters)>,
    recent: Recent,
}

const SPACING: Duration = Duration::from_secs(5);
const WINDOW: Duration = Duration::from_secs(60);

impl History {
    pub(super) fn tick(&mut self, counters: Counters, now: Instant) -> Recent {
        let (at, base) = match self.snapshots.front() {
            Some((at, base)) => (Some(*at), *base),
            None => (None, Counters::default()),
        };
        let added = counters.since(&base);
        let passed = at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        self.recent = Recent::of(&added, passed, &self.recent);
        self.note(counters, now);
        self.recent
    }

    fn note(&mut self, counters: Counters, now: Instant) {
        let age = |at: &Instant| now.saturating_duration_since(*at);
        if self
            .snapshots
            .back()
            .is_none_or(|(at, _)| age(at) >= SPACING)
        {
            self.snapshots.push_back((now, counters));
        }
        while self
            .snapshots
            .front()
            .is_some_and(|(at, _)| age(at) > WINDOW)
        {
            self.snapshots.pop_front();
        }
    }
}

impl Recent {
    fn of(added: &Counters, passed: Duration, last: &Self) -> Self {
        use Counter::*;
        let told = |counters: &[Counter]| counters.iter().any(|one| added.get(*one).is_some());
        let kept = |last: Option<f64>, of: &[Counter]| last.filter(|_| told(of));
        // Without times of its own for prefill, the time to the first token: waiting included, which is then not told
        // apart.
        let prefill = added
            .ratio(PrefillSeconds, PromptTokens)
            .or_else(|| added.ratio(FirstTokenSeconds, PromptTokens));
        let decode = added
            .ratio(DecodeSeconds, GeneratedTokens)
            .or_else(|| added.ratio(TokenSeconds, Tokens));
        Self {
            queue_seconds: added
                .ratio(QueueSeconds, Queued)
                .or_else(|| kept(last.queue_seconds, &[Queued])),
            prefill_seconds_per_token: prefill
                .or_else(|| kept(last.prefill_seconds_per_token, &[PromptTokens])),
            decode_seconds_per_token: decode
                .or_else(|| kept(last.decode_seconds_per_token, &[GeneratedTokens, Tokens])),
            output_tokens: added
                .ratio(OutputTokens, Outputs)
                .or_else(|| kept(last.output_tokens, &[Outputs])),
            weighted_token_rate: added.weighted_tokens().and_then(|tokens| {
                (passed > Duration::ZERO).then(|| tokens / passed.as_secs_f64())
            }),
        }
    }
}

impl Counters {
    fn weighted_tokens(&self) -> Option<f64> {
        let prompt = self.get(Counter::PromptTokens);
        let generated = self.get(Counter::GeneratedTokens);
        match (prompt, generated) {
            (Some(prompt), Some(generated)) => Some(2.0 * prompt + generated),
            _ => self.get(Counter::OwnWeighted),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Counter::*;
    use super::*;

    fn counters(values: &[(Counter, f64)]) -> Counters {
        let mut counters = Counters::default();
        for (counter, value) in values {
            counters.add(*counter, *value);
        }
        counters
    }

    /// Of an engine that has worked evenly for so many seconds.
    fn page(seconds: f64) -> Counters {
        counters(&[
            (QueueSeconds, 2.0 * seconds),
            (Queued, 4.0 * seconds),
            (PrefillSeconds, 0.5 * seconds),
            (FirstTokenSeconds, 9.0 * seconds),
            (PromptTokens, 1000.0 * seconds),
            (TokenSeconds, 3.0 * seconds),
            (Tokens, 150.0 * seconds),
            (GeneratedTokens, 100.0 * seconds),
            (OutputTokens, 200.0 * seconds),
            (Outputs, 2.0 * seconds),
        ])
    }

    const EVEN: Recent = Recent {
        queue_seconds: Some(0.5),
        prefill_seconds_per_token: Some(0.0005),
        decode_seconds_per_token: Some(0.02),
        output_tokens: Some(100.0),
        weighted_token_rate: Some(2100.0),
    };

    #[test]
    fn means_are_of_what_was_added_and_stay_when_nothing_is() {
        let (mut history, start) = (History::default(), Instant::now());
        let mut tick =
            |second: u64, counters| history.tick(counters, start + Duration::from_secs(second));
        // At first all time is all there is, but for the rate, which has no time yet.
        let first = tick(0, page(1000.0));
        assert_eq!(
            first,
            Recent {
                weighted_token_rate: None,
                ..EVEN
            }
        );
        assert_eq!(tick(10, page(1010.0)), EVEN);
        // A long pause, then begun again from zero.
        tick(70, page(1010.0));
        let idle = tick(140, page(1010.0));
        assert_eq!(
            idle,
            Recent {
                weighted_token_rate: Some(0.0),
                ..EVEN
            }
        );
        assert_eq!(tick(150, page(10.0)).queue_seconds, Some(0.5));
        // Its metrics are not to be had any more.
        assert_eq!(tick(160, Counters::default()), Recent::default());
    }

    #[test]
    fn what_is_not_told_is_not_known() {
        let (mut history, start) = (History::default(), Instant::now());
        let own = |tokens| counters(&[(OwnWeighted, tokens)]);
        assert_eq!(history.tick(own(0.0), start), Recent::default());
        let later = history.tick(own(300.0), start + Duration::from_secs(10));
        assert_eq!(
            later,
            Recent {
                weighted_token_rate: Some(30.0),
                ..Recent::default()
            }
        );
    }

    #[test]
    fn memory_is_bounded() {
        let (mut history, start) = (History::default(), Instant::now());
        for tick in 0..10_000 {
            history.tick(
                Counters::default(),
                start + Duration::from_millis(tick * 100),
            );
        }
        assert!(history.snapshots.len() <= 13);
    }
}
