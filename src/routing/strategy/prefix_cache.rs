//! `prefix-cache`: the pod that holds the most of the prompt.
//!
//! In a list its score is the number of leading blocks held. Alone it has its own selection: of
//! the pods that hold anything and whose running requests are at most mean + factor * standard
//! deviation (the sample one, over all candidates), the deepest match, then the fewest requests.
//! If there is none, the pod with the fewest requests of all.
//!
//! For chats, agents and shared system prompts. Not for prompts with nothing in common: those are
//! spread by load, at the price of hashing them. By default it is blended with `load-balance`.
//!
//! The reference compares matches as whole per cent; here the block counts are compared, so of
//! two deep matches in a long prompt the deeper one wins even if they differ by less.

use super::*;

pub(super) const DEFINITION: Definition = Definition {
    name: "prefix-cache",
    kind: Kind::Scorer,
    blending: Blending::Prefix,
    needs_prefix: true,
    needs_detail: false,
    build: |settings, _| {
        Box::new(PrefixCache {
            factor: settings.prefix_cache.standard_deviation_factor,
        })
    },
};

struct PrefixCache {
    factor: f64,
}

impl Strategy for PrefixCache {
    fn polarity(&self) -> Polarity {
        Polarity::Most
    }

    fn score(&self, _: &Request<'_>, candidates: Candidates<'_>, scores: &mut [f64]) {
        for (score, row) in scores.iter_mut().zip(candidates.rows()) {
            *score = f64::from(row.matched_blocks);
        }
    }

    fn pick(
        &self,
        _: &Request<'_>,
        candidates: Candidates<'_>,
        _: &mut Vec<f64>,
        rng: &mut Rng,
    ) -> Pick {
        let rows = candidates.rows();
        let limit = busy_limit(rows, self.factor);
        let acceptable = |row: &usize| {
            rows[*row].matched_blocks > 0 && f64::from(rows[*row].load.in_flight) <= limit
        };
        let deeper =
            |left: usize, right: usize| rows[right].matched_blocks.cmp(&rows[left].matched_blocks);
        let matched = (0..rows.len()).filter(acceptable);
        if let Some(row) = fairest(candidates, matched, deeper, rng) {
            return Pick::new(row, Reason::PrefixMatch);
        }
        fewest_requests(candidates, rng)
    }
}

/// Most running requests a pod may have to be taken for what it holds.
fn busy_limit(rows: &[Candidate], factor: f64) -> f64 {
    let pods = rows.len() as f64;
    let counts = || rows.iter().map(|row| f64::from(row.load.in_flight));
    let mean = counts().sum::<f64>() / pods;
    if rows.len() < 2 {
        return mean;
    }
    let squares: f64 = counts().map(|count| (count - mean) * (count - mean)).sum();
    mean + factor * (squares / (pods - 1.0)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;

    fn check(counts: &[u32], percents: &[u32], factor: f64, expected: Option<&[usize]>) {
        let mut settings = RoutingSettings::default();
        settings.prefix_cache.standard_deviation_factor = factor;
        let candidates = rows(counts, percents);
        for seed in 0..20 {
            let pick = pick_with(&settings, "prefix-cache", &candidates, seed);
            let (reason, rows) = match expected {
                Some(rows) => (Reason::PrefixMatch, rows.to_vec()),
                None => (Reason::LeastRequestFallback, fewest(counts)),
            };
            let right = pick.reason == reason && rows.contains(&pick.row);
            assert!(right, "{counts:?} {percents:?} {factor}: {pick:?}");
        }
    }

    fn fewest(counts: &[u32]) -> Vec<usize> {
        let least = counts.iter().min();
        (0..counts.len())
            .filter(|&row| Some(&counts[row]) == least)
            .collect()
    }

    #[test]
    fn alone_takes_the_deepest_match_that_is_not_too_busy() {
        check(&[5, 10, 15], &[100, 50, 25], 1.0, Some(&[0]));
        check(&[100, 10, 12], &[100, 80, 60], 1.0, Some(&[1]));
        check(&[20, 10, 30], &[50, 50, 50], 1.0, Some(&[1]));
        check(&[11, 12, 13], &[90, 80, 70], -10.0, None);
        check(&[10, 20], &[75, 0], 2.0, Some(&[0]));
        check(&[11, 10, 12], &[100, 90, 80], 5.0, Some(&[0]));
        check(&[1, 2, 3, 4], &[50, 60, 0, 0], 1.0, Some(&[1]));
        check(&[1, 2, 3, 4], &[50, 50, 50, 0], 1.0, Some(&[0]));
        check(&[1, 1, 1, 4], &[50, 50, 50, 0], 1.0, Some(&[0, 1, 2]));
        check(&[1, 10, 1, 4], &[50, 100, 0, 0], 1.0, Some(&[0]));
        check(&[10, 15, 20], &[100, 90, 80], 0.0, Some(&[0]));
        check(&[10, 10, 10], &[100, 90, 80], -1.0, Some(&[0]));
        check(&[1000, 10, 15], &[100, 90, 80], 1000.0, Some(&[0]));
        check(&[100, 101, 102], &[90, 80, 70], 1.0, Some(&[0]));
        check(&[50, 10, 30], &[75, 75, 75], 2.0, Some(&[1]));
        check(&[5, 50, 60], &[0, 80, 0], 2.0, Some(&[1]));
        check(&[5, 200, 10], &[0, 100, 0], 1.0, None);
        check(&[2_147_483_647, 0, 5], &[100, 50, 25], 1.0, Some(&[1]));
        check(&[1, 1, 1, 10], &[0, 0, 0, 100], 1.0, None);
        check(&[1, 1, 1, 10], &[0, 0, 0, 100], 4.0, Some(&[3]));
        check(&[3, 1, 2], &[], 1.0, None);
        check(&[0, 0, 0, 1], &[0, 0, 0, 100], 1.0, None);
        check(&[0, 50], &[0, 100], 1.0, Some(&[1]));
        check(&[u32::MAX; 3], &[0, 1, 0], 1.0, Some(&[1]));
    }

    #[test]
    fn without_an_acceptable_match_the_fewest_requests_win_and_ties_are_spread() {
        check(&[10, 5, 15], &[], 2.0, None);
        let shares = shares("prefix-cache,load-balance:0", &rows(&[5, 5, 10], &[]));
        assert!(
            (0.45..0.55).contains(&shares[0]) && shares[2] == 0.0,
            "{shares:?}"
        );
    }

    // The reference floors to whole per cent, where 1 of 250 blocks is 0 and 501 of 1000 is 500.
    #[test]
    fn matches_are_compared_exactly() {
        check(&[1, 0], &[501, 500], 2.0, Some(&[0]));
        check(&[1, 0], &[1, 0], 2.0, Some(&[0]));
    }
}
