//! What the comparison found: a table of everything, and the ratios that matter with the bar of each.

mod ratios;

use std::fmt::Write;
use std::time::Duration;

use serde::Serialize;

use super::load::Seen;
use super::{DIRECT, Measure, Test};

/// One measurement of one balancer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Figures {
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
    pub(super) fn new(seen: &Seen, cpu: Option<Duration>, memory: Option<u64>) -> Self {
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

#[derive(Default)]
pub(super) struct Report {
    tests: Vec<(Test, Vec<Row>)>,
    skipped: Vec<(&'static str, String)>,
    failed: Vec<String>,
}

struct Row {
    balancer: &'static str,
    rounds: Vec<Figures>,
}

impl Report {
    pub(super) fn add(&mut self, test: Test, balancer: &'static str, figures: Figures) {
        let place = match self.tests.iter().position(|(known, _)| *known == test) {
            Some(place) => place,
            None => {
                self.tests.push((test, Vec::new()));
                self.tests.len() - 1
            }
        };
        let rows = &mut self.tests[place].1;
        match rows.iter_mut().find(|row| row.balancer == balancer) {
            Some(row) => row.rounds.push(figures),
            None => rows.push(Row {
                balancer,
                rounds: vec![figures],
            }),
        }
    }

    pub(super) fn skipped(&mut self, balancer: &'static str, why: String) {
        self.skipped.push((balancer, why));
    }

    pub(super) fn failed(&mut self, test: Test, balancer: &str, why: String) {
        self.failed
            .push(format!("{balancer}, {}: {why}", title(&test)));
    }

    /// The median of one figure of a balancer.
    fn median(
        &self,
        wanted: impl Fn(&Test) -> bool,
        balancer: &str,
        figure: impl Fn(&Figures) -> Option<f64>,
    ) -> Option<f64> {
        let (_, rows) = self.tests.iter().find(|(test, _)| wanted(test))?;
        let row = rows.iter().find(|row| row.balancer == balancer)?;
        median(row.rounds.iter().filter_map(figure).collect())
    }

    /// As `median`, less what the direct call took in the same round.
    fn added(
        &self,
        wanted: impl Fn(&Test) -> bool,
        balancer: &str,
        figure: fn(&Figures) -> f64,
    ) -> Option<f64> {
        let (_, rows) = self.tests.iter().find(|(test, _)| wanted(test))?;
        let find = |name: &str| rows.iter().find(|row| row.balancer == name);
        let pairs = find(balancer)?.rounds.iter().zip(&find(DIRECT)?.rounds);
        median(
            pairs
                .map(|(own, direct)| figure(own) - figure(direct))
                .collect(),
        )
    }

    pub(super) fn markdown(&self) -> String {
        let mut text = String::new();
        for (test, rows) in &self.tests {
            text += &format!("\n### {}\n\n", title(test));
            text += match test.measure {
                Measure::Throughput => {
                    "| balancer | requests/s | core busy | CPU us/request | memory MiB |\n| --- | ---: | ---: | ---: | ---: |\n"
                }
                Measure::Latency => {
                    "| balancer | p50 us | added p50 | added p99 | added p99.9 | CPU us/request |\n| --- | ---: | ---: | ---: | ---: | ---: |\n"
                }
                Measure::Relay => {
                    "| balancer | events/s | core busy | CPU us/event | memory MiB |\n| --- | ---: | ---: | ---: | ---: |\n"
                }
            };
            for row in rows {
                self.row(&mut text, test, row.balancer);
            }
        }
        text += "\n### Ratios\n\n";
        text += &ratios::markdown(self);
        for (name, why) in &self.skipped {
            text += &format!("\nNot compared: {name}: {why}\n");
        }
        for failure in &self.failed {
            text += &format!("\nFailed: {failure}\n");
        }
        text
    }

    fn row(&self, text: &mut String, test: &Test, name: &'static str) {
        let same = |other: &Test| other == test;
        let of = |figure: fn(&Figures) -> Option<f64>| self.median(same, name, figure);
        let added = |figure: fn(&Figures) -> f64| self.added(same, name, figure);
        let busy = of(|figures| figures.busy.map(|busy| busy * 100.0));
        let cells = match test.measure {
            Measure::Throughput => vec![
                number(of(|figures| Some(figures.requests_per_second)), 0),
                percent(busy),
                number(of(|figures| figures.cpu_us_per_request), 1),
                number(of(|figures| figures.memory_mib), 0),
            ],
            Measure::Latency => vec![
                number(of(|figures| Some(figures.p50_us)), 0),
                number(added(|figures| figures.p50_us), 0),
                number(added(|figures| figures.p99_us), 0),
                number(added(|figures| figures.p999_us), 0),
                number(of(|figures| figures.cpu_us_per_request), 1),
            ],
            Measure::Relay => vec![
                number(of(|figures| Some(figures.events_per_second)), 0),
                percent(busy),
                number(of(|figures| figures.cpu_us_per_event), 2),
                number(of(|figures| figures.memory_mib), 0),
            ],
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| {name} | {} |", cells.join(" | "));
    }

    pub(super) fn json(&self) -> serde_json::Value {
        let rows = self.tests.iter().flat_map(|(test, rows)| {
            rows.iter().map(|row| {
                serde_json::json!({
                    "test": title(test),
                    "body": test.shape.body,
                    "streamed": test.shape.stream.is_some(),
                    "rate": test.rate,
                    "balancer": row.balancer,
                    "rounds": row.rounds,
                })
            })
        });
        serde_json::json!({
            "measurements": rows.collect::<Vec<_>>(),
            "ratios": ratios::json(self),
            "skipped": self.skipped,
            "failed": self.failed,
        })
    }
}

fn title(test: &Test) -> String {
    let size = test.shape.body >> 10;
    let streamed = test.shape.stream.map_or(String::new(), |events| {
        format!(", answers of {events} events")
    });
    match (test.measure, test.rate) {
        (Measure::Throughput, _) => format!("Throughput, bodies of {size} KiB{streamed}"),
        (Measure::Latency, rate) => format!(
            "Latency at {} requests/s, bodies of {size} KiB{streamed}",
            rate.unwrap_or_default()
        ),
        (Measure::Relay, _) => format!(
            "Relay, {} streams, an event each {} ms",
            test.connections, test.shape.pause_ms
        ),
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    Some((values[last / 2] + values[last.div_ceil(2)]) / 2.0)
}

fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or("".to_owned(), |value| format!("{value:.digits$}"))
}

fn percent(value: Option<f64>) -> String {
    value.map_or("".to_owned(), |value| format!("{value:.0} %"))
}
