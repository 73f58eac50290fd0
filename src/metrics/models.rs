//! What is counted by model.

use std::time::Duration;

use prometheus::{Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Registry};

use super::handles::ByValue;
use super::reference::{ReferenceFamilies, ReferenceMetrics};
use super::{EndedBy, counters, registered};
use crate::usage::Usage;

const FIRST_BYTE_SECONDS: [f64; 16] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0,
];
const REQUEST_SECONDS: [f64; 16] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0,
];

pub(super) struct ModelFamilies {
    requests: IntCounterVec,
    ended: IntCounterVec,
    duration: HistogramVec,
    first_byte: HistogramVec,
    prompt_tokens: IntCounterVec,
    completion_tokens: IntCounterVec,
    cached_tokens: IntCounterVec,
    request_bytes: IntCounterVec,
    response_bytes: IntCounterVec,
    reference: ReferenceFamilies,
}

/// The counters of one model.
pub struct ModelMetrics {
    name: Box<str>,
    requests: IntCounterVec,
    requests_by: ByValue<(&'static str, u16), 16>,
    ended: [IntCounter; 4],
    duration: Histogram,
    first_byte: Histogram,
    prompt_tokens: IntCounter,
    completion_tokens: IntCounter,
    cached_tokens: IntCounter,
    request_bytes: IntCounter,
    response_bytes: IntCounter,
    reference: ReferenceMetrics,
}

/// All that is counted when a request has ended.
#[derive(Clone, Copy, Debug)]
pub struct RequestEnd {
    /// Kind of the path, such as `chat_completions`.
    pub path: &'static str,
    /// 0: there was none.
    pub status: u16,
    pub ended_by: EndedBy,
    pub duration: Duration,
    /// From the request's arrival to the first byte of the answer's body.
    pub first_byte: Option<Duration>,
    pub request_bytes: u64,
    pub response_bytes: u64,
    pub usage: Option<Usage>,
}

/// All that is counted when a pod was chosen for a prompt.
#[derive(Clone, Copy, Debug)]
pub struct Routed {
    /// The reference's `selection` and `match_percent_bucket`; `None`: the strategy looked at no
    /// prefix.
    pub prefix: Option<(&'static str, &'static str)>,
    /// The load-imbalance gate narrowed the candidates.
    pub gate_fired: bool,
    pub took: Duration,
}

impl ModelFamilies {
    pub(super) fn new(registry: &Registry, kv_sync: bool) -> Result<Self, prometheus::Error> {
        let counters = |name: &str, help: &str| counters(registry, name, help, &["model"]);
        let histograms = |name: &str, help: &str, buckets: &[f64]| {
            let opts = HistogramOpts::new(name, help).buckets(buckets.to_vec());
            registered(registry, HistogramVec::new(opts, &["model"])?)
        };
        Ok(Self {
            requests: super::counters(
                registry,
                "warmgate_requests_total",
                "Requests that have ended, by the status of the answer (499: the client left before it began).",
                &["model", "path", "status"],
            )?,
            ended: super::counters(
                registry,
                "warmgate_requests_ended_total",
                "Requests that have ended, by who ended them: ok, client, engine or gateway.",
                &["model", "by"],
            )?,
            duration: histograms(
                "warmgate_request_duration_seconds",
                "Time from a request's arrival to its end.",
                &REQUEST_SECONDS,
            )?,
            first_byte: histograms(
                "warmgate_time_to_first_byte_seconds",
                "Time from a request's arrival to the first byte of the answer's body.",
                &FIRST_BYTE_SECONDS,
            )?,
            prompt_tokens: counters(
                "warmgate_prompt_tokens_total",
                "Prompt tokens, as the engines' answers tell them.",
            )?,
            completion_tokens: counters(
                "warmgate_completion_tokens_total",
                "Generated tokens, as the engines' answers tell them.",
            )?,
            cached_tokens: counters(
                "warmgate_cached_tokens_total",
                "Prompt tokens that came out of an engine's cache, as its answers tell them.",
            )?,
            request_bytes: counters(
                "warmgate_request_body_bytes_total",
                "Bytes of request bodies received.",
            )?,
            response_bytes: counters(
                "warmgate_response_body_bytes_total",
                "Bytes of answers' bodies sent.",
            )?,
            reference: ReferenceFamilies::new(registry, kv_sync)?,
        })
    }

    pub(super) fn model(&self, name: &str) -> ModelMetrics {
        let counter = |family: &IntCounterVec| family.with_label_values(&[name]);
        ModelMetrics {
            name: name.into(),
            requests: self.requests.clone(),
            requests_by: ByValue::new(),
            ended: EndedBy::ALL.map(|by| self.ended.with_label_values(&[name, by.as_str()])),
            duration: self.duration.with_label_values(&[name]),
            first_byte: self.first_byte.with_label_values(&[name]),
            prompt_tokens: counter(&self.prompt_tokens),
            completion_tokens: counter(&self.completion_tokens),
            cached_tokens: counter(&self.cached_tokens),
            request_bytes: counter(&self.request_bytes),
            response_bytes: counter(&self.response_bytes),
            reference: self.reference.model(name),
        }
    }
}

impl ModelMetrics {
    pub fn request_ended(&self, end: &RequestEnd) {
        self.requests_by
            .inc((end.path, end.status), |(path, status)| {
                let status = status.to_string();
                self.requests
                    .with_label_values(&[&*self.name, path, &status])
            });
        self.ended[end.ended_by as usize].inc();
        self.duration.observe(end.duration.as_secs_f64());
        if let Some(first_byte) = end.first_byte {
            self.first_byte.observe(first_byte.as_secs_f64());
        }
        self.request_bytes.inc_by(end.request_bytes);
        self.response_bytes.inc_by(end.response_bytes);
        if let Some(usage) = end.usage {
            self.prompt_tokens.inc_by(usage.prompt);
            self.completion_tokens.inc_by(usage.completion);
            self.cached_tokens.inc_by(usage.cached);
        }
    }

    pub fn routed(&self, routed: &Routed) {
        self.reference.routed(routed);
    }

    /// `reason`: as the reference names it, such as `no_target_pod`.
    pub fn prefix_routing_failed(&self, reason: &'static str, took: Duration) {
        self.reference.failed(reason, took);
    }
}

impl std::fmt::Debug for ModelMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ModelMetrics")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
