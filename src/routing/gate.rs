//! The load-imbalance gate: when one pod is far busier than the rest, only the idlest stay
//! candidates, whatever they hold of the prompt.
//!
//! Fires when the gap between most and fewest running requests is at least `imbalance_min_gap`
//! and, with more than two pods, the busiest has more than `imbalance_factor` times one request
//! above the mean of the others. Counts are raw: a pod twice as fast is not given twice as much.

use super::settings::LoadBalance;
use super::strategy::Candidate;

/// Narrows the candidates to those with the fewest running requests; true when it did.
pub(super) fn narrow(candidates: &mut Vec<Candidate>, settings: &LoadBalance) -> bool {
    let Some(fewest) = fewest_if_skewed(candidates, settings) else {
        return false;
    };
    candidates.retain(|candidate| candidate.load.in_flight == fewest);
    true
}

fn fewest_if_skewed(candidates: &[Candidate], settings: &LoadBalance) -> Option<u32> {
    let others = candidates
        .len()
        .checked_sub(1)
        .filter(|&others| others > 0)?;
    let counts = candidates.iter().map(|candidate| candidate.load.in_flight);
    let (fewest, most, sum) = counts.fold((u32::MAX, 0, 0u64), |(fewest, most, sum), count| {
        (fewest.min(count), most.max(count), sum + u64::from(count))
    });
    if most - fewest < settings.imbalance_min_gap {
        return None;
    }
    let mean_of_others = (sum - u64::from(most)) as f64 / others as f64;
    let skewed =
        others == 1 || f64::from(most) > settings.imbalance_factor * (mean_of_others + 1.0);
    skewed.then_some(fewest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::strategy::tests::rows;

    fn check(settings: &LoadBalance, counts: &[u32], expected: Option<&[usize]>) {
        let mut candidates = rows(counts, &[]);
        let all = candidates.clone();
        let fired = narrow(&mut candidates, settings);
        let kept: Vec<usize> = candidates
            .iter()
            .map(|row| usize::from(row.slot.0))
            .collect();
        match expected {
            Some(expected) => assert!(fired && kept == expected, "{counts:?}: {kept:?}"),
            None => assert!(!fired && candidates == all, "{counts:?}: {kept:?}"),
        }
    }

    #[test]
    fn fires_on_a_gap_that_is_large_in_absolute_and_relative_terms() {
        let gate = LoadBalance::default();
        let rows: &[(&[u32], Option<&[usize]>)] = &[
            (&[10, 10, 10, 10], None),
            (&[0, 8], Some(&[0])),
            (&[0, 9], Some(&[0])),
            (&[0, 7], None),
            (&[9, 0], Some(&[1])),
            (&[0, 10, 20], Some(&[0])),
            (&[0, 0, 10, 20], Some(&[0, 1])),
            (&[0, 8, 8], None),
            (&[0, 0, 8], Some(&[0, 1])),
            (&[4, 4, 12], Some(&[0, 1])),
            (&[4, 4, 11], None),
            (&[10, 10, 22], None),
            (&[10, 10, 23], Some(&[0, 1])),
            (&[1, 2, 3, 9], Some(&[0])),
            (&[2, 2, 8, 16], Some(&[0, 1])),
            (&[2, 2, 2, 20], Some(&[0, 1, 2])),
            (&[5, 13, 13, 13], None),
            (&[1, 1, 1, 10], Some(&[0, 1, 2])),
            (&[3], None),
            (&[], None),
            (&[0, u32::MAX], Some(&[0])),
        ];
        for (counts, expected) in rows {
            check(&gate, counts, *expected);
        }
    }

    #[test]
    fn factor_and_gap_are_settings() {
        let factor = LoadBalance {
            imbalance_factor: 20.0,
            ..LoadBalance::default()
        };
        check(&factor, &[2, 2, 2, 20], None);
        let gap = LoadBalance {
            imbalance_min_gap: 100,
            ..LoadBalance::default()
        };
        check(&gap, &[2, 2, 2, 20], None);
    }
}
