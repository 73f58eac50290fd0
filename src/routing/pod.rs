//! What the core may know of a pod: plain data, no address, no lock.

/// Dense number of a pod: its bit in the prefix index. Given out again only after
/// the index has forgotten everything about the pod that had it before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodSlot(pub u16);

/// What a pod is doing now. `None` means that the engine does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Requests that this gateway has sent to the pod and that have not ended.
    pub in_flight: u32,
    /// When the pod was chosen last, in choices of this gateway; 0: never.
    pub last_pick: u64,
    /// Requests waiting inside the engine.
    pub queued: Option<f64>,
    /// Share of the engine's KV cache in use, 0 to 1.
    pub kv_usage: Option<f64>,
    /// Smoothed output tokens per second of the pod.
    pub output_rate: Option<f64>,
}

/// One routable pod as the router is given it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PodView {
    pub slot: PodSlot,
    pub load: Load,
}
