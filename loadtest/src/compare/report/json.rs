//! The report for other programs.

use serde_json::{Value, json};

use super::{Figure, Report, Table, ratios};

/// The medians over the rounds, by key.
const MEDIANS: [(&str, Figure); 11] = [
    ("requests_per_second", Figure::RequestsPerSecond),
    ("requests_per_core", Figure::RequestsPerCore),
    ("events_per_second", Figure::EventsPerSecond),
    ("busy_percent", Figure::BusyPercent),
    ("cpu_us_per_request", Figure::CpuPerRequest),
    ("cpu_us_per_event", Figure::CpuPerEvent),
    ("p50_us", Figure::MedianTime),
    ("added_p50_us", Figure::AddedMedian),
    ("added_p99_us", Figure::Added99),
    ("added_p999_us", Figure::Added999),
    ("memory_mib", Figure::Memory),
];

impl Report {
    pub(in super::super) fn json(&self) -> Value {
        let measurements: Vec<Value> = self.tables.iter().flat_map(Table::json).collect();
        json!({
            "setting": self.setting,
            "balancers": self.balancers,
            "measurements": measurements,
            "ratios": ratios::json(self),
            "skipped": self.skipped,
            "failed": self.failures,
        })
    }
}

impl Table {
    fn json(&self) -> Vec<Value> {
        let rows = self.rows.iter().map(|row| {
            let median = |(key, figure): (&str, Figure)| {
                (key.to_owned(), json!(self.median(row.balancer, figure)))
            };
            json!({
                "test": self.test.title(),
                "body_kib": self.test.shape.body >> 10,
                "streamed": self.test.shape.stream.is_some(),
                "connections": self.test.connections,
                "rate": self.test.rate,
                "balancer": row.balancer,
                "median": Value::Object(MEDIANS.map(median).into_iter().collect()),
                "rounds": row.rounds,
            })
        });
        rows.collect()
    }
}
