//! One measurement, and what is read from it.

use std::time::Duration;

use serde::Serialize;

use super::Table;
use crate::compare::load::Seen;
use crate::compare::target::DIRECT;

/// One measurement of one balancer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(in super::super) struct Figures {
    pub(super) requests_per_second: f64,
    pub(super) events_per_second: f64,
    /// CPU time by the time that passed.
    pub(super) busy: Option<f64>,
    pub(super) cpu_us_per_request: Option<f64>,
    pub(super) cpu_us_per_event: Option<f64>,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    pub(super) p999_us: f64,
    pub(super) memory_mib: Option<f64>,
}

impl Figures {
    pub(in super::super) fn new(seen: &Seen, cpu: Option<Duration>, memory: Option<u64>) -> Self {
        let seconds = seen.elapsed.as_secs_f64();
        let share = |count: u64| {
            let cpu = cpu.filter(|_| count > 0)?;
            Some(cpu.as_secs_f64() * 1e6 / count as f64)
        };
        let quantile = |quantile| seen.latency.value_at_quantile(quantile) as f64;
        Self {
            requests_per_second: seen.requests as f64 / seconds,
            events_per_second: seen.events as f64 / seconds,
            busy: cpu.map(|cpu| cpu.as_secs_f64() / seconds),
            cpu_us_per_request: share(seen.requests),
            cpu_us_per_event: share(seen.events),
            p50_us: quantile(0.5),
            p99_us: quantile(0.99),
            p999_us: quantile(0.999),
            memory_mib: memory.map(|bytes| bytes as f64 / f64::from(1 << 20)),
        }
    }
}

/// A figure by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Figure {
    RequestsPerSecond,
    /// By the share of its core that was busy: what the core would do if load and engines, on the other, kept up.
    RequestsPerCore,
    EventsPerSecond,
    BusyPercent,
    CpuPerRequest,
    CpuPerEvent,
    MedianTime,
    /// What the balancer adds to the direct call's time at the same percentile in the same round.
    AddedMedian,
    Added99,
    Added999,
    Memory,
}

impl Figure {
    pub(super) fn of(self, table: &Table, balancer: &str, round: usize) -> Option<f64> {
        let own = table.figures(balancer, round)?;
        let added = |time: fn(&Figures) -> f64| {
            let direct = table.figures(DIRECT, round)?;
            Some(time(own) - time(direct))
        };
        match self {
            Self::RequestsPerSecond => Some(own.requests_per_second),
            Self::RequestsPerCore => {
                let busy = own.busy.filter(|busy| *busy > 0.0)?;
                Some(own.requests_per_second / busy)
            }
            Self::EventsPerSecond => Some(own.events_per_second),
            Self::BusyPercent => own.busy.map(|busy| busy * 100.0),
            Self::CpuPerRequest => own.cpu_us_per_request,
            Self::CpuPerEvent => own.cpu_us_per_event,
            Self::MedianTime => Some(own.p50_us),
            Self::AddedMedian => added(|figures| figures.p50_us),
            Self::Added99 => added(|figures| figures.p99_us),
            Self::Added999 => added(|figures| figures.p999_us),
            Self::Memory => own.memory_mib,
        }
    }
}
