//! Reads the profiles of a model. They keep the reference's JSON names, so that its annotations can be pasted; what
//! belongs to strategies that this version does not have is refused by name.

use std::time::Duration;

use super::problem::Wrong;
use super::reader::Map;
use super::routing::{DECODING_LENGTH, GPUS, MAIN_WEIGHT, MIN_GAP, WEIGHT};
use super::rule;
use super::{Bounds, Fits, Profile, StrategyCheck};
use crate::routing::{
    AutoBlendOverrides, LoadBalanceOverrides, Overrides, PrebleOverrides, VtcOverrides,
};

/// Keys of `routingConfig` for prefill and decode pods.
const LATER: &[&str] = &[
    "pd",
    "promptLengthBucketing",
    "promptLenBucketMinLength",
    "promptLenBucketMaxLength",
    "bucketServe",
    "bucketServeMode",
    "combined",
    "prefillScorePolicy",
    "decodeScorePolicy",
];
const BUILT: &str = "prefixCache, loadBalance, autoBlend, preble, vtc, promptTokensGte, \
                     promptTokensLt, maxTokensGte, maxTokensLt";

/// The reference's units of a token window, and how many of them it takes where a profile gives only one of the two.
pub(super) const WINDOW_UNITS: &[(&str, Duration)] = &[
    ("minutes", Duration::from_secs(60)),
    ("seconds", Duration::from_secs(1)),
    ("milliseconds", Duration::from_millis(1)),
];
pub(super) const WINDOW_SIZE: u32 = 5;
pub(super) const WINDOW_UNIT: Duration = Duration::from_secs(60);
pub(super) const WINDOW_SIZES: std::ops::RangeInclusive<u32> = 1..=100_000;

pub(super) fn profile(map: &mut Map<'_, '_>, check: StrategyCheck<'_>) -> Profile {
    let mut profile = Profile::default();
    map.set(&mut profile.routing_strategy, "routingStrategy", |node| {
        super::models::strategy(node, check).map(Some)
    });
    map.scalar(
        &mut profile.requests_per_second,
        "requestsPerSecond",
        |text| {
            let limit = rule::whole(0..=1_000_000_000_u32)(text)?;
            Ok((limit > 0).then_some(f64::from(limit)))
        },
    );
    map.scalar(
        &mut profile.requests_per_second_per_replica,
        "requestsPerSecondPerReplica",
        |text| {
            let limit = rule::at_least(0.0)(text)?;
            Ok((limit > 0.0).then_some(limit))
        },
    );
    map.scalar(&mut profile.requests_inflight, "requestsInflight", |text| {
        let limit = rule::whole(0..=u32::MAX)(text)?;
        Ok((limit > 0).then_some(limit))
    });
    fits(map, &mut profile.fits);
    if let Some(node) = map.take("routingConfig") {
        node.map(|map| {
            fits(map, &mut profile.fits);
            routing_config(map, &mut profile.overrides);
            map.refuse(LATER, BUILT);
        });
    }
    for (name, bounds) in [
        ("promptTokens", profile.fits.prompt_tokens),
        ("maxTokens", profile.fits.max_tokens),
    ] {
        if let (Some(least), Some(below)) = (bounds.least, bounds.below)
            && least >= below
        {
            map.node().add(
                format!("{name}Gte {least} and {name}Lt {below} leave no number between them"),
                format!("{name}Gte smaller than {name}Lt"),
            );
        }
    }
    profile
}

/// The reference has these in `routingConfig`; beside it they are easier to find.
fn fits(map: &mut Map<'_, '_>, fits: &mut Fits) {
    bound(map, "promptTokensGte", &mut fits.prompt_tokens.least);
    bound(map, "promptTokensLt", &mut fits.prompt_tokens.below);
    bound(map, "maxTokensGte", &mut fits.max_tokens.least);
    bound(map, "maxTokensLt", &mut fits.max_tokens.below);
}

fn bound(map: &mut Map<'_, '_>, key: &'static str, slot: &mut Option<u64>) {
    map.with(key, |node| {
        if slot.is_some() {
            node.add(
                "is given in the profile already",
                "once, in the profile or in its routingConfig",
            );
        }
        *slot = node.scalar(rule::whole(0..=u64::MAX)).or(*slot);
    });
}

fn routing_config(map: &mut Map<'_, '_>, given: &mut Overrides) {
    map.with("prefixCache", |node| {
        node.map(|map| {
            map.scalar(
                &mut given.standard_deviation_factor,
                "standardDeviationFactor",
                some(rule::above(0.0)),
            );
        });
    });
    map.with("loadBalance", |node| {
        node.map(|map| load_balance(map, &mut given.load_balance));
    });
    map.with("autoBlend", |node| {
        node.map(|map| auto_blend(map, &mut given.auto_blend));
    });
    map.with("preble", |node| {
        node.map(|map| preble(map, &mut given.preble));
    });
    map.with("vtc", |node| {
        node.map(|map| vtc(map, &mut given.vtc));
    });
}

