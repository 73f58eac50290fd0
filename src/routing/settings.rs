//! Settings of the routing core, with their defaults.

use std::time::Duration;

#[derive(Clone, Debug, PartialEq)]
pub struct RoutingSettings {
    /// Any name or weighted list that the `routing-strategy` header takes.
    pub strategy: String,
    pub auto_blend: AutoBlend,
    pub load_balance: LoadBalance,
    pub prefix_cache: PrefixCache,
    pub preble: Preble,
    pub vtc: Vtc,
    pub session_affinity: SessionAffinity,
    pub slo: Slo,
}

/// Weights with which load strategies are blended into a requested strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AutoBlend {
    /// 0 switches the blend off.
    pub load_balance_weight: u32,
    pub least_request_weight: u32,
    pub prefix_cache_weight: u32,
    pub prefix_cache_load_balance_weight: u32,
}

/// The load-imbalance gate and the `load-balance` score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadBalance {
    pub imbalance_factor: f64,
    pub imbalance_min_gap: u32,
    pub queued_weight: f64,
    pub kv_pressure_alpha: f64,
    pub kv_critical_free: f64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct PrefixCache {
    pub tokenizer: TokenizerKind,
    /// Bytes of the tokenized prompt in a block.
    pub block_size: usize,
    pub max_blocks: usize,
    pub ttl: Duration,
    pub standard_deviation_factor: f64,
    pub include_tools: bool,
    /// Answers are noted as part of what their pod holds.
    pub answers: bool,
    /// `None`: random at each start.
    pub hash_seed: Option<u64>,
}

/// The cost model of `prefix-cache-preble`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preble {
    pub target_gpu: Gpu,
    /// Output tokens that a request is taken to have.
    pub decoding_length: u32,
    /// How long a request counts.
    pub window: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gpu {
    A6000,
    V100,
}

/// Fairness between users, by `vtc-basic`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Vtc {
    /// Running requests that count as a full pod.
    pub max_pod_load: f64,
    pub fairness_weight: f64,
    pub utilization_weight: f64,
    pub input_token_weight: f64,
    pub output_token_weight: f64,
    /// How long a user's tokens count.
    pub window: Duration,
    /// Tokens of the lightest and of the heaviest user while none is known; the former is also the least step from pod
    /// to pod.
    pub min_tokens: f64,
    pub max_tokens: f64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionAffinity {
    /// Headers that may hold the key of a client's session, in lower case; the first that does counts.
    pub key_headers: Vec<String>,
}

/// Latency goals, for the strategies `slo*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slo {
    /// Requests that a pod can run at once and keep its goal. `None`: there is no goal.
    pub pod_requests: Option<u32>,
    /// How long a request waits for a pod at most.
    pub max_wait: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenizerKind {
    Character,
    Tiktoken,
}

impl Default for RoutingSettings {
    fn default() -> Self {
        Self {
            strategy: "prefix-cache".to_owned(),
            auto_blend: AutoBlend::default(),
            load_balance: LoadBalance::default(),
            prefix_cache: PrefixCache::default(),
            preble: Preble::default(),
            vtc: Vtc::default(),
            session_affinity: SessionAffinity::default(),
            slo: Slo::default(),
        }
    }
}

impl Default for AutoBlend {
    fn default() -> Self {
        Self {
            load_balance_weight: 1,
            least_request_weight: 1,
            prefix_cache_weight: 5,
            prefix_cache_load_balance_weight: 4,
        }
    }
}

impl Default for LoadBalance {
    fn default() -> Self {
        Self {
            imbalance_factor: 2.0,
            imbalance_min_gap: 8,
            queued_weight: 0.0,
            kv_pressure_alpha: 2.0,
            kv_critical_free: 0.10,
        }
    }
}

impl Default for Preble {
    fn default() -> Self {
        Self {
            target_gpu: Gpu::V100,
            decoding_length: 45,
            window: Duration::from_secs(3 * 60),
        }
    }
}

impl Default for Vtc {
    fn default() -> Self {
        Self {
            max_pod_load: 100.0,
            fairness_weight: 1.0,
            utilization_weight: 1.0,
            input_token_weight: 1.0,
            output_token_weight: 2.0,
            window: Duration::from_secs(5 * 60),
            min_tokens: 1000.0,
            max_tokens: 8000.0,
        }
    }
}

impl Default for SessionAffinity {
    fn default() -> Self {
        Self {
            key_headers: vec!["x-aibrix-session-key".to_owned()],
        }
    }
}

impl Default for Slo {
    fn default() -> Self {
        Self {
            pod_requests: None,
            max_wait: Duration::from_secs(30),
        }
    }
}

impl Default for PrefixCache {
    fn default() -> Self {
        Self {
            tokenizer: TokenizerKind::Character,
            block_size: 128,
            max_blocks: 200_000,
            ttl: Duration::from_secs(20 * 60),
            standard_deviation_factor: 2.0,
            include_tools: true,
            answers: false,
            hash_seed: None,
        }
    }
}
