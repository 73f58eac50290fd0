//! The report as text.

use super::{Figure, Report, Table, ratios};
use crate::compare::plan::Measure;

struct Column {
    title: &'static str,
    figure: Figure,
    digits: usize,
}

const fn column(title: &'static str, figure: Figure, digits: usize) -> Column {
    Column {
        title,
        figure,
        digits,
    }
}

fn columns(measure: Measure) -> &'static [Column] {
    const THROUGHPUT: &[Column] = &[
        column("requests/s", Figure::RequestsPerSecond, 0),
        column("core busy %", Figure::BusyPercent, 0),
        column("requests/s a full core", Figure::RequestsPerCore, 0),
        column("CPU us/request", Figure::CpuPerRequest, 1),
        column("memory MiB", Figure::Memory, 0),
    ];
    const LATENCY: &[Column] = &[
        column("requests/s", Figure::RequestsPerSecond, 0),
        column("p50 us", Figure::MedianTime, 0),
        column("added p50", Figure::AddedMedian, 0),
        column("added p99", Figure::Added99, 0),
        column("added p99.9", Figure::Added999, 0),
        column("CPU us/request", Figure::CpuPerRequest, 1),
    ];
    const RELAY: &[Column] = &[
        column("events/s", Figure::EventsPerSecond, 0),
        column("core busy %", Figure::BusyPercent, 0),
        column("CPU us/event", Figure::CpuPerEvent, 2),
        column("memory MiB", Figure::Memory, 0),
    ];
    match measure {
        Measure::Throughput => THROUGHPUT,
        Measure::Latency => LATENCY,
        Measure::Relay => RELAY,
    }
}

impl Report {
    pub(in super::super) fn markdown(&self) -> String {
        let setting = &self.setting;
        let mut text = format!(
            "Balancers on core {}, load and {} engines on core {}. Each figure is the median of {} rounds of {} s.\n\n",
            setting.cores.balancer,
            setting.engines,
            setting.cores.load,
            setting.rounds,
            setting.seconds,
        );
        text += "| balancer | set up | version |\n| --- | --- | --- |\n";
        for balancer in &self.balancers {
            text += &format!(
                "| {} | {} | {} |\n",
                balancer.name, balancer.about, balancer.version
            );
        }
        for table in &self.tables {
            text += &table.markdown();
        }
        text += "\n### Ratios\n\n";
        text += &ratios::markdown(self);
        for skipped in &self.skipped {
            text += &format!("\nNot compared: {}: {}\n", skipped.balancer, skipped.why);
        }
        for failure in &self.failures {
            text += &format!(
                "\nFailed: {}, {}, in {} of {} rounds: {}\n",
                failure.balancer, failure.test, failure.rounds, setting.rounds, failure.why
            );
        }
        text
    }
}

impl Table {
    fn markdown(&self) -> String {
        let columns = columns(self.test.measure);
        let titles: Vec<&str> = columns.iter().map(|column| column.title).collect();
        let mut text = format!(
            "\n### {}\n\n| balancer | {} |\n| --- |{}\n",
            self.test.title(),
            titles.join(" | "),
            " ---: |".repeat(columns.len())
        );
        for row in &self.rows {
            let cells = columns.iter().map(|column| {
                let value = self.median(row.balancer, column.figure);
                value.map_or(String::new(), |value| format!("{value:.*}", column.digits))
            });
            let cells: Vec<String> = cells.collect();
            text += &format!("| {} | {} |\n", row.balancer, cells.join(" | "));
        }
        text
    }
}
