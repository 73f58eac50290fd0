//! What was seen of a strategy, in a few numbers.

use serde::Serialize;
use warmgate::sim::EngineModel;

use super::simulation::{Seen, SeenRequest};

#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Figures {
    /// As asked for.
    pub(super) strategy: String,
    /// With what the auto-blend added.
    pub(super) run: String,
    pub(super) requests: usize,
    /// Virtual seconds from the first arrival to the last answer's end.
    pub(super) span_s: f64,
    /// From arrival to the first token.
    pub(super) ttft_ms: Times,
    /// From arrival to the end.
    pub(super) end_to_end_ms: Times,
    /// Share of the prompts' tokens that the engines found in their KV caches.
    pub(super) hit_rate: f64,
    /// Those tokens: prefill that was not computed again.
    pub(super) saved_tokens: u64,
    pub(super) prompt_tokens: u64,
    /// Share of the engines' time that computing the rest of them took.
    pub(super) prefill_share: f64,
    pub(super) evicted_blocks: u64,
    /// Mean number of requests on the busiest pod against that of all.
    pub(super) imbalance: f64,
    pub(super) requests_by_pod: Vec<u64>,
}

#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Times {
    pub(super) mean: f64,
    pub(super) p50: f64,
    pub(super) p90: f64,
    pub(super) p99: f64,
    pub(super) max: f64,
}

impl Figures {
    pub(super) fn new(strategy: &str, seen: &Seen, engine: &EngineModel) -> Self {
        let sum = |of: fn(&warmgate::sim::engine::Totals) -> u64| {
            seen.pods.iter().map(|pod| of(&pod.totals)).sum::<u64>()
        };
        let prompt_tokens = sum(|totals| totals.prompt_tokens);
        let saved_tokens = sum(|totals| totals.cached_tokens);
        let times = |of: fn(&SeenRequest) -> u64| {
            Times::new(
                seen.requests
                    .iter()
                    .map(|request| of(request) - request.arrived),
            )
        };
        let last = seen.requests.iter().map(|request| request.ended).max();
        let first = seen.requests.iter().map(|request| request.arrived).min();
        let span_s = (last.unwrap_or(0) - first.unwrap_or(0)) as f64 / 1e6;
        let prefill_s = (prompt_tokens - saved_tokens) as f64 * engine.prefill_us / 1e6;
        Self {
            strategy: strategy.to_owned(),
            run: seen.run.clone(),
            requests: seen.requests.len(),
            span_s,
            ttft_ms: times(|request| request.first_token),
            end_to_end_ms: times(|request| request.ended),
            hit_rate: saved_tokens as f64 / prompt_tokens.max(1) as f64,
            saved_tokens,
            prompt_tokens,
            prefill_share: prefill_s / (span_s * seen.pods.len() as f64).max(f64::MIN_POSITIVE),
            evicted_blocks: sum(|totals| totals.evicted_blocks),
            imbalance: imbalance(seen.pods.iter().map(|pod| pod.busy)),
            requests_by_pod: seen.pods.iter().map(|pod| pod.requests).collect(),
        }
    }
}

impl Times {
    /// Of microseconds.
    fn new(micros: impl Iterator<Item = u64>) -> Self {
        let mut sorted: Vec<u64> = micros.collect();
        sorted.sort_unstable();
        let sum: u64 = sorted.iter().sum();
        let quantile = |share: f64| {
            let rank = (sorted.len() as f64 * share).ceil() as usize;
            let value = sorted.get(rank.saturating_sub(1)).copied();
            value.unwrap_or(0) as f64 / 1e3
        };
        Self {
            mean: sum as f64 / sorted.len().max(1) as f64 / 1e3,
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            max: quantile(1.0),
        }
    }
}

fn imbalance(busy: impl Iterator<Item = u128> + Clone) -> f64 {
    let pods = busy.clone().count();
    let sum: u128 = busy.clone().sum();
    let most = busy.max().unwrap_or(0);
    if sum == 0 {
        return 1.0;
    }
    most as f64 * pods as f64 / sum as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_were_seen() {
        let times = Times::new((1..=200).rev().map(|ms| ms * 1000));
        assert_eq!(
            times,
            Times {
                mean: 100.5,
                p50: 100.0,
                p90: 180.0,
                p99: 198.0,
                max: 200.0
            }
        );
        assert_eq!(Times::new([7000].into_iter()).p50, 7.0);
        assert_eq!(Times::new([].into_iter()).max, 0.0);
    }

    #[test]
    fn imbalance_is_most_over_mean() {
        assert_eq!(imbalance([1, 1, 4].into_iter()), 2.0);
        assert_eq!(imbalance([0, 0].into_iter()), 1.0);
    }
}
