//! A simulated engine and what the gateway knows of it: its own counts at once, the engine's
//! figures as of the last poll.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;
use warmgate::fleet::output_rate::OutputRate;
use warmgate::routing::{Load, PodSlot, PodView};
use warmgate::sim::EngineModel;
use warmgate::sim::engine::{Engine, Event, Job, JobId, Totals};

pub(super) struct Pod {
    slot: PodSlot,
    engine: Engine,
    /// Requests that have not ended, by the engine's names.
    jobs: HashMap<JobId, usize>,
    load: Load,
    output_tokens: u64,
    output_rate: OutputRate,
    requests: u64,
    busy: Integral,
    events: Vec<Event>,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    FirstToken(usize),
    Finished(usize),
}

/// A count added up over time.
#[derive(Debug, Default)]
struct Integral {
    since: u64,
    sum: u128,
}

impl Integral {
    fn advance(&mut self, now: u64, count: u32) {
        self.sum += u128::from(now - self.since) * u128::from(count);
        self.since = now;
    }
}

impl Pod {
    pub(super) fn new(slot: PodSlot, model: EngineModel) -> Self {
        Self {
            slot,
            engine: Engine::new(model),
            jobs: HashMap::new(),
            load: Load::default(),
            output_tokens: 0,
            output_rate: OutputRate::default(),
            requests: 0,
            busy: Integral::default(),
            events: Vec::new(),
        }
    }

    pub(super) fn view(&self) -> PodView {
        PodView {
            slot: self.slot,
            load: self.load,
        }
    }

    /// Sends it a request; `pick` numbers the gateway's choices.
    pub(super) fn send(&mut self, now: u64, request: usize, job: Job, pick: u64) {
        self.busy.advance(now, self.load.in_flight);
        self.load.in_flight += 1;
        self.load.last_pick = pick;
        self.requests += 1;
        self.jobs.insert(self.engine.submit(now, job), request);
    }

    /// When the engine's current step ends.
    pub(super) fn next_at(&self) -> Option<u64> {
        self.engine.next_at()
    }

    pub(super) fn step(
        &mut self,
        now: u64,
        output_tokens: impl Fn(usize) -> usize,
        progress: &mut Vec<Progress>,
    ) {
        self.engine.step(now, &mut self.events);
        for event in self.events.drain(..) {
            match event {
                Event::FirstToken { job, .. } => {
                    progress.extend(self.jobs.get(&job).copied().map(Progress::FirstToken));
                }
                Event::Token { .. } => {}
                Event::Finished { job } => {
                    let Some(request) = self.jobs.remove(&job) else {
                        continue;
                    };
                    self.busy.advance(now, self.load.in_flight);
                    self.load.in_flight -= 1;
                    // The gateway reads the count at an answer's end.
                    self.output_tokens += output_tokens(request) as u64;
                    progress.push(Progress::Finished(request));
                }
            }
        }
    }

    /// Reads the engine's figures, as the gateway does now and then.
    pub(super) fn poll(&mut self, now: u64, origin: Instant) {
        let now = origin + Duration::from_micros(now);
        self.load.queued = Some(self.engine.waiting() as f64);
        self.load.kv_usage = Some(self.engine.kv_usage());
        self.load.output_rate = self.output_rate.tick(self.output_tokens, now);
    }

    pub(super) fn requests(&self) -> u64 {
        self.requests
    }

    pub(super) fn totals(&self) -> Totals {
        self.engine.totals()
    }

    /// Running and waiting requests, added up over microseconds.
    pub(super) fn busy(&self) -> u128 {
        self.busy.sum
    }
}
