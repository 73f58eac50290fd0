//! `slo-pack-load`: as [`slo`], but the most loaded pod that can take one more: few pods do all the work, and
//! the others can be given to something else. Without a goal the fewest requests.

use super::slo::{exclusive, running};
use super::*;

pub(super) const DEFINITION: Definition = exclusive("slo-pack-load", |settings, _| {
    Box::new(SloPackLoad {
        pod_requests: settings.slo.pod_requests,
    })
});

struct SloPackLoad {
    pod_requests: Option<u32>,
}

impl Strategy for SloPackLoad {
    fn polarity(&self) -> Polarity {
        match self.pod_requests {
            Some(_) => Polarity::Most,
            None => Polarity::Least,
        }
    }

    fn most_requests(&self) -> Option<u32> {
        self.pod_requests
    }

    fn score(&self, _: &Request<'_>, candidates: Candidates<'_>, scores: &mut [f64]) {
        running(candidates, scores);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;

    #[test]
    fn takes_the_most_loaded_or_without_a_goal_the_least() {
        let table = rows(&[3, 1, 2], &[]);
        assert_eq!(alone("slo-pack-load", &table), [1]);
        let settings = super::super::slo::goal(4);
        for seed in 0..20 {
            assert_eq!(pick_with(&settings, "slo-pack-load", &table, seed).row, 0);
        }
        assert_eq!(build(&settings, "slo-pack-load").most_requests(), Some(4));
    }
}
