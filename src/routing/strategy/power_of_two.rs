//! `power-of-two`: of two candidates drawn at random the one with fewer running requests.
//!
//! Nearly as even as the fewest of all, and gateways that do not know of each other do not all run to the same pod.

use super::*;

pub(super) const DEFINITION: Definition = Definition {
    name: "power-of-two",
    kind: Kind::Chooser,
    blending: Blending::Load,
    needs_prefix: false,
    needs_detail: false,
    build: |_, _| Box::new(PowerOfTwo),
};

struct PowerOfTwo;

impl Strategy for PowerOfTwo {
    fn score(&self, _: &Request<'_>, candidates: Candidates<'_>, scores: &mut [f64]) {
        for (score, row) in scores.iter_mut().zip(candidates.rows()) {
            *score = f64::from(row.load.in_flight);
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
        let first = rng.below(rows.len());
        // One of the others: the places from the first one on move up.
        let other = rng.below(rows.len() - 1);
        let second = if other < first { other } else { other + 1 };
        let fewer = |row: &Candidate| row.load.in_flight < rows[first].load.in_flight;
        let row = match rows.get(second) {
            Some(row) if fewer(row) => second,
            _ => first,
        };
        Pick::new(row, Reason::BestScore)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;

    #[test]
    fn each_of_two_is_as_likely_and_the_busier_one_loses() {
        // The busiest of three never wins; the idlest in two of three draws.
        let shares = shares("power-of-two", &rows(&[2, 3, 4], &[]));
        assert!((0.63..0.70).contains(&shares[0]), "{shares:?}");
        assert!((0.30..0.37).contains(&shares[1]), "{shares:?}");
        assert_eq!(alone("power-of-two", &rows(&[7, 6], &[])), [1]);
        assert_eq!(alone("power-of-two", &rows(&[5, 5], &[])), [0, 1]);
        assert_eq!(alone("power-of-two", &rows(&[5], &[])), [0]);
    }
}
