//! `random`: any candidate, each as likely.
//!
//! A baseline to compare with, and fair when requests are short and alike. Neither load nor cached
//! prefixes are looked at, so it is the wrong choice for anything else.

use super::*;

pub(super) const DEFINITION: Definition = Definition {
    name: "random",
    kind: Kind::Chooser,
    blending: Blending::Load,
    needs_prefix: false,
    needs_detail: false,
    build: |_, _| Box::new(Random),
};

struct Random;

impl Strategy for Random {
    /// Scores nobody, which leaves the pick to chance.
    fn score(&self, _: &Request<'_>, _: Candidates<'_>, _: &mut [f64]) {}
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;

    #[test]
    fn every_candidate_is_as_likely_whatever_its_load() {
        let shares = shares("random", &rows(&[0, 50, 1000, 3], &[0, 9, 0, 0]));
        assert!(
            shares.iter().all(|share| (0.22..0.28).contains(share)),
            "{shares:?}"
        );
    }
}
