//! The fleet as the operator's pages show it.

use serde::Serialize;

use super::snapshot::Snapshot;
use super::{ModelPods, Pod};

#[derive(Serialize)]
pub struct PodView {
    name: String,
    url: String,
    address: String,
    models: Vec<String>,
    labels: std::collections::BTreeMap<String, String>,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    in_flight: u32,
    engine: EngineView,
}

#[derive(Serialize)]
struct EngineView {
    kind: Option<String>,
    running: Option<f64>,
    waiting: Option<f64>,
    kv_usage: Option<f64>,
    block_size: Option<u64>,
    blocks: Option<u64>,
    output_tokens_per_second: Option<f64>,
    prompt_tokens_per_second: Option<f64>,
}

#[derive(Serialize)]
pub struct ModelView {
    name: String,
    pods: Vec<String>,
    ready: usize,
}

impl Snapshot {
    pub fn pods_view(&self) -> Vec<PodView> {
        self.pods().iter().map(|pod| pod.shown()).collect()
    }

    pub fn models_view(&self) -> Vec<ModelView> {
        let mut models: Vec<_> = self.served().map(ModelPods::shown).collect();
        models.sort_by(|a, b| a.name.cmp(&b.name));
        models
    }
}

impl ModelPods {
    fn shown(&self) -> ModelView {
        ModelView {
            name: self.name().to_owned(),
            pods: self
                .served_by()
                .iter()
                .map(|pod| pod.name().to_owned())
                .collect(),
            ready: self.served_by().iter().filter(|pod| pod.is_well()).count(),
        }
    }
}

impl Pod {
    fn shown(&self) -> PodView {
        let spec = self.spec();
        let stats = self.stats.load().as_deref().cloned().unwrap_or_default();
        let health = self.health.lock();
        PodView {
            name: self.name().to_owned(),
            url: spec.url.to_string(),
            address: self.address(),
            models: self.models(),
            labels: spec.labels.clone(),
            state: if self.is_well() { "ready" } else { "out" },
            reason: health.last_failure().map(|failure| failure.reason.clone()),
            in_flight: self.in_flight(),
            engine: EngineView {
                kind: spec
                    .engine
                    .or(stats.engine)
                    .map(|kind| format!("{kind:?}").to_lowercase()),
                running: stats.running,
                waiting: stats.waiting,
                kv_usage: stats.kv_usage,
                block_size: stats.block_size,
                blocks: stats.blocks,
                output_tokens_per_second: stats.output_rate,
                prompt_tokens_per_second: self.load().prefill_rate,
            },
        }
    }
}
