//! The ratios by which Warmgate is judged, each against its bar.

use serde_json::{Value, json};

use super::{Figure, Report, Table, median};
use crate::compare::balancer::{BARE, WARMGATE};
use crate::compare::plan::{Measure, Test};

struct Ratio {
    what: &'static str,
    rival: &'static str,
    bar: Bar,
    measure: Measure,
    body_kib: usize,
    figure: Figure,
}

/// What must hold, and what is aimed at.
#[derive(Clone, Copy)]
enum Bar {
    AtMost(f64, f64),
    AtLeast(f64, f64),
}

const CPU: &str = "CPU a request";
const RATE: &str = "requests a second on one core";
const EVENT: &str = "CPU an event relayed";

#[rustfmt::skip]
const RATIOS: &[Ratio] = &[
    Ratio { what: CPU, rival: BARE, bar: Bar::AtMost(1.10, 1.0), measure: Measure::Throughput, body_kib: 1, figure: Figure::CpuPerRequest },
    Ratio { what: CPU, rival: BARE, bar: Bar::AtMost(1.10, 1.0), measure: Measure::Throughput, body_kib: 16, figure: Figure::CpuPerRequest },
    Ratio { what: CPU, rival: BARE, bar: Bar::AtMost(1.5, 1.2), measure: Measure::Throughput, body_kib: 256, figure: Figure::CpuPerRequest },
    Ratio { what: CPU, rival: BARE, bar: Bar::AtMost(1.8, 1.2), measure: Measure::Throughput, body_kib: 4096, figure: Figure::CpuPerRequest },
    Ratio { what: RATE, rival: "envoy", bar: Bar::AtLeast(1.5, 2.0), measure: Measure::Throughput, body_kib: 1, figure: Figure::RequestsPerCore },
    Ratio { what: RATE, rival: "envoy", bar: Bar::AtLeast(1.2, 2.0), measure: Measure::Throughput, body_kib: 16, figure: Figure::RequestsPerCore },
    Ratio { what: RATE, rival: "sglang-router", bar: Bar::AtLeast(3.0, 5.0), measure: Measure::Throughput, body_kib: 1, figure: Figure::RequestsPerCore },
    Ratio { what: RATE, rival: "smg", bar: Bar::AtLeast(3.0, 5.0), measure: Measure::Throughput, body_kib: 1, figure: Figure::RequestsPerCore },
    Ratio { what: RATE, rival: "nginx", bar: Bar::AtLeast(0.5, 0.8), measure: Measure::Throughput, body_kib: 1, figure: Figure::RequestsPerCore },
    Ratio { what: "added latency p50", rival: "nginx", bar: Bar::AtMost(3.0, 1.5), measure: Measure::Latency, body_kib: 1, figure: Figure::AddedMedian },
    Ratio { what: EVENT, rival: BARE, bar: Bar::AtMost(1.08, 1.0), measure: Measure::Relay, body_kib: 1, figure: Figure::CpuPerEvent },
    Ratio { what: EVENT, rival: "haproxy", bar: Bar::AtMost(2.0, 1.2), measure: Measure::Relay, body_kib: 1, figure: Figure::CpuPerEvent },
];

pub(super) fn markdown(report: &Report) -> String {
    let mut text = "Warmgate's figure by the other's in the same round; the median of these, and the lowest and highest.\n\n\
         | figure | body KiB | against | ratio | rounds | bar | aim | |\n\
         | --- | ---: | --- | ---: | ---: | ---: | ---: | --- |\n"
        .to_owned();
    for ratio in RATIOS {
        let rounds = ratio.rounds(report);
        let range = match (rounds.first(), rounds.last()) {
            (Some(lowest), Some(highest)) => format!("{lowest:.2} to {highest:.2}"),
            _ => String::new(),
        };
        let value = median(rounds);
        let (sign, bar, aim) = ratio.bar.parts();
        let Ratio {
            what,
            body_kib,
            rival,
            ..
        } = ratio;
        text += &format!(
            "| {what} | {body_kib} | {rival} | {} | {range} | {sign} {bar} | {sign} {aim} | {} |\n",
            value.map_or(String::new(), |value| format!("{value:.2}")),
            ratio.bar.verdict(value),
        );
    }
    text
}

pub(super) fn json(report: &Report) -> Value {
    let each = RATIOS.iter().map(|ratio| {
        let rounds = ratio.rounds(report);
        let value = median(rounds.clone());
        let (sign, bar, aim) = ratio.bar.parts();
        json!({
            "figure": ratio.what,
            "body_kib": ratio.body_kib,
            "against": ratio.rival,
            "ratio": value,
            "rounds": rounds,
            "bar": format!("{sign} {bar}"),
            "aim": format!("{sign} {aim}"),
            "verdict": ratio.bar.verdict(value),
        })
    });
    each.collect()
}

impl Ratio {
    /// The ratio of each round in which both were measured, lowest first.
    fn rounds(&self, report: &Report) -> Vec<f64> {
        let wanted = |table: &&Table| self.is_of(&table.test);
        let Some(table) = report.tables.iter().find(wanted) else {
            return Vec::new();
        };
        let ratio = |round| {
            let of = |name| self.figure.of(table, name, round);
            // What adds no time that can be measured cannot be compared with.
            let rival = of(self.rival).filter(|rival| *rival > 0.0)?;
            Some(of(WARMGATE)? / rival)
        };
        let mut ratios: Vec<f64> = table.rounds().filter_map(ratio).collect();
        ratios.sort_by(f64::total_cmp);
        ratios
    }

    fn is_of(&self, test: &Test) -> bool {
        test.measure == self.measure
            && test.shape.body == self.body_kib << 10
            && (test.shape.stream.is_none() || test.measure == Measure::Relay)
    }
}

impl Bar {
    fn parts(self) -> (&'static str, f64, f64) {
        match self {
            Self::AtMost(bar, aim) => ("<=", bar, aim),
            Self::AtLeast(bar, aim) => (">=", bar, aim),
        }
    }

    fn verdict(self, value: Option<f64>) -> &'static str {
        let Some(value) = value else {
            return "not measured";
        };
        let keeps = |limit: f64| match self {
            Self::AtMost(..) => value <= limit,
            Self::AtLeast(..) => value >= limit,
        };
        let (_, bar, aim) = self.parts();
        if keeps(aim) {
            "holds, aim reached"
        } else if keeps(bar) {
            "holds"
        } else {
            "MISSED"
        }
    }
}
