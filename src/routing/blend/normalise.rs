//! Bringing scores of different kinds to 0..1 so that they can be added.
//!
//! Of the finite scores the best becomes 1 and the worst 0; if all are equal, each becomes 1. With
//! three or more, outliers are first drawn in to three median deviations around the median, as in
//! the reference: one pod a thousand times worse must not make all others look alike. Rows that
//! are NaN or infinite count as unscored and add nothing.

use super::super::strategy::Polarity;

/// Adds `share` times each row's normalised score to its total. `buffer` is only working memory.
pub(super) fn add(
    scores: &[f64],
    polarity: Polarity,
    share: f64,
    totals: &mut [f64],
    buffer: &mut Vec<f64>,
) {
    let Some(scale) = Scale::of(scores, buffer) else {
        return;
    };
    for (total, score) in totals.iter_mut().zip(scores) {
        *total += share * scale.normalise(*score, polarity);
    }
}

/// The normalised score of each row, for showing.
pub(super) fn each(scores: &[f64], polarity: Polarity) -> Vec<f64> {
    let mut totals = vec![0.0; scores.len()];
    add(scores, polarity, 1.0, &mut totals, &mut Vec::new());
    totals
}

#[derive(Clone, Copy)]
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    fn of(scores: &[f64], buffer: &mut Vec<f64>) -> Option<Self> {
        buffer.clear();
        buffer.extend(scores.iter().filter(|score| score.is_finite()));
        let low = buffer.iter().copied().reduce(f64::min)?;
        let high = buffer.iter().copied().reduce(f64::max)?;
        if low == high || buffer.len() < 3 || one_value_prevails(buffer) {
            return Some(Self { low, high });
        }
        let median = median(buffer);
        for value in buffer.iter_mut() {
            *value = (*value - median).abs();
        }
        let reach = 3.0 * self::median(buffer);
        if reach == 0.0 {
            return Some(Self { low, high });
        }
        Some(Self {
            low: low.max(median - reach),
            high: high.min(median + reach),
        })
    }

    fn normalise(self, score: f64, polarity: Polarity) -> f64 {
        if !score.is_finite() {
            return 0.0;
        }
        if self.high == self.low {
            return 1.0;
        }
        // Divided before subtracting: a range of two huge scores may not be a finite number.
        let width = self.high / 2.0 - self.low / 2.0;
        let score = score.clamp(self.low, self.high);
        match polarity {
            Polarity::Most => (score / 2.0 - self.low / 2.0) / width,
            Polarity::Least => (self.high / 2.0 - score / 2.0) / width,
        }
    }
}

/// Whether more than half of the values are one and the same. Then it is the median and the median
/// deviation is 0: most pods match nothing, and two medians need not be searched to find that out.
fn one_value_prevails(values: &[f64]) -> bool {
    let mut leader = f64::NAN;
    let mut lead = 0usize;
    for &value in values {
        if lead == 0 {
            leader = value;
        }
        if value == leader {
            lead += 1;
        } else {
            lead -= 1;
        }
    }
    lead > 0 && values.iter().filter(|&&value| value == leader).count() * 2 > values.len()
}

/// Mean of the two middle values when there is an even number of them.
fn median(values: &mut [f64]) -> f64 {
    let middle = values.len() / 2;
    let odd = values.len() % 2 == 1;
    let (before, &mut upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    if odd {
        return upper;
    }
    let lower = before.iter().copied().reduce(f64::max).unwrap_or(upper);
    lower / 2.0 + upper / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(polarity: Polarity, scores: &[f64], expected: &[f64]) {
        let found = each(scores, polarity);
        let close = |(left, right): (&f64, &f64)| (left - right).abs() < 0.001;
        let equal = found.len() == expected.len() && found.iter().zip(expected).all(close);
        assert!(equal, "{scores:?}: {found:?}");
    }

    #[test]
    fn best_is_one_and_worst_is_zero() {
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        check(Polarity::Most, &[10.0, 20.0, 30.0], &[0.0, 0.5, 1.0]);
        check(Polarity::Least, &[10.0, 20.0, 30.0], &[1.0, 0.5, 0.0]);
        check(Polarity::Most, &[10.0, 10.0, nan], &[1.0, 1.0, 0.0]);
        check(
            Polarity::Most,
            &[inf, 20.0, 10.0, -inf],
            &[0.0, 1.0, 0.0, 0.0],
        );
        check(Polarity::Most, &[nan, nan], &[0.0, 0.0]);
        check(Polarity::Least, &[7.0], &[1.0]);
        check(Polarity::Most, &[f64::MAX, 0.0, f64::MIN], &[1.0, 0.5, 0.0]);
        check(Polarity::Most, &[], &[]);
    }

    #[test]
    fn outliers_are_drawn_in() {
        check(Polarity::Least, &[91.0, 333.0, 4534.67], &[1.0, 0.75, 0.0]);
        // Median 7.5, median deviation 5: 100 counts as 22.5.
        check(
            Polarity::Most,
            &[100.0, 10.0, 5.0, 0.0],
            &[1.0, 0.444, 0.222, 0.0],
        );
        // The median deviation is 0: nothing is drawn in.
        check(
            Polarity::Most,
            &[100.0, 50.0, 0.0, 0.0, 0.0],
            &[1.0, 0.5, 0.0, 0.0, 0.0],
        );
        check(Polarity::Most, &[9.0, 1.0, 1.0, 1.0], &[1.0, 0.0, 0.0, 0.0]);
        // Exactly half are equal: the deviation is not 0, 40 counts as 12.5.
        check(
            Polarity::Most,
            &[0.0, 0.0, 5.0, 40.0],
            &[0.0, 0.0, 0.5, 1.0],
        );
    }
}
