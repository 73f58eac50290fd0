//! A simulated engine and what the gateway knows of it: its own counts at once, the engine's
//! figures as of the last poll.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use warmgate::fleet::output_rate::OutputRate;
use warmgate::fleet::prefill::Prefill;
use warmgate::fleet::running_time::RunningTime;
use warmgate::routing::{Load, PodDetail, PodSlot, PodView};
use warmgate::sim::EngineModel;
use warmgate::sim::engine::{Engine, Event, Job, JobId, Totals};

pub(super) struct Pod {
    slot: PodSlot,
    engine: Engine,
    /// Requests that have not ended, by the engine's names.
    jobs: HashMap<JobId, Sent>,
    load: Load,
    detail: Arc<PodDetail>,
    prefill: Prefill,
    running_time: RunningTime,
    output_tokens: u64,
    output_rate: OutputRate,
    requests: u64,
    busy: Integral,
    events: Vec<Event>,
}

/// A request at the engine, as the gateway keeps account of it.
struct Sent {
    request: usize,
    at: u64,
    /// Uncached prompt tokens, and those that waited before.
    tokens: u64,
    ahead: u64,
    answered: bool,
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
            detail: Arc::new(PodDetail {
                address: format!("10.0.{}.{}:8000", slot.0 / 256, slot.0 % 256),
                ..PodDetail::default()
            }),
            prefill: Prefill::default(),
            running_time: RunningTime::default(),
            output_tokens: 0,
            output_rate: OutputRate::default(),
            requests: 0,
            busy: Integral::default(),
            events: Vec::new(),
        }
    }

    pub(super) fn view(&self, now: u64) -> PodView {
        PodView {
            slot: self.slot,
            load: Load {
                running_seconds: self.running_time.seconds(Duration::from_micros(now)),
                prefilling: self.prefill.requests(),
                pending_prefill: self.prefill.tokens(),
                prefill_rate: self.prefill.rate(),
                ..self.load
            },
            detail: Some(Arc::clone(&self.detail)),
        }
    }

    /// Sends it a request; `pick` numbers the gateway's choices, `tokens` are those the gateway takes for uncached.
    pub(super) fn send(&mut self, now: u64, request: usize, job: Job, pick: u64, tokens: u64) {
        self.busy.advance(now, self.load.in_flight);
        self.load.in_flight += 1;
        self.running_time.begin(Duration::from_micros(now));
        self.load.last_pick = pick;
        self.requests += 1;
        let sent = Sent {
            request,
            at: now,
            tokens,
            ahead: self.prefill.begin(tokens),
            answered: false,
        };
        self.jobs.insert(self.engine.submit(now, job), sent);
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
                    let Some(sent) = self.jobs.get_mut(&job) else {
                        continue;
                    };
                    // A preempted request begins again; its answer has begun once.
                    if !std::mem::replace(&mut sent.answered, true) {
                        self.prefill.end(sent.tokens);
                        let took = Duration::from_micros(now - sent.at);
                        self.prefill.learn(sent.tokens + sent.ahead, took);
                    }
                    progress.push(Progress::FirstToken(sent.request));
                }
                Event::Token { .. } => {}
                Event::Finished { job } => {
                    let Some(Sent {
                        request,
                        at,
                        answered,
                        tokens,
                        ..
                    }) = self.jobs.remove(&job)
                    else {
                        continue;
                    };
                    if !answered {
                        self.prefill.end(tokens);
                    }
                    self.busy.advance(now, self.load.in_flight);
                    self.load.in_flight -= 1;
                    self.running_time.end(Duration::from_micros(at));
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
