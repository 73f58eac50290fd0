//! `prefix-cache` on its own may never use some of the pods.
//!
//! When all prompts share their first block, every pod that has served one holds a part of each, and only those do. Say k of n
//! pods have c requests each and the others none. The mean is ck/n and the sample deviation c·√(k(n-k)/(n(n-1))), so a
//! busy pod may be taken for what it holds while c ≤ ck/n + f·c·√(k(n-k)/(n(n-1))), which is k ≥ n/(1 + f²·n/(n-1)), whatever c is:
//! about n/(1+f²) pods then do all the work for ever. Only the load-imbalance gate can end that, and it never fires
//! while c ≤ F·(c(k-1)/(n-1) + 1), which holds for every c from k ≥ 1 + (n-1)/F. Of two pods the gap alone counts, so there
//! it always fires.

use super::super::{Config, Profile};
use super::strategies::Named;
use super::{Warnings, rounded_down};
use crate::routing::{Overrides, is_standalone_prefix_cache};

pub(super) fn standalone_prefix_cache(
    config: &Config,
    named: &[Named<'_>],
    warnings: &mut Warnings,
) {
    for one in named {
        let none = Overrides::default();
        let overrides = one.profile.map_or(&none, |profile| &profile.overrides);
        if !is_standalone_prefix_cache(one.strategy, &config.routing, overrides) {
            continue;
        }
        let factor = factor(config, one.profile);
        let gate_factor = gate_factor(config, one.profile);
        let idle = |pods: usize| pods - fewest_busy(pods, factor, gate_factor);
        let most = one.groups.iter().max_by_key(|group| idle(group.pods.len()));
        let Some(group) = most.filter(|group| idle(group.pods.len()) > 0) else {
            continue;
        };
        let pods = group.pods.len();
        warnings.add(
            &one.path,
            format!(
                "prefix-cache without load-balance and with the factor {factor} can leave {} of {} idle for ever when all prompts share their first block; let load be blended in (no load-balance:0, and routing.auto_blend.load_balance_weight above 0), or set standard_deviation_factor below {}",
                idle(pods),
                group.shown(),
                rounded_down(1.0 / (pods as f64).sqrt()),
            ),
        );
    }
}

fn factor(config: &Config, profile: Option<&Profile>) -> f64 {
    profile
        .and_then(|profile| profile.overrides.standard_deviation_factor)
        .unwrap_or(config.routing.prefix_cache.standard_deviation_factor)
}

fn gate_factor(config: &Config, profile: Option<&Profile>) -> f64 {
    profile
        .and_then(|profile| profile.overrides.load_balance.imbalance_factor)
        .unwrap_or(config.routing.load_balance.imbalance_factor)
}

/// The fewest pods that can go on doing all the work.
fn fewest_busy(pods: usize, factor: f64, gate_factor: f64) -> usize {
    if pods <= 2 {
        return pods;
    }
    let n = pods as f64;
    let by_deviation = n / (1.0 + factor * factor * n / (n - 1.0));
    let by_gate = 1.0 + (n - 1.0) / gate_factor;
    // Whole pods; what is a whole number but for its rounding is one.
    let busy = (by_deviation.max(by_gate) - 1e-9).ceil();
    (busy as usize).clamp(1, pods)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether k busy pods of n can go on so: no request ever goes to an idle one.
    fn lasts(pods: usize, busy: usize, factor: f64, gate_factor: f64) -> bool {
        (1..2000_u32).all(|count| {
            let (n, k, c) = (pods as f64, busy as f64, f64::from(count));
            let mean = c * k / n;
            let squares = k * (c - mean).powi(2) + (n - k) * mean.powi(2);
            let deviation = (squares / (n - 1.0)).sqrt();
            let gated =
                count >= 8 && (pods == 2 || c > gate_factor * ((c * k - c) / (n - 1.0) + 1.0));
            c <= mean + factor * deviation + 1e-9 && !gated
        })
    }

    #[test]
    fn the_bound_is_what_counting_says() {
        for pods in 2..=16 {
            for factor in [0.1, 0.3, 0.5, 1.0, 1.5, 2.0, 4.0] {
                for gate_factor in [1.0, 1.5, 2.0, 4.0, 100.0] {
                    let counted = (1..=pods)
                        .find(|&busy| busy == pods || lasts(pods, busy, factor, gate_factor));
                    let bound = fewest_busy(pods, factor, gate_factor);
                    assert_eq!(Some(bound), counted, "{pods} {factor} {gate_factor}");
                }
            }
        }
    }

    #[test]
    fn without_the_gate_it_is_about_n_over_1_plus_f_squared() {
        assert_eq!(fewest_busy(100, 1.0, f64::INFINITY), 50);
        assert_eq!(fewest_busy(100, 2.0, f64::INFINITY), 20);
        assert_eq!(fewest_busy(8, 2.0, 2.0), 5);
    }
}
