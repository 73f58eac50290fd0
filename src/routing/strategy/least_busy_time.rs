//! `least-busy-time`: the pod that had work for the smallest share of the last seconds.
//!
//! By the engine's own figure, else by whether requests of this gateway were running there. No engine exports the figure
//! that the reference reads, which makes this a random choice there.

use super::*;

pub(super) const DEFINITION: Definition = Definition {
    name: "least-busy-time",
    kind: Kind::Scorer,
    blending: Blending::Load,
    needs_prefix: false,
    needs_detail: true,
    build: |_, _| Box::new(LeastBusyTime),
};

struct LeastBusyTime;

impl Strategy for LeastBusyTime {
    fn score(&self, _: &Request<'_>, candidates: Candidates<'_>, scores: &mut [f64]) {
        for (score, row) in scores.iter_mut().zip(candidates.rows()) {
            *score = row.figure(|detail| detail.busy);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;

    #[test]
    fn takes_the_least_busy_and_never_one_that_says_nothing() {
        let table = detailed(&[0.5, 0.2, f64::NAN], |detail, busy| detail.busy = busy);
        check_scores("least-busy-time", &table, &[0.5, 0.2, f64::NAN]);
        assert_eq!(alone("least-busy-time", &table), [1]);
        let silent = rows(&[0, 0], &[]);
        assert_eq!(alone("least-busy-time", &silent), [0, 1]);
    }
}
