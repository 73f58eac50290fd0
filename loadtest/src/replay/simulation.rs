//! A fleet on virtual time: arrivals, engine steps and polls in the order of their moments.
//!
//! Nothing here reads a clock or draws at random: equal input gives equal output. What happens at
//! one moment happens in the order of [`Kind`], then of pods or requests.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use anyhow::Context as _;
use rand::{RngCore as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use tokio::time::Instant;
use warmgate::routing::settings::RoutingSettings;
use warmgate::routing::{
    Choice, Overrides, PodSlot, PodView, PrefixBlocks, Request, Router, Scratch, Session,
};
use warmgate::sim::EngineModel;
use warmgate::sim::engine::{Job, Totals};

use super::arrivals::Arrivals;
use super::pod::{Pod, Progress};
use crate::trace::Trace;

/// Everything but the strategy.
pub(super) struct Setting<'a> {
    pub(super) trace: &'a Trace,
    pub(super) arrivals: &'a Arrivals,
    pub(super) routing: RoutingSettings,
    pub(super) engine: EngineModel,
    pub(super) pods: u16,
    /// Between two readings of an engine's figures.
    pub(super) poll: Duration,
    pub(super) seed: u64,
}

/// What was seen of one strategy.
#[derive(Debug, PartialEq)]
pub(super) struct Seen {
    /// The strategy with what the auto-blend added.
    pub(super) run: String,
    /// By request.
    pub(super) requests: Vec<SeenRequest>,
    pub(super) pods: Vec<SeenPod>,
}

/// Moments in microseconds of virtual time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SeenRequest {
    pub(super) arrived: u64,
    pub(super) first_token: u64,
    pub(super) ended: u64,
    pub(super) slot: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SeenPod {
    pub(super) requests: u64,
    pub(super) totals: Totals,
    /// Requests on it, added up over microseconds.
    pub(super) busy: u128,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Step(usize),
    Poll(usize),
    Arrival(usize),
}

struct Simulation<'a> {
    setting: &'a Setting<'a>,
    pods: Vec<Pod>,
    agenda: BinaryHeap<Reverse<(u64, Kind)>>,
    requests: Vec<SeenRequest>,
    /// Requests without an end.
    left: usize,
}

pub(super) fn simulate(setting: &Setting<'_>, strategy: &str) -> anyhow::Result<Seen> {
    let router = Router::new(
        setting.routing.clone(),
        usize::from(setting.pods),
        setting.seed,
    );
    let plan = router.plan(strategy, &Overrides::default())?;
    // By request, so that a request's luck is the same under every strategy.
    let mut random = ChaCha8Rng::seed_from_u64(setting.seed);
    let turns = &setting.trace.turns;
    let seeds: Vec<u64> = turns.iter().map(|_| random.next_u64()).collect();

    let mut simulation = Simulation::new(setting);
    let (mut views, mut scratch) = (Vec::<PodView>::new(), Scratch::default());
    let (mut picks, mut progress) = (0, Vec::new());
    // Only differences count: the gateway's rates want moments of a clock.
    let origin = Instant::now();
    while let Some((now, kind)) = simulation.next() {
        match kind {
            Kind::Step(pod) => simulation.step(now, pod, &mut progress),
            Kind::Poll(pod) => simulation.poll(now, pod, origin),
            Kind::Arrival(request) => {
                views.clear();
                views.extend(simulation.pods.iter().map(|pod| pod.view(now)));
                let turn = &turns[request];
                let blocks = PrefixBlocks::from(turn.blocks.clone());
                let now_ms = now / 1000;
                let session = turn.session.map(|session| session.to_string());
                let asked = Request {
                    blocks: &blocks,
                    seed: seeds[request],
                    now_ms,
                    prompt_tokens: turn.prompt_tokens as u64,
                    session: Session {
                        key: session.as_deref(),
                        ..Session::default()
                    },
                    ..Request::default()
                };
                let choice = router.route(&plan, &asked, &views, &mut scratch)?;
                if plan.needs_prefix() {
                    router.record(choice.slot, &blocks, now_ms);
                }
                router.sent(&plan, &asked, &choice);
                picks += 1;
                simulation.send(now, request, &choice, picks)?;
            }
        }
    }
    Ok(Seen {
        run: plan.run().to_owned(),
        pods: simulation.pods.iter().map(SeenPod::new).collect(),
        requests: simulation.requests,
    })
}

