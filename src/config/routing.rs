//! Reads `routing`. The ranges are functions of their own: the environment's variables have the same.

use std::ops::RangeInclusive;

use super::models::strategy;
use super::problem::Wrong;
use super::reader::Node;
use super::{StrategyCheck, rule};
use crate::routing::settings::{
    AutoBlend, Gpu, LoadBalance, Preble, PrefixCache, RoutingSettings, SessionAffinity, Slo,
    TokenizerKind, Vtc,
};

pub(super) const WEIGHT: RangeInclusive<u32> = 0..=1_000_000;
/// The weight of what is asked for: 0 would turn prefix-cache into plain load balancing.
pub(super) const MAIN_WEIGHT: RangeInclusive<u32> = 1..=1_000_000;
pub(super) const MIN_GAP: RangeInclusive<u32> = 1..=u32::MAX;
pub(super) const BLOCK_SIZE: RangeInclusive<usize> = 1..=65_536;
/// Running requests of a pod.
pub(super) const POD_REQUESTS: RangeInclusive<u32> = 1..=1_000_000;
pub(super) const MAX_BLOCKS: RangeInclusive<usize> = 1..=1_000_000_000;

pub(super) const DECODING_LENGTH: RangeInclusive<u32> = 1..=10_000_000;
pub(super) const GPUS: &[(&str, Gpu)] = &[("A6000", Gpu::A6000), ("V100", Gpu::V100)];

pub(super) fn routing(node: &Node<'_>, routing: &mut RoutingSettings, check: StrategyCheck<'_>) {
    node.map(|map| {
        map.set(&mut routing.strategy, "strategy", |node| {
            strategy(node, check)
        });
        map.with("auto_blend", |node| {
            auto_blend(node, &mut routing.auto_blend)
        });
        map.with("load_balance", |node| {
            load_balance(node, &mut routing.load_balance)
        });
        map.with("prefix_cache", |node| {
            prefix_cache(node, &mut routing.prefix_cache)
        });
        map.with("preble", |node| preble(node, &mut routing.preble));
        map.with("vtc", |node| vtc(node, &mut routing.vtc));
        map.with("session_affinity", |node| {
            session_affinity(node, &mut routing.session_affinity)
        });
        map.with("slo", |node| slo(node, &mut routing.slo));
    });
}

fn auto_blend(node: &Node<'_>, blend: &mut AutoBlend) {
    node.map(|map| {
        map.scalar(
            &mut blend.load_balance_weight,
            "load_balance_weight",
            rule::whole(WEIGHT),
        );
        map.scalar(
            &mut blend.least_request_weight,
            "least_request_weight",
            rule::whole(WEIGHT),
        );
        map.scalar(
            &mut blend.prefix_cache_weight,
            "prefix_cache_weight",
            rule::whole(MAIN_WEIGHT),
        );
        map.scalar(
            &mut blend.prefix_cache_load_balance_weight,
            "prefix_cache_load_balance_weight",
            rule::whole(WEIGHT),
        );
    });
}

fn load_balance(node: &Node<'_>, balance: &mut LoadBalance) {
    node.map(|map| {
        map.scalar(
            &mut balance.imbalance_factor,
            "imbalance_factor",
            rule::above(0.0),
        );
        map.scalar(
            &mut balance.imbalance_min_gap,
            "imbalance_min_gap",
            rule::whole(MIN_GAP),
        );
        map.scalar(
            &mut balance.queued_weight,
            "queued_weight",
            rule::at_least(0.0),
        );
        map.scalar(
            &mut balance.kv_pressure_alpha,
            "kv_pressure_alpha",
            rule::at_least(0.0),
        );
        map.scalar(
            &mut balance.kv_critical_free,
            "kv_critical_free",
            rule::ratio,
        );
    });
}

fn prefix_cache(node: &Node<'_>, cache: &mut PrefixCache) {
    node.map(|map| {
        map.scalar(&mut cache.tokenizer, "tokenizer", tokenizer);
        map.scalar(&mut cache.block_size, "block_size", rule::size(BLOCK_SIZE));
        map.scalar(&mut cache.max_blocks, "max_blocks", rule::whole(MAX_BLOCKS));
        map.scalar(&mut cache.ttl, "ttl", rule::duration);
        map.scalar(
            &mut cache.standard_deviation_factor,
            "standard_deviation_factor",
            rule::above(0.0),
        );
        map.scalar(&mut cache.include_tools, "include_tools", rule::flag);
        map.scalar(&mut cache.answers, "answers", rule::flag);
        map.scalar(&mut cache.hash_seed, "hash_seed", hash_seed);
        let mut standard = ();
        map.scalar(&mut standard, "index", index);
    });
}

fn preble(node: &Node<'_>, preble: &mut Preble) {
    node.map(|map| {
        map.scalar(&mut preble.target_gpu, "target_gpu", rule::one_of(GPUS));
        map.scalar(
            &mut preble.decoding_length,
            "decoding_length",
            rule::whole(DECODING_LENGTH),
        );
        map.scalar(&mut preble.window, "window", rule::duration);
    });
}

fn vtc(node: &Node<'_>, vtc: &mut Vtc) {
    node.map(|map| {
        map.scalar(&mut vtc.max_pod_load, "max_pod_load", rule::above(0.0));
        map.scalar(
            &mut vtc.fairness_weight,
            "fairness_weight",
            rule::at_least(0.0),
        );
        map.scalar(
            &mut vtc.utilization_weight,
            "utilization_weight",
            rule::at_least(0.0),
        );
        map.scalar(
            &mut vtc.input_token_weight,
            "input_token_weight",
            rule::above(0.0),
        );
        map.scalar(
            &mut vtc.output_token_weight,
            "output_token_weight",
            rule::above(0.0),
        );
        map.scalar(&mut vtc.window, "window", rule::duration);
        map.scalar(&mut vtc.min_tokens, "min_tokens", rule::above(0.0));
        map.scalar(&mut vtc.max_tokens, "max_tokens", rule::above(0.0));
    });
}

fn session_affinity(node: &Node<'_>, affinity: &mut SessionAffinity) {
    node.map(|map| {
        map.set(&mut affinity.key_headers, "key_headers", |node| {
            node.list_of(|node| node.text(rule::header_name))
        });
    });
}

fn slo(node: &Node<'_>, slo: &mut Slo) {
    node.map(|map| {
        map.scalar(
            &mut slo.pod_requests,
            "pod_requests",
            rule::or_none(rule::whole(POD_REQUESTS)),
        );
        map.scalar(&mut slo.max_wait, "max_wait", rule::duration);
    });
}

pub(super) fn tokenizer(text: &str) -> Result<TokenizerKind, Wrong> {
    const BUILT: &[(&str, TokenizerKind)] = &[
        ("character", TokenizerKind::Character),
        ("tiktoken", TokenizerKind::Tiktoken),
    ];
    match text {
        "remote" | "huggingface" => Err(Wrong::unsupported("character, tiktoken")),
        _ => rule::one_of(BUILT)(text),
    }
}

pub(super) fn hash_seed(text: &str) -> Result<Option<u64>, Wrong> {
    rule::or_none(rule::whole(0..=u64::MAX))(text)
}

fn index(text: &str) -> Result<(), Wrong> {
    match text {
        "kv-events" => Err(Wrong::unsupported("standard")),
        _ => rule::one_of(&[("standard", ())])(text),
    }
}
