//! What other parts know, shown as it is at the moment of a scrape.

use prometheus::{Gauge, GaugeVec, IntCounter, Opts, Registry};

use super::{counter, registered};

/// The state of the moment, as the owners of it say.
#[derive(Clone, Debug, Default)]
pub struct ScrapeState<'a> {
    /// All pods there are.
    pub pods: Vec<PodState<'a>>,
    pub index_blocks: usize,
    pub index_bytes: usize,
    pub index_evictions: u64,
    pub log_lines_dropped: u64,
    pub capture_lines_dropped: u64,
}

#[derive(Clone, Copy, Debug)]
pub struct PodState<'a> {
    pub name: &'a str,
    pub in_flight: u32,
    pub healthy: bool,
    /// `None`: the engine does not say.
    pub kv_usage: Option<f64>,
    pub queued: Option<f64>,
}

pub(super) struct StateFamilies {
    in_flight: GaugeVec,
    healthy: GaugeVec,
    kv_usage: GaugeVec,
    queued: GaugeVec,
    index_blocks: Gauge,
    index_bytes: Gauge,
    index_evictions: IntCounter,
    log_lines_dropped: IntCounter,
    capture_lines_dropped: IntCounter,
}

impl StateFamilies {
    pub(super) fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let of_pod = |name: &str, help: &str| {
            registered(registry, GaugeVec::new(Opts::new(name, help), &["pod"])?)
        };
        let gauge = |name: &str, help: &str| registered(registry, Gauge::new(name, help)?);
        Ok(Self {
            in_flight: of_pod(
                "warmgate_pod_in_flight_requests",
                "Requests sent to a pod that have not ended.",
            )?,
            healthy: of_pod(
                "warmgate_pod_healthy",
                "1 if the pod's health checks say that it is well, else 0.",
            )?,
            kv_usage: of_pod(
                "warmgate_pod_kv_usage_ratio",
                "Share of the pod's KV cache in use, as its engine says.",
            )?,
            queued: of_pod(
                "warmgate_pod_queued_requests",
                "Requests that wait inside the pod, as its engine says.",
            )?,
            index_blocks: gauge("warmgate_index_blocks", "Blocks in the prefix index.")?,
            index_bytes: gauge(
                "warmgate_index_bytes",
                "Memory of the prefix index in bytes.",
            )?,
            index_evictions: counter(
                registry,
                "warmgate_index_evictions_total",
                "Blocks that left the prefix index because it was full or they were old.",
            )?,
            log_lines_dropped: counter(
                registry,
                "warmgate_log_lines_dropped_total",
                "Access-log lines that nobody took in time, or that could not be written.",
            )?,
            capture_lines_dropped: counter(
                registry,
                "warmgate_capture_lines_dropped_total",
                "Lines of the capture that the disk did not take in time, or that could not be written.",
            )?,
        })
    }

    pub(super) fn fill(&self, state: &ScrapeState<'_>) {
        for family in [&self.in_flight, &self.healthy, &self.kv_usage, &self.queued] {
            family.reset();
        }
        for pod in &state.pods {
            let set = |family: &GaugeVec, value: f64| {
                family.with_label_values(&[pod.name]).set(value);
            };
            set(&self.in_flight, f64::from(pod.in_flight));
            set(&self.healthy, f64::from(u8::from(pod.healthy)));
            if let Some(kv_usage) = pod.kv_usage {
                set(&self.kv_usage, kv_usage);
            }
            if let Some(queued) = pod.queued {
                set(&self.queued, queued);
            }
        }
        self.index_blocks.set(state.index_blocks as f64);
        self.index_bytes.set(state.index_bytes as f64);
        let mirror = |counter: &IntCounter, value: u64| {
            counter.reset();
            counter.inc_by(value);
        };
        mirror(&self.index_evictions, state.index_evictions);
        mirror(&self.log_lines_dropped, state.log_lines_dropped);
        mirror(&self.capture_lines_dropped, state.capture_lines_dropped);
    }
}
