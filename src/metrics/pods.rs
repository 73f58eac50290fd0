//! What is counted by pod.

use prometheus::{IntCounter, IntCounterVec, Registry};

use super::counters;
use super::handles::ByValue;

pub(super) struct PodFamilies {
    picks: IntCounterVec,
    connect_failures: IntCounterVec,
    retries: IntCounterVec,
}

/// The counters of one pod.
pub struct PodMetrics {
    name: Box<str>,
    picks: IntCounterVec,
    picks_by: ByValue<&'static str, 16>,
    connect_failures: IntCounter,
    retries: IntCounter,
}

impl PodFamilies {
    pub(super) fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        Ok(Self {
            picks: counters(
                registry,
                "warmgate_pod_picks_total",
                "Times a pod was chosen, by the strategy's reason.",
                &["pod", "reason"],
            )?,
            connect_failures: counters(
                registry,
                "warmgate_pod_connect_failures_total",
                "Connections to a pod that could not be made.",
                &["pod"],
            )?,
            retries: counters(
                registry,
                "warmgate_pod_retries_total",
                "Requests sent to a pod after another one had failed.",
                &["pod"],
            )?,
        })
    }

    pub(super) fn pod(&self, name: &str) -> PodMetrics {
        PodMetrics {
            name: name.into(),
            picks: self.picks.clone(),
            picks_by: ByValue::new(),
            connect_failures: self.connect_failures.with_label_values(&[name]),
            retries: self.retries.with_label_values(&[name]),
        }
    }

    pub(super) fn forget(&self, name: &str, pod: &PodMetrics) {
        // A series that is not there any more is what is wanted.
        for reason in pod.picks_by.values() {
            drop(self.picks.remove_label_values(&[name, reason]));
        }
        for family in [&self.connect_failures, &self.retries] {
            drop(family.remove_label_values(&[name]));
        }
    }
}

impl PodMetrics {
    pub fn picked(&self, reason: &'static str) {
        self.picks_by.inc(reason, |reason| {
            self.picks.with_label_values(&[&*self.name, reason])
        });
    }

    pub fn connect_failed(&self) {
        self.connect_failures.inc();
    }

    pub fn retried(&self) {
        self.retries.inc();
    }
}

impl std::fmt::Debug for PodMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PodMetrics")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
