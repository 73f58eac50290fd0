//! Settings that a model's profile changes for its requests.

use std::time::Duration;

use super::settings::{Gpu, RoutingSettings};

/// `None`: as the settings have it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Overrides {
    pub standard_deviation_factor: Option<f64>,
    pub load_balance: LoadBalanceOverrides,
    pub auto_blend: AutoBlendOverrides,
    pub preble: PrebleOverrides,
    pub vtc: VtcOverrides,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LoadBalanceOverrides {
    pub imbalance_factor: Option<f64>,
    pub imbalance_min_gap: Option<u32>,
    pub queued_weight: Option<f64>,
    pub kv_pressure_alpha: Option<f64>,
    pub kv_critical_free: Option<f64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AutoBlendOverrides {
    pub load_balance_weight: Option<u32>,
    pub least_request_weight: Option<u32>,
    pub prefix_cache_weight: Option<u32>,
    pub prefix_cache_load_balance_weight: Option<u32>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PrebleOverrides {
    pub target_gpu: Option<Gpu>,
    pub decoding_length: Option<u32>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct VtcOverrides {
    pub max_pod_load: Option<f64>,
    pub fairness_weight: Option<f64>,
    pub utilization_weight: Option<f64>,
    pub input_token_weight: Option<f64>,
    pub output_token_weight: Option<f64>,
    pub window: Option<Duration>,
    pub min_tokens: Option<f64>,
    pub max_tokens: Option<f64>,
}

impl Overrides {
    pub(super) fn applied_to(&self, settings: &RoutingSettings) -> RoutingSettings {
        let mut merged = settings.clone();
        let RoutingSettings {
            auto_blend,
            load_balance,
            prefix_cache,
            preble,
            vtc,
            ..
        } = &mut merged;
        set(
            &mut prefix_cache.standard_deviation_factor,
            self.standard_deviation_factor,
        );

        let given = &self.load_balance;
        set(&mut load_balance.imbalance_factor, given.imbalance_factor);
        set(&mut load_balance.imbalance_min_gap, given.imbalance_min_gap);
        set(&mut load_balance.queued_weight, given.queued_weight);
        set(&mut load_balance.kv_pressure_alpha, given.kv_pressure_alpha);
        set(&mut load_balance.kv_critical_free, given.kv_critical_free);

        let given = &self.auto_blend;
        set(
            &mut auto_blend.load_balance_weight,
            given.load_balance_weight,
        );
        set(
            &mut auto_blend.least_request_weight,
            given.least_request_weight,
        );
        set(
            &mut auto_blend.prefix_cache_weight,
            given.prefix_cache_weight,
        );
        set(
            &mut auto_blend.prefix_cache_load_balance_weight,
            given.prefix_cache_load_balance_weight,
        );

        let given = &self.preble;
        set(&mut preble.target_gpu, given.target_gpu);
        set(&mut preble.decoding_length, given.decoding_length);

        let given = &self.vtc;
        set(&mut vtc.max_pod_load, given.max_pod_load);
        set(&mut vtc.fairness_weight, given.fairness_weight);
        set(&mut vtc.utilization_weight, given.utilization_weight);
        set(&mut vtc.input_token_weight, given.input_token_weight);
        set(&mut vtc.output_token_weight, given.output_token_weight);
        set(&mut vtc.window, given.window);
        set(&mut vtc.min_tokens, given.min_tokens);
        set(&mut vtc.max_tokens, given.max_tokens);
        merged
    }
}

fn set<T>(slot: &mut T, given: Option<T>) {
    if let Some(value) = given {
        *slot = value;
    }
}
