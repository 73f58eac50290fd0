//! Every variable of the reference gateway: which setting it overrides here, or why it has no effect.
//!
//! `docs/environment.md` holds this table as text, kept equal by a test.

use std::time::Duration;

use super::{Given, Outcome};
use crate::config::problem::Wrong;
use crate::config::rule::{above, at_least, duration, not_empty, one_of, ratio, whole};
use crate::config::sections::BODY;
use crate::config::{Config, profiles, routing};

pub(super) struct Variable {
    pub(super) name: &'static str,
    /// The reference's default: the built-in one, and its shipped manifest's where that differs.
    #[cfg_attr(
        not(test),
        expect(
            dead_code,
            reason = "shown in the documentation, which a test compares"
        )
    )]
    pub(super) theirs: &'static str,
    pub(super) effect: Effect,
}

pub(super) enum Effect {
    /// Wins over a key of the file.
    Overrides {
        key: &'static str,
        /// The default here, written as this variable would say it.
        #[cfg_attr(
            not(test),
            expect(
                dead_code,
                reason = "shown in the documentation, which a test compares"
            )
        )]
        ours: &'static str,
        apply: fn(&mut Config, &str, &Given<'_>) -> Outcome,
    },
    /// Switches on what this version does not have: true is an error.
    SwitchesOn(&'static str),
    /// Has no effect, and why.
    Nothing(&'static str),
}

use Effect::{Nothing, Overrides, SwitchesOn};

const PD: &str = "belongs to separate prefill and decode pods, which this version does not have";
const EVENTS: &str = "belongs to the index fed by KV events, which this version does not have";
const REMOTE: &str = "belongs to the remote tokenizer, which this version does not have";
const PROFILES_KEPT: &str =
    "turns off limits per user, which this version does not have; those of profiles stay";
const REDIS: &str = "nothing here uses Redis";
const PROMETHEUS: &str = "no strategy here asks a Prometheus server";
const SCRAPES: &str = "each pod's metrics are read at a pace of its own, without workers or a queue; see metrics_poll";

const fn nothing(name: &'static str, theirs: &'static str, why: &'static str) -> Variable {
    Variable {
        name,
        theirs,
        effect: Nothing(why),
    }
}

const fn switch(name: &'static str, what: &'static str) -> Variable {
    Variable {
        name,
        theirs: "false",
        effect: SwitchesOn(what),
    }
}

const fn overrides(
    name: &'static str,
    key: &'static str,
    ours: &'static str,
    theirs: &'static str,
    apply: fn(&mut Config, &str, &Given<'_>) -> Outcome,
) -> Variable {
    Variable {
        name,
        theirs,
        effect: Overrides { key, ours, apply },
    }
}

fn set<T>(slot: &mut T, value: Result<T, Wrong>) -> Outcome {
    *slot = value?;
    Ok(())
}

/// The reference says in two variables how long a user's tokens count; either may be missing.
fn vtc_window(config: &mut Config, size: Option<&str>, unit: Option<&str>) -> Outcome {
    let size = match size {
        Some(text) => whole(profiles::WINDOW_SIZES)(text)?,
        None => profiles::WINDOW_SIZE,
    };
    let unit = match unit {
        Some(text) => one_of(profiles::WINDOW_UNITS)(text)?,
        None => profiles::WINDOW_UNIT,
    };
    config.routing.vtc.window = unit * size;
    Ok(())
}

#[rustfmt::skip]
pub(super) static VARIABLES: &[Variable] = &[
    overrides("ROUTING_ALGORITHM", "routing.strategy", "prefix-cache", "none",
        |c, text, given| {
            not_empty(text)?;
            (given.strategy)(text).map_err(|why| Wrong::new(format!("is not a strategy: {why}"), ""))?;
            text.clone_into(&mut c.routing.strategy);
            c.models.values_mut().for_each(|model| model.strategy = None);
            Ok(())
        }),
    overrides("AIBRIX_ROUTING_AUTO_BLEND_LOAD_BALANCE_WEIGHT", "routing.auto_blend.load_balance_weight", "1", "1",
        |c, text, _| set(&mut c.routing.auto_blend.load_balance_weight, whole(routing::WEIGHT)(text))),
    overrides("AIBRIX_ROUTING_AUTO_BLEND_LEAST_REQUEST_WEIGHT", "routing.auto_blend.least_request_weight", "1", "1",
        |c, text, _| set(&mut c.routing.auto_blend.least_request_weight, whole(routing::WEIGHT)(text))),
    overrides("AIBRIX_ROUTING_AUTO_BLEND_PREFIX_CACHE_WEIGHT", "routing.auto_blend.prefix_cache_weight", "5", "5",
        |c, text, _| set(&mut c.routing.auto_blend.prefix_cache_weight, whole(routing::MAIN_WEIGHT)(text))),
    overrides("AIBRIX_ROUTING_AUTO_BLEND_PREFIX_CACHE_LOAD_BALANCE_WEIGHT", "routing.auto_blend.prefix_cache_load_balance_weight", "4", "4",
        |c, text, _| set(&mut c.routing.auto_blend.prefix_cache_load_balance_weight, whole(routing::WEIGHT)(text))),
    overrides("AIBRIX_LOAD_BALANCE_IMBALANCE_FACTOR", "routing.load_balance.imbalance_factor", "2.0", "2.0",
        |c, text, _| set(&mut c.routing.load_balance.imbalance_factor, above(0.0)(text))),
    overrides("AIBRIX_LOAD_BALANCE_IMBALANCE_MIN_GAP", "routing.load_balance.imbalance_min_gap", "8", "8",
        |c, text, _| set(&mut c.routing.load_balance.imbalance_min_gap, whole(routing::MIN_GAP)(text))),
    overrides("AIBRIX_LOAD_BALANCE_QUEUED_WEIGHT", "routing.load_balance.queued_weight", "0", "0",
        |c, text, _| set(&mut c.routing.load_balance.queued_weight, at_least(0.0)(text))),
    overrides("AIBRIX_LOAD_BALANCE_KV_PRESSURE_ALPHA", "routing.load_balance.kv_pressure_alpha", "2.0", "2.0",
        |c, text, _| set(&mut c.routing.load_balance.kv_pressure_alpha, at_least(0.0)(text))),
    overrides("AIBRIX_LOAD_BALANCE_KV_CRITICAL_FREE", "routing.load_balance.kv_critical_free", "0.10", "0.10",
        |c, text, _| set(&mut c.routing.load_balance.kv_critical_free, ratio(text))),
    overrides("AIBRIX_PREFIX_CACHE_TOKENIZER_TYPE", "routing.prefix_cache.tokenizer", "character", "character",
        |c, text, _| set(&mut c.routing.prefix_cache.tokenizer, routing::tokenizer(text))),
    overrides("AIBRIX_PREFIX_CACHE_BLOCK_SIZE", "routing.prefix_cache.block_size", "128", "4 (manifest 128)",
        |c, text, _| set(&mut c.routing.prefix_cache.block_size, whole(routing::BLOCK_SIZE)(text))),
    overrides("AIBRIX_PREFIX_CACHE_BLOCK_NUMBER", "routing.prefix_cache.max_blocks", "200000", "200000",
        |c, text, _| set(&mut c.routing.prefix_cache.max_blocks, whole(routing::MAX_BLOCKS)(text))),
    overrides("AIBRIX_PREFIX_CACHE_EVICTION_DURATION_MINS", "routing.prefix_cache.ttl", "20", "20",
        |c, text, _| {
            let minutes = whole(1..=365 * 24 * 60_u64)(text)?;
            c.routing.prefix_cache.ttl = Duration::from_secs(minutes * 60);
            Ok(())
        }),
    overrides("AIBRIX_PREFIX_CACHE_STANDARD_DEVIATION_FACTOR", "routing.prefix_cache.standard_deviation_factor", "2", "1 (manifest 2)",
        |c, text, _| set(&mut c.routing.prefix_cache.standard_deviation_factor, above(0.0)(text))),
    overrides("AIBRIX_PREFIX_CACHE_INCLUDE_TOOLS", "routing.prefix_cache.include_tools", "true", "true",
        |c, text, _| set(&mut c.routing.prefix_cache.include_tools, super::flag(text))),
    overrides("AIBRIX_PREFIX_CACHE_HASH_SEED", "routing.prefix_cache.hash_seed", "none", "none",
        // The reference takes an empty seed for none; its manifests set it so.
        |c, text, _| set(&mut c.routing.prefix_cache.hash_seed, routing::hash_seed(if text.is_empty() { "none" } else { text }))),
    overrides("AIBRIX_ROUTER_PREBLE_TARGET_GPU", "routing.preble.target_gpu", "V100", "V100",
        |c, text, _| set(&mut c.routing.preble.target_gpu, one_of(routing::GPUS)(text))),
    overrides("AIBRIX_ROUTER_PREBLE_DECODING_LENGTH", "routing.preble.decoding_length", "45", "45",
        |c, text, _| set(&mut c.routing.preble.decoding_length, whole(routing::DECODING_LENGTH)(text))),
    overrides("AIBRIX_ROUTER_PREBLE_SLIDING_WINDOW_PERIOD", "routing.preble.window", "3", "3",
        |c, text, _| {
            let minutes = whole(1..=365 * 24 * 60_u64)(text)?;
            c.routing.preble.window = Duration::from_secs(minutes * 60);
            Ok(())
        }),
    overrides("AIBRIX_ROUTER_VTC_TOKEN_TRACKER_WINDOW_SIZE", "routing.vtc.window", "5", "5",
        |c, text, given| vtc_window(c, Some(text), given.variable("AIBRIX_ROUTER_VTC_TOKEN_TRACKER_TIME_UNIT"))),
    overrides("AIBRIX_ROUTER_VTC_TOKEN_TRACKER_TIME_UNIT", "routing.vtc.window", "minutes", "minutes",
        |c, text, given| vtc_window(c, given.variable("AIBRIX_ROUTER_VTC_TOKEN_TRACKER_WINDOW_SIZE"), Some(text))),
    overrides("AIBRIX_ROUTER_VTC_TOKEN_TRACKER_MIN_TOKENS", "routing.vtc.min_tokens", "1000", "1000",
        |c, text, _| set(&mut c.routing.vtc.min_tokens, above(0.0)(text))),
    overrides("AIBRIX_ROUTER_VTC_TOKEN_TRACKER_MAX_TOKENS", "routing.vtc.max_tokens", "8000", "8000",
        |c, text, _| set(&mut c.routing.vtc.max_tokens, above(0.0)(text))),
    overrides("AIBRIX_ROUTER_VTC_BASIC_MAX_POD_LOAD", "routing.vtc.max_pod_load", "100", "100",
        |c, text, _| set(&mut c.routing.vtc.max_pod_load, above(0.0)(text))),
    overrides("AIBRIX_ROUTER_VTC_BASIC_INPUT_TOKEN_WEIGHT", "routing.vtc.input_token_weight", "1", "1",
        |c, text, _| set(&mut c.routing.vtc.input_token_weight, above(0.0)(text))),
    overrides("AIBRIX_ROUTER_VTC_BASIC_OUTPUT_TOKEN_WEIGHT", "routing.vtc.output_token_weight", "2", "2",
        |c, text, _| set(&mut c.routing.vtc.output_token_weight, above(0.0)(text))),
    overrides("AIBRIX_ROUTER_VTC_BASIC_FAIRNESS_WEIGHT", "routing.vtc.fairness_weight", "1", "1",
        |c, text, _| set(&mut c.routing.vtc.fairness_weight, at_least(0.0)(text))),
    overrides("AIBRIX_ROUTER_VTC_BASIC_UTILIZATION_WEIGHT", "routing.vtc.utilization_weight", "1", "1",
        |c, text, _| set(&mut c.routing.vtc.utilization_weight, at_least(0.0)(text))),
    overrides("AIBRIX_POD_METRIC_REFRESH_INTERVAL_MS", "metrics_poll", "1000", "1000 (manifest 50)",
        |c, text, _| {
            let milliseconds = whole(1..=86_400_000_u64)(text)?;
            c.metrics_poll = Duration::from_millis(milliseconds);
            Ok(())
        }),
    overrides("AIBRIX_TOKENIZER_REQUEST_TIMEOUT", "tokenizer.timeout", "5s", "5s",
        |c, text, _| set(&mut c.tokenizer.timeout, duration(text))),
    overrides("AIBRIX_TOKENIZER_TTL", "tokenizer.ttl", "300s", "300s",
        |c, text, _| set(&mut c.tokenizer.ttl, duration(text))),
    overrides("AIBRIX_GRPC_MAX_MESSAGE_SIZE_BYTES", "limits.body", "67108864", "4194304",
        |c, text, _| set(&mut c.limits.body, whole(BODY)(text))),

    switch("AIBRIX_PREFIX_CACHE_USE_REMOTE_TOKENIZER", "the remote tokenizer"),
    switch("AIBRIX_PREFIX_CACHE_KV_EVENT_SYNC_ENABLED", "the index fed by KV events"),
    switch("AIBRIX_STATESYNC_ENABLED", "state sync between gateways"),
    switch("AIBRIX_PROMPT_LENGTH_BUCKETING", "prompt-length buckets of separate prefill and decode pods"),

    nothing("AIBRIX_PREFIX_CACHE_EVICTION_INTERVAL_SECONDS", "1", "blocks past their ttl never match, whenever they are removed"),
    nothing("AIBRIX_PREFIX_CACHE_POD_RUNNING_REQUEST_IMBALANCE_ABS_COUNT", "8 (manifest 16)", "replaced in the reference too, by AIBRIX_LOAD_BALANCE_IMBALANCE_MIN_GAP"),
    nothing("AIBRIX_PREFIX_CACHE_LOAD_IMBALANCE_FACTOR", "2.0", "renamed in the reference, to AIBRIX_LOAD_BALANCE_IMBALANCE_FACTOR"),
    nothing("AIBRIX_PREFIX_CACHE_LOAD_IMBALANCE_MIN_GAP", "8", "renamed in the reference, to AIBRIX_LOAD_BALANCE_IMBALANCE_MIN_GAP"),
    nothing("AIBRIX_PREFIX_CACHE_REMOTE_TOKENIZER_ENDPOINT", "empty", "the reference does not use it either"),
    nothing("AIBRIX_PREFIX_CACHE_KV_EVENT_PUBLISH_ADDR", "empty", "the reference does not use it either"),
    nothing("AIBRIX_PREFIX_CACHE_KV_EVENT_SUBSCRIBE_ADDRS", "empty", "the reference does not use it either"),
    nothing("AIBRIX_VLLM_TOKENIZER_ENDPOINT_TEMPLATE", "http://%s:8000", REMOTE),
    nothing("AIBRIX_TOKENIZER_HEALTH_CHECK_PERIOD", "30s", REMOTE),
    nothing("AIBRIX_MAX_TOKENIZERS_PER_POOL", "100", REMOTE),
    nothing("AIBRIX_SYNC_MAX_CONTEXTS", "1000", EVENTS),
    nothing("AIBRIX_SYNC_MAX_PREFIXES_PER_CONTEXT", "10000", EVENTS),
    nothing("AIBRIX_SYNC_EVICTION_INTERVAL_SECONDS", "60", EVENTS),
    nothing("AIBRIX_SYNC_EVICTION_DURATION_MINUTES", "20", EVENTS),
    nothing("AIBRIX_STATESYNC_SYNC_PERIOD", "10s", "belongs to state sync between gateways, which this version does not have"),
    nothing("AIBRIX_ROUTER_MAX_CACHED_ALGORITHM_STRINGS", "4096", "as many are kept, and no string longer than 256 bytes"),
    nothing("AIBRIX_SESSION_AFFINITY_MAX_LOCAL_KEYS", "100000", "keys are hashed to pods and not remembered, so there is nothing to bound"),
    nothing("AIBRIX_ROUTER_PREBLE_EVICTION_LOOP_INTERVAL", "1000", "what is older than the window never counts, whenever it is removed"),
    nothing("AIBRIX_PREFILL_SCORE_POLICY", "prefix_cache", PD),
    nothing("AIBRIX_DECODE_SCORE_POLICY", "load_balancing", PD),
    nothing("AIBRIX_PREFILL_LOAD_IMBALANCE_MIN_SPREAD", "16", PD),
    nothing("AIBRIX_DECODE_LOAD_IMBALANCE_MIN_SPREAD", "16", PD),
    nothing("AIBRIX_DECODE_THROUGHPUT_IMBALANCE_MIN_SPREAD", "2048", PD),
    nothing("AIBRIX_DECODE_SCORE_RATIO_THRESHOLD", "1.5", PD),
    nothing("AIBRIX_DECODE_LB_WEIGHT_RUNNING", "1", PD),
    nothing("AIBRIX_DECODE_LB_WEIGHT_THROUGHPUT", "1", PD),
    nothing("AIBRIX_PREFILL_REQUEST_TIMEOUT", "30 (manifest 60)", PD),
    nothing("AIBRIX_DECODE_ABORT_TIMEOUT", "not documented", PD),
    nothing("AIBRIX_DECODE_ABORT_RETRY_DELAY", "not documented", PD),
    nothing("AIBRIX_HYBRID_CACHE_LOAD_FACTOR", "0.5", PD),
    nothing("AIBRIX_MIN_MATCH_PCT", "not documented", PD),
    nothing("AIBRIX_TOKEN_LOAD_KV_WEIGHT", "0.3", PD),
    nothing("AIBRIX_TOKEN_LOAD_REQUEST_COST", "3500", PD),
    nothing("AIBRIX_TOKEN_LOAD_TTL_SECONDS", "3600", PD),
    nothing("AIBRIX_TOKEN_LOAD_SESSION_TTL_SECONDS", "1800", PD),
    nothing("AIBRIX_TOKEN_LOAD_MAX_SESSIONS", "100000", PD),
    nothing("AIBRIX_BUCKET_SERVE", "false", PD),
    nothing("AIBRIX_BUCKET_SERVE_MODE", "not documented", PD),
    nothing("AIBRIX_KV_CONNECTOR_TYPE", "shfs", PD),
    nothing("AIBRIX_TRT_MACHINE_ID", "0", PD),
    nothing("AIBRIX_POD_METRICS_WORKER_COUNT", "10", SCRAPES),
    nothing("AIBRIX_POD_METRICS_JOB_QUEUE_SIZE", "100", SCRAPES),
    nothing("AIBRIX_POD_METRICS_FETCH_TIMEOUT_MS", "5000", "an answer may take as long as metrics_poll, but at least 1s and at most 5s"),
    nothing("PROMETHEUS_ENDPOINT", "empty", PROMETHEUS),
    nothing("PROMETHEUS_BASIC_AUTH_USERNAME", "empty", PROMETHEUS),
    nothing("PROMETHEUS_BASIC_AUTH_PASSWORD", "empty", PROMETHEUS),
    nothing("PROMETHEUS_BASIC_AUTH_SECRET_NAME", "empty", PROMETHEUS),
    nothing("PROMETHEUS_BASIC_AUTH_SECRET_NAMESPACE", "aibrix-system", PROMETHEUS),
    nothing("PROMETHEUS_BASIC_AUTH_USERNAME_KEY", "username", PROMETHEUS),
    nothing("PROMETHEUS_BASIC_AUTH_PASSWORD_KEY", "password", PROMETHEUS),
    nothing("AIBRIX_PROMETHEUS_QUERY_INTERVAL_MS", "200", PROMETHEUS),
    nothing("AIBRIX_PROMETHEUS_QUERY_TIMEOUT_MS", "2000", PROMETHEUS),
    nothing("AIBRIX_TTFT_THRESHOLD_S", "1", "no rule here depends on a time to first token"),
    nothing("POD_NAME", "empty", "this gateway does not name itself"),
    nothing("POD_NAMESPACE", "empty", "this gateway does not name itself"),
    nothing("REDIS_HOST", "none", REDIS),
    nothing("REDIS_PORT", "none", REDIS),
    nothing("REDIS_PASSWORD", "none", REDIS),
    nothing("AIBRIX_HTTPROUTE_CACHE_TTL", "30s", "there are no HTTPRoute objects to look up"),
    nothing("AIBRIX_ROUTING_ALGORITHM", "none", "the reference does not read it either; set ROUTING_ALGORITHM"),
    nothing("AIBRIX_DISABLE_RATE_LIMITING", "false", PROFILES_KEPT),
];
