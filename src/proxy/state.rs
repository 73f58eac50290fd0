//! What all requests share, and the part of it that a reload replaces.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, ArcSwapOption};
use http::HeaderValue;
use pingora_http::header_value_from_slice;

use super::queue::Queue;
use super::rules::ModelRules;
use super::shelf::Shelf;
use crate::capture::Capture;
use crate::config::{Auth, Config, Limits, Model, Profile, Retry, Timeouts};
use crate::fleet::Fleet;
use crate::metrics::{Metrics, PodState, ScrapeState};
use crate::routing::{Overrides, Plan, Router, StrategyError};
use crate::telemetry::AccessLog;

pub struct State {
    pub fleet: Arc<Fleet>,
    pub metrics: Arc<Metrics>,
    pub access: Option<AccessLog>,
    pub capture: Option<Capture>,
    live: ArcSwap<Live>,
    header_timeout: Arc<ArcSwapOption<Duration>>,
    open: AtomicUsize,
    draining: Arc<AtomicBool>,
    /// The next request's seed.
    requests: AtomicU64,
    epoch: Instant,
    pub(super) queue: Arc<Queue>,
    /// Memory of request bodies.
    pub(super) bodies: Arc<Shelf>,
}

/// The settings that requests use: one immutable piece, swapped whole.
pub struct Live {
    pub limits: Limits,
    pub timeouts: Timeouts,
    pub retry: Retry,
    pub auth: Auth,
    pub router: Arc<Router>,
    default_strategy: String,
    /// Of the default strategy: most requests ask for no other.
    default_plan: Option<Strategy>,
    /// By each name that requests may use.
    models: BTreeMap<String, Arc<ModelRules>>,
}

/// A plan, and its name for a header.
#[derive(Clone)]
pub(super) struct Strategy {
    pub(super) plan: Arc<Plan>,
    pub(super) name: HeaderValue,
}

impl From<Arc<Plan>> for Strategy {
    fn from(plan: Arc<Plan>) -> Self {
        Self {
            name: header_value_from_slice(plan.requested().as_bytes()),
            plan,
        }
    }
}

impl State {
    /// `seed`: gateways that start together must not choose alike.
    pub fn new(
        live: Live,
        fleet: Arc<Fleet>,
        metrics: Arc<Metrics>,
        access: Option<AccessLog>,
        capture: Option<Capture>,
        seed: u64,
    ) -> Self {
        let header_timeout = Arc::new(ArcSwapOption::from_pointee(live.limits.header_timeout));
        Self {
            fleet,
            metrics,
            access,
            capture,
            live: ArcSwap::from_pointee(live),
            header_timeout,
            open: AtomicUsize::new(0),
            draining: Arc::default(),
            requests: AtomicU64::new(seed),
            epoch: Instant::now(),
            queue: Arc::default(),
            bodies: Arc::default(),
        }
    }

    /// The metrics page.
    pub fn render_metrics(&self) -> Result<String, prometheus::Error> {
        let snapshot = self.fleet.snapshot();
        let live = self.live();
        let index = live.router.index();
        let pods = snapshot.pods().iter().map(|pod| PodState {
            name: pod.name(),
            in_flight: pod.in_flight(),
            healthy: pod.is_well(),
            kv_usage: pod.load().kv_usage,
            queued: pod.load().queued,
        });
        self.metrics.render(&ScrapeState {
            pods: pods.collect(),
            index_blocks: index.len(),
            index_bytes: index.bytes(),
            index_evictions: index.evictions(),
            log_lines_dropped: self.access.as_ref().map_or(0, AccessLog::dropped),
            capture_lines_dropped: self.capture.as_ref().map_or(0, Capture::dropped),
        })
    }

    /// Waits a moment for the last lines of access log and capture to be written.
    pub fn flush_logs(&self) {
        if self.access.as_ref().is_some_and(|access| !access.flush()) {
            log::warn!("the access log's reader is too slow: its last lines are lost");
        }
        if self
            .capture
            .as_ref()
            .is_some_and(|capture| !capture.flush())
        {
            log::warn!("the capture's disk is too slow: its last lines are lost");
        }
    }

    /// Gives memory back that large bodies needed; to be called every second or so.
    pub fn tidy(&self) {
        self.bodies.clear_old();
    }

    pub fn live(&self) -> Arc<Live> {
        self.live.load_full()
    }

    /// New requests use `live` from now on; those under way keep what they began with.
    pub fn replace(&self, live: Live) {
        self.header_timeout
            .store(live.limits.header_timeout.map(Arc::new));
        self.live.store(Arc::new(live));
    }

    /// For the connections, which are older than any one request.
    pub fn header_timeout(&self) -> Arc<ArcSwapOption<Duration>> {
        Arc::clone(&self.header_timeout)
    }

    /// Requests whose answer has not ended.
    pub fn open_requests(&self) -> usize {
        self.open.load(Ordering::Acquire)
    }

    /// From now on clients are told to close their connections.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Release);
    }

    /// For the connections, see [`Self::drain`].
    pub(super) fn draining(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.draining)
    }

    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// The clock of the prefix index: milliseconds since the start.
    pub fn now_ms(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Differs with each request: seeds the choice between equals.
    pub(super) fn next_seed(&self) -> u64 {
        self.requests.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn open_request(self: &Arc<Self>) -> OpenRequest {
        self.open.fetch_add(1, Ordering::AcqRel);
        OpenRequest {
            state: Arc::clone(self),
        }
    }
}

/// Counts a request as open until it is dropped.
pub(super) struct OpenRequest {
    state: Arc<State>,
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.state.open.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Live {
    pub fn new(config: &Config, router: Arc<Router>) -> Self {
        let strategy = &config.routing.strategy;
        Self {
            // A strategy that does not hold is refused with its own words when it is asked for.
            default_plan: router
                .plan(strategy, &Overrides::default())
                .ok()
                .map(Strategy::from),
            limits: config.limits.clone(),
            timeouts: config.timeouts.clone(),
            retry: config.retry.clone(),
            auth: config.auth.clone(),
            router,
            default_strategy: strategy.clone(),
            models: by_name(&config.models),
        }
    }

    pub(super) fn rules(&self, model: Option<&str>) -> Option<&Arc<ModelRules>> {
        self.models.get(model?)
    }

    /// How a request is routed, by what it asks for and what the configuration says of its model.
    pub(super) fn strategy(
        &self,
        rules: Option<&ModelRules>,
        requested: Option<&str>,
        profile: Option<&Profile>,
    ) -> Result<Strategy, StrategyError> {
        if let (None, None, Some(plan)) = (rules, requested, &self.default_plan) {
            return Ok(plan.clone());
        }
        let strategy = match rules {
            Some(rules) => rules.strategy(requested, profile),
            None => requested,
        };
        let none = Overrides::default();
        let overrides = profile.map_or(&none, |profile| &profile.overrides);
        self.router
            .plan(strategy.unwrap_or(&self.default_strategy), overrides)
            .map(Strategy::from)
    }
}

/// An alias is routed as its model is, and counted with it, though what is learned under it stays its own.
fn by_name(models: &BTreeMap<String, Model>) -> BTreeMap<String, Arc<ModelRules>> {
    let now = Instant::now();
    let mut named = BTreeMap::new();
    for (name, model) in models {
        let rules = Arc::new(ModelRules::new(model.clone(), now));
        for name in model.aliases.iter().chain([name]) {
            named.insert(name.clone(), Arc::clone(&rules));
        }
    }
    named
}
