//! All figures of a run.

mod gateway;
mod setting;

use std::collections::BTreeMap;

use serde::Serialize;

use super::super::drive::Drive;
use super::super::expect::{Measured, Verdict};
use super::super::record::{Record, Times, Tokens};
use super::super::scenario::Scenario;
use super::super::watch::Sample;
use super::series::{self, Bar, Series};
use gateway::GatewayRow;
use setting::Setting;

#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    pub(super) scenario: Setting,
    pub(crate) passed: bool,
    pub(super) limits: Vec<Verdict>,
    pub(super) requests: u64,
    pub(super) warm_up_requests: u64,
    pub(super) errors: u64,
    pub(super) failures: Vec<FailureRow>,
    pub(super) requests_per_second: f64,
    pub(super) output_tokens_per_second: f64,
    pub(super) connections: u64,
    pub(super) client_most_open: u64,
    /// Of prompt tokens, as the engines tell.
    pub(super) hit_rate: Option<f64>,
    pub(super) milliseconds: BTreeMap<&'static str, Percentiles>,
    pub(super) classes: Vec<ClassRow>,
    pub(super) pods: Vec<PodRow>,
    pub(super) gateway: GatewayRow,
    pub(super) distributions: Distributions,
    pub(super) series: AllSeries,
}

#[derive(Debug, Serialize)]
pub(super) struct FailureRow {
    pub(super) kind: String,
    pub(super) count: u64,
    pub(super) example: String,
}

/// Milliseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Percentiles {
    pub(super) count: u64,
    pub(super) mean: f64,
    pub(super) p50: f64,
    pub(super) p90: f64,
    pub(super) p99: f64,
    #[serde(rename = "p99.9")]
    pub(super) p999: f64,
    pub(super) max: f64,
}

#[derive(Debug, Serialize)]
pub(super) struct ClassRow {
    pub(super) class: String,
    pub(super) requests: u64,
    pub(super) prompt_tokens_mean: f64,
    pub(super) hit_rate: Option<f64>,
    pub(super) first_token: Percentiles,
    pub(super) total: Percentiles,
}

#[derive(Debug, Serialize)]
pub(super) struct PodRow {
    pub(super) pod: String,
    pub(super) requests: u64,
    pub(super) prompt_tokens: u64,
    pub(super) hit_rate: Option<f64>,
    pub(super) most_open: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct Distributions {
    pub(super) first_token: Vec<Bar>,
    pub(super) between_tokens: Vec<Bar>,
}

#[derive(Debug, Serialize)]
pub(super) struct AllSeries {
    pub(super) hit_rate: Series,
    pub(super) load_per_pod: BTreeMap<String, Series>,
    pub(super) in_flight: BTreeMap<&'static str, Series>,
    pub(super) gateway_rss_mib: Series,
}

pub(crate) fn summarize(
    scenario: &Scenario,
    name: &str,
    drive: &Drive,
    samples: &[Sample],
    connections: u64,
) -> Summary {
    let record = drive.record();
    let gateway = GatewayRow::new(scenario, samples);
    let errors = record.errors();
    let limits = scenario.expect.judge(&Measured {
        errors,
        requests: record.requests,
        hit_rate: record.tokens.hit_rate(),
        rss_max_mib: gateway.rss_max_mib,
        rss_growth_mib: gateway.rss_growth_mib,
        in_flight_peak: gateway.in_flight_peak,
        in_flight_end: gateway.in_flight_end,
    });
    let seconds = (scenario.duration - scenario.warm_up).as_secs_f64();
    Summary {
        scenario: Setting::new(scenario, name),
        passed: limits.iter().all(|verdict| verdict.kept),
        limits,
        requests: record.requests,
        warm_up_requests: record.warm_up_requests,
        errors,
        failures: failures(&record),
        requests_per_second: record.requests as f64 / seconds,
        output_tokens_per_second: record.tokens.output as f64 / seconds,
        connections,
        client_most_open: drive.most_open(),
        hit_rate: record.tokens.hit_rate(),
        milliseconds: BTreeMap::from([
            ("first_token", Percentiles::of(&record.first_token)),
            ("between_tokens", Percentiles::of(&record.between)),
            ("total", Percentiles::of(&record.total)),
            ("client_lateness", Percentiles::of(&record.lateness)),
        ]),
        classes: classes(scenario, &record),
        pods: pods(&record),
        gateway,
        distributions: Distributions {
            first_token: series::bars(&record.first_token),
            between_tokens: series::bars(&record.between),
        },
        series: all_series(&record, samples),
    }
}

impl Percentiles {
    fn of(times: &Times) -> Self {
        let milliseconds = |microseconds: u64| microseconds as f64 / 1e3;
        let at = |quantile| milliseconds(times.value_at_quantile(quantile));
        Self {
            count: times.len(),
            mean: times.mean() / 1e3,
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: milliseconds(times.max()),
        }
    }
}

fn failures(record: &Record) -> Vec<FailureRow> {
    let rows = record.failures.iter().map(|(kind, failed)| FailureRow {
        kind: kind.to_string(),
        count: failed.count,
        example: failed.example.clone(),
    });
    rows.collect()
}

fn classes(scenario: &Scenario, record: &Record) -> Vec<ClassRow> {
    let rows = scenario.workload.iter().zip(&record.classes);
    rows.map(|(class, seen)| ClassRow {
        class: class.kind.name().to_owned(),
        requests: seen.requests,
        prompt_tokens_mean: seen.tokens.prompt as f64 / seen.requests.max(1) as f64,
        hit_rate: seen.tokens.hit_rate(),
        first_token: Percentiles::of(&seen.first_token),
        total: Percentiles::of(&seen.total),
    })
    .collect()
}

fn pods(record: &Record) -> Vec<PodRow> {
    let rows = record.pods.iter().map(|(name, pod)| PodRow {
        pod: name.clone(),
        requests: pod.requests,
        prompt_tokens: pod.tokens.prompt,
        hit_rate: pod.tokens.hit_rate(),
        most_open: pod.load.open().into_iter().max().unwrap_or(0),
    });
    rows.collect()
}

fn all_series(record: &Record, samples: &[Sample]) -> AllSeries {
    let over_time = |value: &dyn Fn(&Sample) -> Option<f64>| {
        let points = samples
            .iter()
            .filter_map(|sample| Some((sample.at.as_secs_f64(), value(sample)?)));
        series::thin(points.collect())
    };
    let seconds = record.seconds.iter().enumerate();
    let hit_rate = seconds.filter_map(|(second, tokens): (usize, &Tokens)| {
        Some((second as f64 + 0.5, tokens.hit_rate()?))
    });
    AllSeries {
        hit_rate: series::thin(hit_rate.collect()),
        load_per_pod: record
            .pods
            .iter()
            .map(|(name, pod)| (name.clone(), series::load(&pod.load)))
            .collect(),
        in_flight: BTreeMap::from([
            (
                "clients",
                over_time(&|sample| Some(sample.client_open as f64)),
            ),
            ("gateway", over_time(&|sample| sample.in_flight)),
        ]),
        gateway_rss_mib: over_time(&|sample| sample.rss_mib),
    }
}
