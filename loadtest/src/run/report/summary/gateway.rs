//! The gateway as its process and its metrics show it.

use serde::Serialize;

use super::super::super::scenario::Scenario;
use super::super::super::watch::Sample;

/// What the gateway's process and its metrics say; `None`: not to be seen from here.
#[derive(Debug, Default, Serialize)]
pub(in super::super) struct GatewayRow {
    pub(in super::super) rss_min_mib: Option<f64>,
    pub(in super::super) rss_max_mib: Option<f64>,
    pub(in super::super) rss_end_mib: Option<f64>,
    pub(in super::super) rss_first_third_mib: Option<f64>,
    pub(in super::super) rss_last_third_mib: Option<f64>,
    pub(in super::super) rss_growth_mib: Option<f64>,
    pub(in super::super) in_flight_start: Option<f64>,
    pub(in super::super) in_flight_peak: Option<f64>,
    pub(in super::super) in_flight_end: Option<f64>,
    pub(in super::super) index_blocks_end: Option<f64>,
    pub(in super::super) index_evictions: Option<f64>,
}

impl GatewayRow {
    pub(super) fn new(scenario: &Scenario, samples: &[Sample]) -> Self {
        let during: Vec<&Sample> = samples
            .iter()
            .filter(|sample| sample.at >= scenario.warm_up && sample.at <= scenario.duration)
            .collect();
        let third = (scenario.duration - scenario.warm_up) / 3;
        let (early, late) = (scenario.warm_up + third, scenario.duration - third);
        let rss = |sample: &&Sample| sample.rss_mib;
        let mean_where = |wanted: &dyn Fn(&Sample) -> bool| {
            let chosen = during.iter().filter(|sample| wanted(sample));
            mean(chosen.filter_map(|sample| sample.rss_mib))
        };
        let first_third = mean_where(&|sample| sample.at <= early);
        let last_third = mean_where(&|sample| sample.at >= late);
        let first = samples.first();
        let last = samples.last();
        let evictions = |sample: Option<&Sample>| sample?.index_evictions;
        Self {
            rss_min_mib: during.iter().filter_map(rss).reduce(f64::min),
            // The kernel's own mark misses no peak between two looks.
            rss_max_mib: last.and_then(|sample| sample.rss_peak_mib),
            rss_end_mib: last.and_then(|sample| sample.rss_mib),
            rss_first_third_mib: first_third,
            rss_last_third_mib: last_third,
            rss_growth_mib: last_third
                .zip(first_third)
                .map(|(last, first)| last - first),
            in_flight_start: first.and_then(|sample| sample.in_flight),
            in_flight_peak: samples
                .iter()
                .filter_map(|sample| sample.in_flight)
                .reduce(f64::max),
            in_flight_end: last.and_then(|sample| sample.in_flight),
            index_blocks_end: last.and_then(|sample| sample.index_blocks),
            index_evictions: evictions(last)
                .zip(evictions(first))
                .map(|(last, first)| last - first),
        }
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0_u32), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}