fn load_balance(map: &mut Map<'_, '_>, given: &mut LoadBalanceOverrides) {
    map.scalar(
        &mut given.imbalance_factor,
        "imbalanceFactor",
        some(rule::above(0.0)),
    );
    map.scalar(
        &mut given.imbalance_min_gap,
        "imbalanceMinGap",
        some(rule::whole(MIN_GAP)),
    );
    map.scalar(
        &mut given.queued_weight,
        "queuedWeight",
        some(rule::at_least(0.0)),
    );
    map.scalar(
        &mut given.kv_pressure_alpha,
        "kvPressureAlpha",
        some(rule::at_least(0.0)),
    );
    map.scalar(
        &mut given.kv_critical_free,
        "kvCriticalFree",
        some(rule::ratio),
    );
}

fn auto_blend(map: &mut Map<'_, '_>, given: &mut AutoBlendOverrides) {
    map.scalar(
        &mut given.load_balance_weight,
        "loadBalanceWeight",
        some(rule::whole(WEIGHT)),
    );
    map.scalar(
        &mut given.least_request_weight,
        "leastRequestWeight",
        some(rule::whole(WEIGHT)),
    );
    map.scalar(
        &mut given.prefix_cache_weight,
        "prefixCacheWeight",
        some(rule::whole(MAIN_WEIGHT)),
    );
    map.scalar(
        &mut given.prefix_cache_load_balance_weight,
        "prefixCacheLoadBalanceWeight",
        some(rule::whole(WEIGHT)),
    );
}

fn preble(map: &mut Map<'_, '_>, given: &mut PrebleOverrides) {
    map.scalar(&mut given.target_gpu, "targetGPU", some(rule::one_of(GPUS)));
    map.scalar(
        &mut given.decoding_length,
        "decodingLength",
        some(rule::whole(DECODING_LENGTH)),
    );
}

fn vtc(map: &mut Map<'_, '_>, given: &mut VtcOverrides) {
    map.scalar(
        &mut given.max_pod_load,
        "maxPodLoad",
        some(rule::above(0.0)),
    );
    map.scalar(
        &mut given.fairness_weight,
        "fairnessWeight",
        some(rule::at_least(0.0)),
    );
    map.scalar(
        &mut given.utilization_weight,
        "utilizationWeight",
        some(rule::at_least(0.0)),
    );
    map.scalar(
        &mut given.input_token_weight,
        "inputTokenWeight",
        some(rule::above(0.0)),
    );
    map.scalar(
        &mut given.output_token_weight,
        "outputTokenWeight",
        some(rule::above(0.0)),
    );
    let (mut size, mut unit) = (None, None);
    map.scalar(
        &mut size,
        "tokenTrackerWindowSize",
        some(rule::whole(WINDOW_SIZES)),
    );
    map.scalar(
        &mut unit,
        "tokenTrackerTimeUnit",
        some(rule::one_of(WINDOW_UNITS)),
    );
    if size.is_some() || unit.is_some() {
        given.window = Some(unit.unwrap_or(WINDOW_UNIT) * size.unwrap_or(WINDOW_SIZE));
    }
    map.scalar(
        &mut given.min_tokens,
        "tokenTrackerMinTokens",
        some(rule::above(0.0)),
    );
    map.scalar(
        &mut given.max_tokens,
        "tokenTrackerMaxTokens",
        some(rule::above(0.0)),
    );
}

fn some<T>(rule: impl Fn(&str) -> Result<T, Wrong>) -> impl Fn(&str) -> Result<Option<T>, Wrong> {
    move |text| rule(text).map(Some)
}

impl Profile {
    /// Whether it names a limit for each pod, which only an even spread can make use of.
    pub fn has_limit_per_pod(&self) -> bool {
        self.requests_per_second_per_replica.is_some() || self.requests_inflight.is_some()
    }
}

impl Fits {
    /// Whether `config-profile: auto` may choose the profile for a request of this size. A size that is not known fits
    /// no bound, and a profile without bounds is never chosen so.
    pub fn takes(&self, prompt_tokens: Option<u64>, max_tokens: Option<u64>) -> bool {
        self.bounds_given() > 0
            && self.prompt_tokens.holds(prompt_tokens)
            && self.max_tokens.holds(max_tokens)
    }

    /// Larger is more specific: more bounds, then narrower ones, of the prompt first.
    pub fn rank(&self) -> impl Ord + use<> {
        let narrow = |bounds: &Bounds| {
            let below = bounds.below.unwrap_or(u64::MAX);
            (bounds.least.unwrap_or(0), std::cmp::Reverse(below))
        };
        (
            self.bounds_given(),
            narrow(&self.prompt_tokens),
            narrow(&self.max_tokens),
        )
    }

    fn bounds_given(&self) -> usize {
        let bounds = [self.prompt_tokens, self.max_tokens];
        bounds
            .iter()
            .flat_map(|bounds| [bounds.least, bounds.below])
            .flatten()
            .count()
    }
}

impl Bounds {
    fn holds(&self, size: Option<u64>) -> bool {
        let least = self
            .least
            .is_none_or(|least| size.is_some_and(|size| size >= least));
        least
            && self
                .below
                .is_none_or(|below| size.is_some_and(|size| size < below))
    }
}
