//! Settings of the routing core, with their defaults.

use std::time::Duration;

#[derive(Clone, Debug, PartialEq)]
pub struct RoutingSettings {
    /// Any name or weighted list that the `routing-strategy` header takes.
    pub strategy: String,
    pub auto_blend: AutoBlend,
    pub load_balance: LoadBalance,
    pub prefix_cache: PrefixCache,
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
    /// `None`: random at each start.
    pub hash_seed: Option<u64>,
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

impl Default for PrefixCache {
    fn default() -> Self {
        Self {
            tokenizer: TokenizerKind::Character,
            block_size: 128,
            max_blocks: 200_000,
            ttl: Duration::from_secs(20 * 60),
            standard_deviation_factor: 2.0,
            include_tools: true,
            hash_seed: None,
        }
    }
}
