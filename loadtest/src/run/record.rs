//! What the clients saw, in histograms, counts and series that do not grow with the number of requests.

pub(crate) mod load;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use hdrhistogram::Histogram;
use tokio::time::Instant;

use super::client::{Answer, Failure, Kind};
use load::Load;

/// Microseconds.
pub(crate) type Times = Histogram<u64>;

pub(crate) struct Record {
    start: Instant,
    /// Requests meant to begin earlier are in no figure but the errors.
    measured_from: Instant,
    pub(crate) first_token: Times,
    pub(crate) between: Times,
    pub(crate) total: Times,
    /// How late the client itself was.
    pub(crate) lateness: Times,
    pub(crate) classes: Vec<Class>,
    pub(crate) pods: BTreeMap<String, Pod>,
    pub(crate) failures: BTreeMap<Kind, Failed>,
    pub(crate) requests: u64,
    pub(crate) warm_up_requests: u64,
    pub(crate) tokens: Tokens,
    /// By the second in which the answers ended.
    pub(crate) seconds: Vec<Tokens>,
}

pub(crate) struct Class {
    pub(crate) first_token: Times,
    pub(crate) total: Times,
    pub(crate) requests: u64,
    pub(crate) tokens: Tokens,
}

#[derive(Default)]
pub(crate) struct Pod {
    pub(crate) requests: u64,
    pub(crate) tokens: Tokens,
    pub(crate) load: Load,
}

#[derive(Default)]
pub(crate) struct Failed {
    pub(crate) count: u64,
    /// What the first one said.
    pub(crate) example: String,
}

/// Tokens as the engines count them.
#[derive(Clone, Copy, Default)]
pub(crate) struct Tokens {
    pub(crate) prompt: u64,
    /// Prompt tokens of answers that tell how many of them were cached.
    pub(crate) looked_up: u64,
    pub(crate) cached: u64,
    pub(crate) output: u64,
}

impl Tokens {
    fn add(&mut self, other: Self) {
        self.prompt += other.prompt;
        self.looked_up += other.looked_up;
        self.cached += other.cached;
        self.output += other.output;
    }

    /// `None`: no engine told.
    pub(crate) fn hit_rate(&self) -> Option<f64> {
        (self.looked_up > 0).then(|| self.cached as f64 / self.looked_up as f64)
    }

    fn of(answer: &Answer) -> Self {
        let Some(usage) = answer.usage else {
            return Self::default();
        };
        let cached = usage.cached_tokens();
        Self {
            prompt: usage.prompt_tokens,
            looked_up: cached.map_or(0, |_| usage.prompt_tokens),
            cached: cached.unwrap_or(0),
            output: usage.completion_tokens,
        }
    }
}

/// A request that is over.
pub(crate) struct Finished {
    pub(crate) class: usize,
    /// When it should have begun. All times count from here: a client that is held up must not shorten them.
    pub(crate) intended: Instant,
    pub(crate) sent: Instant,
    pub(crate) ended: Instant,
}

/// Longer times count as this.
const LONGEST_US: u64 = 24 * 3600 * 1_000_000;
const DIGITS: u8 = 3;
const NO_POD: &str = "(not told)";

fn times() -> Result<Times> {
    let mut times = Times::new_with_bounds(1, LONGEST_US, DIGITS)?;
    times.auto(false);
    Ok(times)
}

pub(crate) fn note(times: &mut Times, time: Duration) {
    let microseconds = u64::try_from(time.as_micros()).unwrap_or(LONGEST_US);
    times.saturating_record(microseconds.clamp(1, LONGEST_US));
}

impl Record {
    pub(crate) fn new(classes: usize, start: Instant, warm_up: Duration) -> Result<Self> {
        let class = |_| {
            Ok(Class {
                first_token: times()?,
                total: times()?,
                requests: 0,
                tokens: Tokens::default(),
            })
        };
        Ok(Self {
            start,
            measured_from: start + warm_up,
            first_token: times()?,
            between: times()?,
            total: times()?,
            lateness: times()?,
            classes: (0..classes).map(class).collect::<Result<_>>()?,
            pods: BTreeMap::new(),
            failures: BTreeMap::new(),
            requests: 0,
            warm_up_requests: 0,
            tokens: Tokens::default(),
            seconds: Vec::new(),
        })
    }

    pub(crate) fn answered(&mut self, finished: &Finished, answer: &Answer) {
        let tokens = Tokens::of(answer);
        self.second(finished.ended).add(tokens);
        self.load(answer.pod.as_deref(), finished);
        if finished.intended < self.measured_from {
            self.warm_up_requests += 1;
            return;
        }
        self.requests += 1;
        self.tokens.add(tokens);
        if let Some(pod) = self.pods.get_mut(answer.pod.as_deref().unwrap_or(NO_POD)) {
            pod.requests += 1;
            pod.tokens.add(tokens);
        }
        let total = finished.ended.duration_since(finished.intended);
        note(&mut self.total, total);
        note(
            &mut self.lateness,
            finished.sent.duration_since(finished.intended),
        );
        for &gap in &answer.gaps {
            note(&mut self.between, Duration::from_micros(gap.into()));
        }
        let class = &mut self.classes[finished.class];
        class.requests += 1;
        class.tokens.add(tokens);
        note(&mut class.total, total);
        if let Some(first) = answer.first_token {
            let first = first.duration_since(finished.intended);
            note(&mut class.first_token, first);
            note(&mut self.first_token, first);
        }
    }

    pub(crate) fn failed(&mut self, finished: &Finished, failure: Failure) {
        self.load(failure.pod.as_deref(), finished);
        let failed = self.failures.entry(failure.kind).or_default();
        failed.count += 1;
        if failed.example.is_empty() {
            failed.example = failure.detail;
        }
    }

    /// Requests that nobody waits for any more.
    pub(crate) fn unfinished(&mut self, count: u64) {
        if count > 0 {
            let failed = self.failures.entry(Kind::Unfinished).or_default();
            failed.count += count;
        }
    }

    pub(crate) fn errors(&self) -> u64 {
        self.failures.values().map(|failed| failed.count).sum()
    }

    fn load(&mut self, pod: Option<&str>, finished: &Finished) {
        let from = finished.sent.duration_since(self.start);
        let to = finished.ended.duration_since(self.start);
        let name = pod.unwrap_or(NO_POD);
        if let Some(pod) = self.pods.get_mut(name) {
            pod.load.add(from, to);
            return;
        }
        let pod = self.pods.entry(name.to_owned()).or_default();
        pod.load.add(from, to);
    }

    fn second(&mut self, at: Instant) -> &mut Tokens {
        let second = at.duration_since(self.start).as_secs() as usize;
        if self.seconds.len() <= second {
            self.seconds.resize_with(second + 1, Tokens::default);
        }
        &mut self.seconds[second]
    }
}
