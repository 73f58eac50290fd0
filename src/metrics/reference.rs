//! The reference gateway's series, names and labels unchanged, so that its dashboards stay usable.
//!
//! The reference moves them only while `prefix-cache` makes its own selection; here every strategy
//! that looks at prefixes moves them, the weighted blend included.

use std::time::Duration;

use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGaugeVec, Opts, Registry,
};

use super::handles::ByValue;
use super::models::Routed;
use super::{counters, registered};

pub(super) struct ReferenceFamilies {
    kv_sync: &'static str,
    decisions: IntCounterVec,
    selections: IntCounterVec,
    latency: HistogramVec,
    errors: IntCounterVec,
    imbalance: IntCounterVec,
}

/// The reference's series of one model.
pub(super) struct ReferenceMetrics {
    model: Box<str>,
    kv_sync: &'static str,
    decisions: IntCounterVec,
    decisions_by: ByValue<&'static str, 5>,
    selections: IntCounterVec,
    selections_by: ByValue<&'static str, 3>,
    latency: Histogram,
    errors: IntCounterVec,
    imbalance: IntCounter,
}

impl ReferenceFamilies {
    pub(super) fn new(registry: &Registry, kv_sync: bool) -> Result<Self, prometheus::Error> {
        let latency = HistogramOpts::new(
            "aibrix_prefix_cache_routing_latency_seconds",
            "Time of routing decisions that looked at prefixes.",
        );
        let latency = latency.buckets(prometheus::exponential_buckets(1e-5, 2.0, 15)?);
        Ok(Self {
            kv_sync: if kv_sync { "true" } else { "false" },
            decisions: counters(
                registry,
                "aibrix_prefix_cache_routing_decisions_total",
                "Routing decisions that looked at prefixes, by the share of the prompt that the chosen pod holds.",
                &["model", "match_percent_bucket", "using_kv_sync"],
            )?,
            selections: counters(
                registry,
                "aibrix_prefix_cache_routing_selection_total",
                "Routing decisions that looked at prefixes, by what came of the match.",
                &["model", "selection", "using_kv_sync"],
            )?,
            latency: registered(
                registry,
                HistogramVec::new(latency, &["model", "using_kv_sync"])?,
            )?,
            errors: counters(
                registry,
                "aibrix_prefix_cache_routing_errors_total",
                "Routing that looked at prefixes and found no pod, by reason.",
                &["model", "reason", "using_kv_sync"],
            )?,
            imbalance: counters(
                registry,
                "aibrix_load_imbalance_total",
                "Times the load-imbalance gate narrowed the candidates.",
                &["model", "using_kv_sync"],
            )?,
        })
    }

    pub(super) fn model(&self, model: &str) -> ReferenceMetrics {
        let labels = [model, self.kv_sync];
        ReferenceMetrics {
            model: model.into(),
            kv_sync: self.kv_sync,
            decisions: self.decisions.clone(),
            decisions_by: ByValue::new(),
            selections: self.selections.clone(),
            selections_by: ByValue::new(),
            latency: self.latency.with_label_values(&labels),
            errors: self.errors.clone(),
            imbalance: self.imbalance.with_label_values(&labels),
        }
    }
}

impl ReferenceMetrics {
    pub(super) fn routed(&self, routed: &Routed) {
        if routed.gate_fired {
            self.imbalance.inc();
        }
        let Some((selection, bucket)) = routed.prefix else {
            return;
        };
        let resolve = |family: &IntCounterVec, value: &str| {
            family.with_label_values(&[&*self.model, value, self.kv_sync])
        };
        self.selections_by
            .inc(selection, |value| resolve(&self.selections, value));
        self.decisions_by
            .inc(bucket, |value| resolve(&self.decisions, value));
        self.latency.observe(routed.took.as_secs_f64());
    }

    pub(super) fn failed(&self, reason: &'static str, took: Duration) {
        let labels = [&*self.model, reason, self.kv_sync];
        self.errors.with_label_values(&labels).inc();
        self.latency.observe(took.as_secs_f64());
    }
}

/// Which index answers; decided once, at start.
pub(super) fn set_indexer_status(
    registry: &Registry,
    kv_sync: bool,
) -> Result<(), prometheus::Error> {
    let status = IntGaugeVec::new(
        Opts::new(
            "aibrix_prefix_cache_indexer_status",
            "1 for the index that is in use: local (our decisions) or sync (the engines' events).",
        ),
        &["model", "indexer_type"],
    )?;
    let status = registered(registry, status)?;
    for (indexer, in_use) in [("local", !kv_sync), ("sync", kv_sync)] {
        status
            .with_label_values(&["_init_", indexer])
            .set(i64::from(in_use));
    }
    Ok(())
}