impl<'a> Simulation<'a> {
    fn new(setting: &'a Setting<'a>) -> Self {
        let pod = |slot| Pod::new(PodSlot(slot), setting.engine.clone());
        let requests = setting.trace.turns.len();
        let mut simulation = Self {
            setting,
            pods: (0..setting.pods).map(pod).collect(),
            agenda: BinaryHeap::new(),
            requests: vec![SeenRequest::default(); requests],
            left: requests,
        };
        for &(at, request) in &setting.arrivals.fixed {
            simulation.plan(at, Kind::Arrival(request));
        }
        // As in a gateway, the pods are not polled all at one moment.
        let interval = simulation.poll_us();
        for pod in 0..simulation.pods.len() {
            let at = interval * pod as u64 / simulation.pods.len() as u64;
            simulation.plan(at, Kind::Poll(pod));
        }
        simulation
    }

    fn poll_us(&self) -> u64 {
        u64::try_from(self.setting.poll.as_micros())
            .unwrap_or(u64::MAX)
            .max(1)
    }

    fn plan(&mut self, at: u64, kind: Kind) {
        self.agenda.push(Reverse((at, kind)));
    }

    /// `None` once every request has ended.
    fn next(&mut self) -> Option<(u64, Kind)> {
        if self.left == 0 {
            return None;
        }
        self.agenda.pop().map(|Reverse(next)| next)
    }

    fn send(&mut self, now: u64, request: usize, choice: &Choice, pick: u64) -> anyhow::Result<()> {
        let slot = choice.slot;
        let turn = &self.setting.trace.turns[request];
        let at = usize::from(slot.0);
        let pod = self.pods.get_mut(at).context("a pod that is not there")?;
        let job = Job {
            blocks: turn.blocks.iter().map(|block| block.0).collect(),
            prompt_tokens: turn.prompt_tokens,
            output_tokens: turn.output_tokens,
        };
        self.requests[request].arrived = now;
        self.requests[request].slot = slot.0;
        let idle = pod.next_at().is_none();
        pod.send(now, request, job, pick, choice.uncached_tokens);
        if idle {
            self.plan(now, Kind::Step(at));
        }
        Ok(())
    }

    fn step(&mut self, now: u64, at: usize, progress: &mut Vec<Progress>) {
        let turns = &self.setting.trace.turns;
        let pod = &mut self.pods[at];
        pod.step(now, |request| turns[request].output_tokens, progress);
        if let Some(next) = pod.next_at() {
            self.plan(next, Kind::Step(at));
        }
        for news in progress.drain(..) {
            match news {
                Progress::FirstToken(request) => self.requests[request].first_token = now,
                Progress::Finished(request) => {
                    self.requests[request].ended = now;
                    self.left -= 1;
                    if let Some((next, pause)) = self.setting.arrivals.next[request] {
                        self.plan(now + pause, Kind::Arrival(next));
                    }
                }
            }
        }
    }

    fn poll(&mut self, now: u64, pod: usize, origin: Instant) {
        self.pods[pod].poll(now, origin);
        self.plan(now.saturating_add(self.poll_us()), Kind::Poll(pod));
    }
}

impl SeenPod {
    fn new(pod: &Pod) -> Self {
        Self {
            requests: pod.requests(),
            totals: pod.totals(),
            busy: pod.busy(),
        }
    }
}

#[cfg(test)]
mod tests;
