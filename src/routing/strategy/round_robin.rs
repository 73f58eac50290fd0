//! `round-robin`: the pod that was chosen longest ago.
//!
//! In turn, also when pods come and go, when models share some of their pods, and when other strategies choose between:
//! there is no counter that could be at a place that is no more. For equal pods and requests that cost the same.

use super::*;

pub(super) const DEFINITION: Definition = Definition {
    name: "round-robin",
    kind: Kind::Chooser,
    blending: Blending::Load,
    needs_prefix: false,
    needs_detail: false,
    build: |_, _| Box::new(RoundRobin),
};

struct RoundRobin;

impl Strategy for RoundRobin {
    fn score(&self, _: &Request<'_>, candidates: Candidates<'_>, scores: &mut [f64]) {
        for (score, row) in scores.iter_mut().zip(candidates.rows()) {
            *score = row.load.last_pick as f64;
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
        let earlier =
            |left: usize, right: usize| rows[left].load.last_pick.cmp(&rows[right].load.last_pick);
        match fairest(candidates, 0..rows.len(), earlier, rng) {
            Some(row) => Pick::new(row, Reason::BestScore),
            None => anyone(candidates, rng),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;

    #[test]
    fn goes_round_whatever_the_load() {
        let mut pods = rows(&[9, 0, 3], &[]);
        let mut turns = Vec::new();
        for turn in 1..=9 {
            let row = alone("round-robin", &pods);
            assert_eq!(row.len(), 1);
            pods[row[0]].load.last_pick = turn;
            turns.push(row[0]);
        }
        assert_eq!(turns, [1, 2, 0, 1, 2, 0, 1, 2, 0]);
    }
}
