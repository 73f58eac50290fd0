//! What the core may know of a pod: plain data, no lock.

use std::sync::Arc;

/// Dense number of a pod: its bit in the prefix index. Given out again only after
/// the index has forgotten everything about the pod that had it before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodSlot(pub u16);

/// What a pod is doing now. `None` means that the engine does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Requests that this gateway has sent to the pod and that have not ended.
    pub in_flight: u32,
    /// Since each of them was sent, added up.
    pub running_seconds: f64,
    /// Those of them whose answer has not begun.
    pub prefilling: u32,
    /// Prompt tokens of those that the pod had not in its cache, as far as the gateway can tell.
    pub pending_prefill: u64,
    /// Prompt tokens a second, learned from the times to first bytes.
    pub prefill_rate: Option<f64>,
    /// When the pod was chosen last, in choices of this gateway; 0: never.
    pub last_pick: u64,
    /// Requests waiting inside the engine.
    pub queued: Option<f64>,
    /// Share of the engine's KV cache in use, 0 to 1.
    pub kv_usage: Option<f64>,
    /// Smoothed output tokens per second of the pod.
    pub output_rate: Option<f64>,
}

/// What only some strategies ask for. Made when it changes and shared: requests whose plan does not look at it do
/// not pay for it. `None` means that nobody says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodDetail {
    /// `IP:PORT`: the same on every gateway and after a restart, which slots are not.
    pub address: String,
    /// Share of the engine's cache in the host's memory in use, 0 to 1.
    pub cpu_cache_usage: Option<f64>,
    /// Of the engine as a whole, by its own word.
    pub utilization: Option<f64>,
    /// Share of the last seconds in which it had work.
    pub busy: Option<f64>,
    /// Mean seconds that a request waits inside the engine.
    pub queue_seconds: Option<f64>,
    pub prefill_seconds_per_token: Option<f64>,
    pub decode_seconds_per_token: Option<f64>,
    /// Mean output tokens of a request.
    pub output_tokens: Option<f64>,
    /// Tokens a second over the last minute, each prompt token counted twice.
    pub weighted_token_rate: Option<f64>,
}

/// One routable pod as the router is given it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodView {
    pub slot: PodSlot,
    pub load: Load,
    /// Needed for plans that say so.
    pub detail: Option<Arc<PodDetail>>,
}
