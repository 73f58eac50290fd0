//! `throughput`: the pod that had the fewest tokens in the last minute, prompt tokens counted twice.
//!
//! By the engine's counters, else by the usage in the answers that went through this gateway. The reference reads averages
//! per request, and zeros at that: it chooses at random. Here, as the name says, it evens the pods' throughput out.

use super::*;

pub(super) const DEFINITION: Definition = Definition {
    name: "throughput",
    kind: Kind::Scorer,
    blending: Blending::Load,
    needs_prefix: false,
    needs_detail: true,
    build: |_, _| Box::new(Throughput),
};

struct Throughput;

impl Strategy for Throughput {
    fn score(&self, _: &Request<'_>, candidates: Candidates<'_>, scores: &mut [f64]) {
        for (score, row) in scores.iter_mut().zip(candidates.rows()) {
            *score = row.figure(|detail| detail.weighted_token_rate);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;

    #[test]
    fn takes_the_pod_with_the_fewest_tokens() {
        let table = detailed(&[1500.0, 15.0, 150.0], |detail, rate| {
            detail.weighted_token_rate = rate;
        });
        check_scores("throughput", &table, &[1500.0, 15.0, 150.0]);
        assert_eq!(alone("throughput", &table), [1]);
    }
}
