//! Every metric family, and the text that Prometheus reads.
//!
//! Families of a kind are created together in one file; a request counts through a handle
//! ([`ModelMetrics`], [`PodMetrics`]) whose labels were resolved before. Gauges are not kept up to
//! date: [`Metrics::render`] is given the state of the moment and fills them, so they cannot drift.
//!
//! Invariants: label values come from code, from the configuration or from what pods serve, never
//! from a request; a pod that is gone takes its series with it; a model's counters stay, and there
//! are never more than [`MAX_MODELS`] models. The registry is ours: nothing is global.
//!
//! Deliberately not here: who asks, and when. `docs/metrics.md` lists all families; a test holds it
//! to the code.

mod handles;
mod models;
mod pods;
mod reference;
mod state;

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus::{
    Histogram, HistogramOpts, IntCounter, IntCounterVec, Opts, Registry, TextEncoder,
};

pub use self::models::{ModelMetrics, RequestEnd, Routed};
pub use self::pods::PodMetrics;
pub use self::state::{PodState, ScrapeState};

use self::handles::Handles;
use self::models::ModelFamilies;
use self::pods::PodFamilies;
use self::state::StateFamilies;

/// The `model` label of requests for a model that nobody serves.
const UNKNOWN_MODEL: &str = "_unknown_";
/// Further models count as [`UNKNOWN_MODEL`]: adapters come and go, series do not.
const MAX_MODELS: usize = 1000;

pub struct Metrics {
    registry: Registry,
    models: Handles<ModelMetrics>,
    model_families: ModelFamilies,
    unknown_model: Arc<ModelMetrics>,
    pods: Handles<PodMetrics>,
    pod_families: PodFamilies,
    /// Locked while a scrape is answered: its gauges belong to one scrape at a time.
    state: Mutex<StateFamilies>,
    routing_seconds: Histogram,
    reloads: IntCounterVec,
}

/// Who ended a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndedBy {
    /// The answer was sent to its end.
    Ok,
    /// The client went away.
    Client,
    /// The engine refused, failed or broke off.
    Engine,
    /// The gateway answered itself or gave up.
    Gateway,
}

impl EndedBy {
    pub const ALL: [Self; 4] = [Self::Ok, Self::Client, Self::Engine, Self::Gateway];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Client => "client",
            Self::Engine => "engine",
            Self::Gateway => "gateway",
        }
    }
}

impl Metrics {
    /// `kv_sync`: the index is fed by engines' KV events.
    pub fn new(kv_sync: bool) -> Result<Self, prometheus::Error> {
        let registry = Registry::new();
        let model_families = ModelFamilies::new(&registry, kv_sync)?;
        let unknown_model = Arc::new(model_families.model(UNKNOWN_MODEL));
        reference::set_indexer_status(&registry, kv_sync)?;

        let version = Opts::new(
            "warmgate_build_info",
            "Always 1; the version of the gateway.",
        );
        let version = version.const_label("version", env!("CARGO_PKG_VERSION"));
        let version = registered(&registry, prometheus::IntGauge::with_opts(version)?)?;
        version.set(1);

        Ok(Self {
            models: Handles::new(),
            unknown_model,
            pods: Handles::new(),
            pod_families: PodFamilies::new(&registry)?,
            state: Mutex::new(StateFamilies::new(&registry)?),
            routing_seconds: registered(
                &registry,
                Histogram::with_opts(
                    HistogramOpts::new(
                        "warmgate_routing_duration_seconds",
                        "Time to choose a pod, by any strategy.",
                    )
                    .buckets(prometheus::exponential_buckets(1e-6, 2.0, 18)?),
                )?,
            )?,
            reloads: counters(
                &registry,
                "warmgate_config_reloads_total",
                "Times the configuration was read again; result is ok or error.",
                &["result"],
            )?,
            model_families,
            registry,
        })
    }

    /// `name`: a model that some pod serves; `None`: the request named another or none.
    pub fn model(&self, name: Option<&str>) -> Arc<ModelMetrics> {
        let known = name.and_then(|name| {
            self.models
                .get(name, MAX_MODELS, || self.model_families.model(name))
        });
        known.unwrap_or_else(|| Arc::clone(&self.unknown_model))
    }

    /// `name`: a pod of the fleet. Not to be kept for longer than a request.
    pub fn pod(&self, name: &str) -> Arc<PodMetrics> {
        let pod = self
            .pods
            .get(name, usize::MAX, || self.pod_families.pod(name));
        pod.unwrap_or_else(|| Arc::new(self.pod_families.pod(name)))
    }

    /// A pod was chosen, or could not be; strategies that look at no prefix included.
    pub fn routing_took(&self, took: Duration) {
        self.routing_seconds.observe(took.as_secs_f64());
    }

    pub fn config_reloaded(&self, ok: bool) {
        let result = if ok { "ok" } else { "error" };
        self.reloads.with_label_values(&[result]).inc();
    }

    /// The text format, with `state` as the gauges. Pods that are not in `state` are forgotten.
    pub fn render(&self, state: &ScrapeState<'_>) -> Result<String, prometheus::Error> {
        let families = {
            let gauges = self.state.lock();
            gauges.fill(state);
            let there: HashSet<&str> = state.pods.iter().map(|pod| pod.name).collect();
            self.pods.retain(
                |name| there.contains(name),
                |name, pod| self.pod_families.forget(name, pod),
            );
            self.registry.gather()
        };
        TextEncoder::new().encode_to_string(&families)
    }
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

fn registered<T: prometheus::core::Collector + Clone + 'static>(
    registry: &Registry,
    family: T,
) -> Result<T, prometheus::Error> {
    registry.register(Box::new(family.clone()))?;
    Ok(family)
}

fn counters(
    registry: &Registry,
    name: &str,
    help: &str,
    labels: &[&str],
) -> Result<IntCounterVec, prometheus::Error> {
    registered(registry, IntCounterVec::new(Opts::new(name, help), labels)?)
}

fn counter(registry: &Registry, name: &str, help: &str) -> Result<IntCounter, prometheus::Error> {
    registered(registry, IntCounter::new(name, help)?)
}
