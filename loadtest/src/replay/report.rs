//! The figures for people and for programs.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::figures::Figures;

/// Figures and how fast they were had, in requests a second of real time.
pub(super) type Row = (Figures, f64);

pub(super) fn table(rows: &[Row]) -> String {
    let longest = rows.iter().map(|(row, _)| row.strategy.len()).max();
    let width = longest.unwrap_or(0).max("strategy".len());
    let mut table = format!(
        "{:<width$} {:>9} {:>8} {:>9} {:>9}  {:>9} {:>9}  {:>6} {:>9}  {:>7}  {:>9}  {:>9}\n",
        "strategy",
        "TTFT mean",
        "p50",
        "p90",
        "p99",
        "E2E mean",
        "p99",
        "hits",
        "saved",
        "prefill",
        "imbalance",
        "replayed",
    );
    // Writing to a string cannot fail.
    for (row, speed) in rows {
        let _ = writeln!(
            table,
            "{:<width$} {:>9} {:>8} {:>9} {:>9}  {:>9} {:>9}  {:>5.1}% {:>8.1}M  {:>6.1}%  {:>9.2}  {:>7.0}/s",
            row.strategy,
            seconds(row.ttft_ms.mean),
            seconds(row.ttft_ms.p50),
            seconds(row.ttft_ms.p90),
            seconds(row.ttft_ms.p99),
            seconds(row.end_to_end_ms.mean),
            seconds(row.end_to_end_ms.p99),
            row.hit_rate * 100.0,
            row.saved_tokens as f64 / 1e6,
            row.prefill_share * 100.0,
            row.imbalance,
            speed,
        );
    }
    for (row, _) in rows.iter().filter(|(row, _)| row.run != row.strategy) {
        let _ = writeln!(table, "{} runs as {}", row.strategy, row.run);
    }
    table
}

fn seconds(ms: f64) -> String {
    format!("{:.3}s", ms / 1e3)
}

/// `setting`: what the figures were had with.
pub(super) fn json(setting: Value, rows: &[Row]) -> Value {
    let row = |(row, speed): &Row| json!({ "figures": row, "replayed_per_second": speed });
    json!({ "setting": setting, "strategies": rows.iter().map(row).collect::<Vec<_>>() })
}
