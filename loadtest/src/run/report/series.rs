//! Numbers ready to be drawn: bounded, whatever the length of the run.

use serde::Serialize;

use super::super::record::Times;
use super::super::record::load::{Load, TICK};

/// Seconds from the start, and a value.
pub(super) type Series = Vec<(f64, f64)>;

/// How many values lie between two bounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Bar {
    pub(super) from_ms: f64,
    pub(super) to_ms: f64,
    pub(super) count: u64,
}

const MOST_POINTS: usize = 600;
const BARS_A_DECADE: f64 = 12.0;

/// Bars of equal width on a logarithmic axis, from the least value to the greatest.
pub(super) fn bars(times: &Times) -> Vec<Bar> {
    let bound = |bar: i64| 10_f64.powf(bar as f64 / BARS_A_DECADE) / 1e3;
    let mut bars: Vec<Bar> = Vec::new();
    let mut first = None;
    for step in times.iter_recorded() {
        let value = step.value_iterated_to().max(1) as f64;
        let number = (value.log10() * BARS_A_DECADE).floor() as i64;
        let first = *first.get_or_insert(number);
        // The steps come in order, so the place is never before the first.
        let place = usize::try_from(number - first).unwrap_or(0);
        while bars.len() <= place {
            let next = first + bars.len() as i64;
            bars.push(Bar {
                from_ms: bound(next),
                to_ms: bound(next + 1),
                count: 0,
            });
        }
        bars[place].count += step.count_since_last_iteration();
    }
    bars
}

pub(super) fn load(load: &Load) -> Series {
    let open = load.open().into_iter().enumerate();
    thin(
        open.map(|(tick, open)| (tick as f64 * TICK.as_secs_f64(), open as f64))
            .collect(),
    )
}

/// At most so many points: of neighbours the highest value stays, so that no peak is lost.
pub(super) fn thin(points: Series) -> Series {
    let size = points.len().div_ceil(MOST_POINTS).max(1);
    let highest = |group: &[(f64, f64)]| {
        group
            .iter()
            .copied()
            .reduce(|a, b| if b.1 > a.1 { b } else { a })
    };
    points.chunks(size).filter_map(highest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_hold_every_value_once_and_grow_by_a_constant_factor() {
        let mut times = Times::new(3).unwrap();
        for value in [10, 11, 1_000, 100_000] {
            times.record(value).unwrap();
        }
        let bars = bars(&times);
        assert_eq!(bars.iter().map(|bar| bar.count).sum::<u64>(), 4);
        assert!(bars[0].from_ms <= 0.010 && bars[0].to_ms > 0.010);
        let last = bars.last().unwrap();
        assert!(last.from_ms <= 100.1 && last.to_ms > 100.0);
        assert!(bars.windows(2).all(|pair| pair[0].to_ms == pair[1].from_ms));
    }

    #[test]
    fn thinning_keeps_the_peak() {
        let mut points: Series = (0..10_000).map(|at| (at as f64, 1.0)).collect();
        points[4_321].1 = 9.0;
        let thinned = thin(points);
        assert!(thinned.len() <= MOST_POINTS);
        assert!(thinned.contains(&(4_321.0, 9.0)));
    }
}
