//! The ratios by which Warmgate is judged, each against its bar.

use serde_json::{Value, json};

use super::{Figures, Measure, Report, Test};

struct Ratio {
    what: &'static str,
    rival: &'static str,
    bar: Bar,
    measure: Measure,
    body_kib: usize,
    figure: Figure,
}

enum Bar {
    AtMost(f64),
    AtLeast(f64),
}

enum Figure {
    Cpu,
    CpuPerEvent,
    RequestsPerSecond,
    AddedMedian,
}

const WARMGATE: &str = "warmgate";
const BARE: &str = "bare Pingora";
const CPU: &str = "CPU a request";
const RATE: &str = "requests a second on one core";

#[rustfmt::skip]
const RATIOS: &[Ratio] = &[
    Ratio { what: CPU, rival: BARE, bar: Bar::AtMost(1.10), measure: Measure::Throughput, body_kib: 1, figure: Figure::Cpu },
    Ratio { what: CPU, rival: BARE, bar: Bar::AtMost(1.10), measure: Measure::Throughput, body_kib: 16, figure: Figure::Cpu },
    Ratio { what: CPU, rival: BARE, bar: Bar::AtMost(1.5), measure: Measure::Throughput, body_kib: 256, figure: Figure::Cpu },
    Ratio { what: CPU, rival: BARE, bar: Bar::AtMost(1.8), measure: Measure::Throughput, body_kib: 4096, figure: Figure::Cpu },
    Ratio { what: RATE, rival: "envoy + buffer", bar: Bar::AtLeast(1.5), measure: Measure::Throughput, body_kib: 1, figure: Figure::RequestsPerSecond },
    Ratio { what: RATE, rival: "envoy + buffer", bar: Bar::AtLeast(1.2), measure: Measure::Throughput, body_kib: 16, figure: Figure::RequestsPerSecond },
    Ratio { what: RATE, rival: "sglang-router", bar: Bar::AtLeast(3.0), measure: Measure::Throughput, body_kib: 1, figure: Figure::RequestsPerSecond },
    Ratio { what: RATE, rival: "smg", bar: Bar::AtLeast(3.0), measure: Measure::Throughput, body_kib: 1, figure: Figure::RequestsPerSecond },
    Ratio { what: RATE, rival: "nginx", bar: Bar::AtLeast(0.5), measure: Measure::Throughput, body_kib: 1, figure: Figure::RequestsPerSecond },
    Ratio { what: "added latency p50", rival: "nginx", bar: Bar::AtMost(3.0), measure: Measure::Latency, body_kib: 1, figure: Figure::AddedMedian },
    Ratio { what: "CPU an event relayed", rival: BARE, bar: Bar::AtMost(1.08), measure: Measure::Relay, body_kib: 1, figure: Figure::CpuPerEvent },
    Ratio { what: "CPU an event relayed", rival: "haproxy", bar: Bar::AtMost(2.0), measure: Measure::Relay, body_kib: 1, figure: Figure::CpuPerEvent },
];

pub(super) fn markdown(report: &Report) -> String {
    let mut text =
        "| figure | body KiB | against | ratio | bar | |\n| --- | ---: | --- | ---: | ---: | --- |\n".to_owned();
    for ratio in RATIOS {
        let value = ratio.value(report);
        let (sign, bar) = match ratio.bar {
            Bar::AtMost(bar) => ("<=", bar),
            Bar::AtLeast(bar) => (">=", bar),
        };
        let (shown, verdict) = match value {
            Some(value) if ratio.holds(value) => (format!("{value:.2}"), "holds"),
            Some(value) => (format!("{value:.2}"), "MISSED"),
            None => (String::new(), "not measured"),
        };
        let Ratio {
            what,
            body_kib,
            rival,
            ..
        } = ratio;
        text +=
            &format!("| {what} | {body_kib} | {rival} | {shown} | {sign} {bar} | {verdict} |\n");
    }
    text
}

pub(super) fn json(report: &Report) -> Value {
    let each = RATIOS.iter().map(|ratio| {
        let value = ratio.value(report);
        json!({
            "figure": ratio.what,
            "body_kib": ratio.body_kib,
            "against": ratio.rival,
            "ratio": value,
            "holds": value.map(|value| ratio.holds(value)),
        })
    });
    each.collect()
}

impl Ratio {
    fn value(&self, report: &Report) -> Option<f64> {
        let of = |name: &str| self.of(report, name);
        Some(of(WARMGATE)? / of(self.rival)?)
    }

    fn holds(&self, value: f64) -> bool {
        match self.bar {
            Bar::AtMost(bar) => value <= bar,
            Bar::AtLeast(bar) => value >= bar,
        }
    }

    fn of(&self, report: &Report, name: &str) -> Option<f64> {
        let wanted = |test: &Test| {
            test.measure == self.measure
                && test.shape.body == self.body_kib << 10
                && (test.shape.stream.is_none() || test.measure == Measure::Relay)
        };
        match self.figure {
            Figure::Cpu => report.median(wanted, name, |figures| figures.cpu_us_per_request),
            Figure::CpuPerEvent => report.median(wanted, name, |figures| figures.cpu_us_per_event),
            Figure::RequestsPerSecond => {
                let rate = |figures: &Figures| Some(figures.requests_per_second);
                report.median(wanted, name, rate)
            }
            Figure::AddedMedian => report.added(wanted, name, |figures| figures.p50_us),
        }
    }
}
