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
    buffer: &mut Vec<i64>,
) {
    let Some((low, high)) = range(scores, buffer) else {
        return;
    };
    // Halved before subtracting: the width between two huge scores may not be a finite number.
    let slope = share / (high / 2.0 - low / 2.0);
    let (worst, slope) = match polarity {
        Polarity::Most => (low / 2.0, slope),
        Polarity::Least => (high / 2.0, -slope),
    };
    for (total, score) in totals.iter_mut().zip(scores) {
        if !score.is_finite() {
            continue;
        }
        *total += if low == high {
            share
        } else {
            (score.clamp(low, high) / 2.0 - worst) * slope
        };
    }
}

/// The normalised score of each row, for showing.
pub(super) fn each(scores: &[f64], polarity: Polarity) -> Vec<f64> {
    let mut totals = vec![0.0; scores.len()];
    add(scores, polarity, 1.0, &mut totals, &mut Vec::new());
    totals
}

/// Worst and best of the finite scores, outliers drawn in.
fn range(scores: &[f64], buffer: &mut Vec<i64>) -> Option<(f64, f64)> {
    let finite = scores.iter().copied().filter(|score| score.is_finite());
    buffer.clear();
    buffer.extend(finite.map(ordered));
    let (least, most) = (*buffer.iter().min()?, *buffer.iter().max()?);
    let (low, high) = (from_ordered(least), from_ordered(most));
    // A value that more than half have is the median, and the median deviation is 0: most pods
    // match nothing or are idle, and two medians need not be searched to find that out.
    let prevails =
        |value| buffer.iter().filter(|&&other| other == value).count() * 2 > buffer.len();
    if buffer.len() < 3 || prevails(least) || prevails(most) {
        return Some((low, high));
    }
    let median = median(buffer);
    for value in buffer.iter_mut() {
        *value = ordered((from_ordered(*value) - median).abs());
    }
    let reach = 3.0 * self::median(buffer);
    if reach == 0.0 {
        return Some((low, high));
    }
    Some((low.max(median - reach), high.min(median + reach)))
}

/// Mean of the two middle values when there is an even number of them.
fn median(values: &mut [i64]) -> f64 {
    let middle = values.len() / 2;
    let odd = values.len() % 2 == 1;
    let (before, &mut upper, _) = values.select_nth_unstable(middle);
    if odd {
        return from_ordered(upper);
    }
    let lower = before.iter().copied().max().unwrap_or(upper);
    from_ordered(lower) / 2.0 + from_ordered(upper) / 2.0
}

/// A whole number that is ordered as the score is: selecting among those is several times faster.
fn ordered(score: f64) -> i64 {
    // Zeros of both signs are one score.
    let bits = (score + 0.0).to_bits() as i64;
    bits ^ ((bits >> 63) as u64 >> 1) as i64
}

fn from_ordered(ordered: i64) -> f64 {
    f64::from_bits((ordered ^ ((ordered >> 63) as u64 >> 1) as i64) as u64)
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
