//! `load-balance`: the pod with the least work for its speed.
//!
//! ```text
//! (running + queued_weight * queued) / capacity * (1 + kv_pressure_alpha * (share of KV in use)^2)
//! ```
//!
//! and out of the question while less than `kv_critical_free` of its KV cache is free. Capacity is
//! the pod's smoothed output tokens per second; a pod without one gets the mean of the others.
//! Running requests already hold those queued in the engine, hence the queue's default weight of 0.
//!
//! For pods of unequal speed, or as the load part of a list; looks at no prefix. An engine that
//! does not report its KV cache counts as free. Alone, equal scores go to the emptiest KV cache,
//! then the fewest requests, then by chance; so it goes when every pod is critical.

use super::*;
use crate::routing::settings::LoadBalance as Settings;

pub(super) const DEFINITION: Definition = Definition {
    name: "load-balance",
    kind: Kind::Scorer,
    blending: Blending::Alone,
    needs_prefix: false,
    needs_detail: false,
    build: |settings, _| Box::new(LoadBalance(settings.load_balance)),
};

struct LoadBalance(Settings);

impl LoadBalance {
    fn score_of(&self, load: &Load, mean_capacity: f64) -> f64 {
        let used = kv_used(load);
        // Exactly at the mark is usable, also when 1 - 0.9 comes out a hair below 0.1.
        if 1.0 - used + 1e-9 < self.0.kv_critical_free {
            return f64::INFINITY;
        }
        let queued = load
            .queued
            .filter(|queued| queued.is_finite())
            .unwrap_or(0.0);
        let work = f64::from(load.in_flight) + self.0.queued_weight * queued;
        let pressure = 1.0 + self.0.kv_pressure_alpha * used * used;
        work / capacity(load).unwrap_or(mean_capacity) * pressure
    }
}

impl Strategy for LoadBalance {
    fn score(&self, _: &Request<'_>, candidates: Candidates<'_>, scores: &mut [f64]) {
        let known = candidates
            .rows()
            .iter()
            .filter_map(|row| capacity(&row.load));
        let (sum, pods) = known.fold((0.0, 0.0), |(sum, pods), rate| (sum + rate, pods + 1.0));
        let mean_capacity = if pods > 0.0 { sum / pods } else { 1.0 };
        for (score, row) in scores.iter_mut().zip(candidates.rows()) {
            *score = self.score_of(&row.load, mean_capacity);
        }
    }

    fn pick(
        &self,
        request: &Request<'_>,
        candidates: Candidates<'_>,
        scores: &mut Vec<f64>,
        rng: &mut Rng,
    ) -> Pick {
        fill_scores(self, request, candidates, scores);
        let kv_used = |row: usize| kv_used(&candidates.rows()[row].load);
        let better = |left: usize, right: usize| {
            let by_score = self.polarity().order(scores[left], scores[right]);
            by_score.then(kv_used(left).total_cmp(&kv_used(right)))
        };
        match fairest(candidates, 0..scores.len(), better, rng) {
            Some(row) => Pick::new(row, Reason::BestScore),
            None => anyone(candidates, rng),
        }
    }
}

fn kv_used(load: &Load) -> f64 {
    let usage = load.kv_usage.filter(|usage| !usage.is_nan());
    usage.map_or(0.0, |usage| usage.clamp(0.0, 1.0))
}

fn capacity(load: &Load) -> Option<f64> {
    load.output_rate
        .filter(|rate| rate.is_finite() && *rate > 0.0)
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;

    const F: f64 = f64::INFINITY;

    /// (running, capacity, KV in use)
    fn pods(loads: &[(u32, f64, f64)]) -> Vec<Candidate> {
        let mut rows = rows(&vec![0; loads.len()], &[]);
        for (row, &(in_flight, capacity, kv_usage)) in rows.iter_mut().zip(loads) {
            row.load = Load {
                in_flight,
                kv_usage: Some(kv_usage),
                output_rate: (capacity > 0.0).then_some(capacity),
                ..Load::default()
            };
        }
        rows
    }

    fn check(settings: &RoutingSettings, rows: &[Candidate], expected: &[f64]) {
        let found = scores(settings, "load-balance", rows);
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            let equal = found == expected || (found - expected).abs() < 1e-4 * expected.max(0.01);
            assert!(equal, "{found} is not {expected}");
        }
    }

    #[test]
    fn scores_running_over_capacity_under_kv_pressure() {
        let settings = RoutingSettings::default();
        let check = |loads: &[_], expected: &[f64]| check(&settings, &pods(loads), expected);
        check(&[(5, 1.0, 0.0)], &[5.0]);
        check(&[(5, 1.0, 0.5)], &[7.5]);
        check(&[(5, 1.0, 0.8)], &[11.4]);
        check(&[(0, 77.0, 0.5)], &[0.0]);
        check(&[(5, 1.0, 0.91)], &[F]);
        check(&[(0, 1.0, 0.91)], &[F]);
        check(&[(5, 1.0, 0.9)], &[13.1]);
        check(
            &[(30, 6000.0, 0.5), (20, 4000.0, 0.7), (25, 3000.0, 0.4)],
            &[0.0075, 0.0099, 0.0110],
        );
        check(
            &[(2, 1.0, 0.0), (4, 2.0, 0.0), (1, 1.0, 0.0)],
            &[2.0, 2.0, 1.0],
        );
        check(
            &[(4, 6000.0, 0.0), (4, 2000.0, 0.0), (4, 0.0, 0.0)],
            &[0.000_667, 0.002, 0.001],
        );
        check(&[(3, 0.0, 0.0)], &[3.0]);
        check(&[(1, 1.0, 1.4)], &[F]);
        check(&[(1, 1.0, -0.4)], &[1.0]);
        check(&[(1, 1.0, f64::NAN)], &[1.0]);
        check(
            &[(1, f64::NAN, 0.0), (1, F, 0.0), (1, 2.0, 0.0)],
            &[0.5, 0.5, 0.5],
        );
    }

    #[test]
    fn the_engines_queue_counts_when_it_is_given_weight() {
        let mut settings = RoutingSettings::default();
        settings.load_balance.queued_weight = 0.5;
        let mut rows = pods(&[(4, 2.0, 0.0)]);
        rows[0].load.queued = Some(6.0);
        check(&settings, &rows, &[3.5]);
        rows[0].load.queued = Some(f64::NAN);
        check(&settings, &rows, &[2.0]);
    }

    #[test]
    fn alone_takes_the_least_score_then_the_emptiest_kv_cache() {
        let check = |loads: &[(u32, f64, f64)], expected: usize| {
            assert_eq!(
                shares("load-balance", &pods(loads))[expected],
                1.0,
                "{loads:?}"
            );
        };
        check(
            &[(30, 6000.0, 0.5), (20, 4000.0, 0.7), (25, 3000.0, 0.4)],
            0,
        );
        check(&[(2, 1.0, 0.0), (4, 2.0, 0.0), (1, 1.0, 0.0)], 2);
        check(&[(0, 1.0, 0.5), (0, 1.0, 0.2), (0, 1.0, 0.3)], 1);
        check(&[(1, 1.0, 0.99), (7, 1.0, 0.95), (1, 1.0, 0.97)], 1);
        // Not in the reference: a full tie goes to the fewest running requests.
        check(&[(3, 3.0, 0.1), (2, 2.0, 0.1), (1, 1.0, 0.1)], 2);
        let tied = shares("load-balance", &pods(&[(0, 1.0, 0.1), (0, 2.0, 0.1)]));
        assert!((0.45..0.55).contains(&tied[0]), "{tied:?}");
    }
}
