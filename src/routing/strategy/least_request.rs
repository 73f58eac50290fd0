//! `least-request`: the pod with the fewest running requests.
//!
//! Good when requests cost about the same and share no prefixes. It counts requests, not their
//! length, and forgets every cached prefix.

use super::*;

pub(super) const DEFINITION: Definition = Definition {
    name: "least-request",
    kind: Kind::Scorer,
    blending: Blending::Load,
    needs_prefix: false,
    needs_detail: false,
    build: |_, _| Box::new(LeastRequest),
};

struct LeastRequest;

impl Strategy for LeastRequest {
    fn score(&self, _: &Request<'_>, candidates: Candidates<'_>, scores: &mut [f64]) {
        for (score, row) in scores.iter_mut().zip(candidates.rows()) {
            *score = f64::from(row.load.in_flight);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;

    #[test]
    fn equals_are_taken_in_turn_and_a_new_pod_takes_its_place_among_them() {
        let mut pods = rows(&[3, 3, 3], &[]);
        for (row, last_pick) in [(0, 7), (1, 5), (2, 6)] {
            pods[row].load.last_pick = last_pick;
        }
        assert_eq!(shares("least-request", &pods), [0.0, 1.0, 0.0]);
        pods[2].load.last_pick = 0;
        assert_eq!(shares("least-request", &pods), [0.0, 0.0, 1.0]);
        pods[2].load.last_pick = 8;
        assert_eq!(shares("least-request", &pods), [0.0, 1.0, 0.0]);
    }

    #[test]
    fn takes_the_fewest_and_spreads_ties() {
        assert_eq!(
            shares("least-request", &rows(&[10, 5, 15], &[])),
            [0.0, 1.0, 0.0]
        );
        let tied = shares("least-request", &rows(&[5, 5, 10], &[]));
        assert!(
            (0.45..0.55).contains(&tied[0]) && tied[2] == 0.0,
            "{tied:?}"
        );
        assert_eq!(shares("least-request", &rows(&[u32::MAX], &[])), [1.0]);
    }
}
