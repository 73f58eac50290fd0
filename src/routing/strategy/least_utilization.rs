//! `least-utilization`: the pod whose engine says that it is used the least.
//!
//! Only xLLM says it. With other engines nobody is scored, and by default the load that is blended in decides.

use super::*;

pub(super) const DEFINITION: Definition = Definition {
    name: "least-utilization",
    kind: Kind::Scorer,
    blending: Blending::Load,
    needs_prefix: false,
    needs_detail: true,
    build: |_, _| Box::new(LeastUtilization),
};

struct LeastUtilization;

impl Strategy for LeastUtilization {
    fn score(&self, _: &Request<'_>, candidates: Candidates<'_>, scores: &mut [f64]) {
        for (score, row) in scores.iter_mut().zip(candidates.rows()) {
            *score = row.figure(|detail| detail.utilization);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;

    #[test]
    fn takes_the_least_used() {
        let table = detailed(&[0.9, f64::NAN, 0.3], |detail, used| {
            detail.utilization = used
        });
        check_scores("least-utilization", &table, &[0.9, f64::NAN, 0.3]);
        assert_eq!(alone("least-utilization", &table), [2]);
    }
}
