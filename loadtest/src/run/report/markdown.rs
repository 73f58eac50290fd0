//! Text for terminals and Markdown, of the same tables.

use super::summary::{Percentiles, Summary};

/// A table: its head and its rows.
pub(super) struct Table {
    pub(super) title: &'static str,
    pub(super) head: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

const NOTHING: &str = "-";

pub(super) fn number(value: Option<f64>) -> String {
    value.map_or_else(|| NOTHING.to_owned(), |value| format!("{value:.1}"))
}

fn percent(value: Option<f64>) -> String {
    value.map_or_else(
        || NOTHING.to_owned(),
        |value| format!("{:.1} %", value * 100.0),
    )
}

/// Milliseconds, unless there were no times.
fn figure(times: &Percentiles, value: f64) -> String {
    match times.count {
        0 => NOTHING.to_owned(),
        _ if value < 10.0 => format!("{value:.2}"),
        _ => format!("{value:.1}"),
    }
}

fn times(name: &str, times: &Percentiles) -> Vec<String> {
    let all = [
        times.mean, times.p50, times.p90, times.p99, times.p999, times.max,
    ];
    let figures = all.map(|value| figure(times, value));
    [name.to_owned(), times.count.to_string()]
        .into_iter()
        .chain(figures)
        .collect()
}

fn head(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

/// What was run, as pairs.
pub(super) fn setting(summary: &Summary) -> Vec<(&'static str, String)> {
    let setting = &summary.scenario;
    let strategy = setting.strategy.as_deref();
    vec![
        ("target", setting.target.clone()),
        (
            "strategy",
            strategy.unwrap_or("the gateway's own").to_owned(),
        ),
        ("models", setting.models.join(", ")),
        ("arrival", setting.arrival.clone()),
        (
            "answers",
            if setting.stream {
                "streamed"
            } else {
                "in one piece"
            }
            .to_owned(),
        ),
        (
            "time",
            format!(
                "{} s, the first {} s of them not measured",
                setting.duration_seconds, setting.warm_up_seconds
            ),
        ),
        ("seed", setting.seed.to_string()),
        ("cores", setting.cores.to_string()),
        ("times count from", setting.times_count_from.to_owned()),
    ]
}

pub(super) fn tables(summary: &Summary) -> Vec<Table> {
    let mut tables = vec![totals(summary), percentiles(summary), limits(summary)];
    if !summary.failures.is_empty() {
        tables.push(Table {
            title: "Failures",
            head: head(&["kind", "requests", "the first says"]),
            rows: summary
                .failures
                .iter()
                .map(|row| vec![row.kind.clone(), row.count.to_string(), row.example.clone()])
                .collect(),
        });
    }
    tables.extend([classes(summary), pods(summary)]);
    if summary.gateway.in_flight_end.is_some() || summary.gateway.rss_end_mib.is_some() {
        tables.push(gateway(summary));
    }
    tables
}

fn totals(summary: &Summary) -> Table {
    Table {
        title: "Totals",
        head: head(&[
            "requests",
            "errors",
            "requests/s",
            "output tokens/s",
            "hit rate",
            "most open",
            "connections",
        ]),
        rows: vec![vec![
            summary.requests.to_string(),
            summary.errors.to_string(),
            format!("{:.1}", summary.requests_per_second),
            format!("{:.0}", summary.output_tokens_per_second),
            percent(summary.hit_rate),
            summary.client_most_open.to_string(),
            summary.connections.to_string(),
        ]],
    }
}

fn percentiles(summary: &Summary) -> Table {
    let names = [
        ("first token", "first_token"),
        ("between tokens", "between_tokens"),
        ("whole answer", "total"),
        ("client late by", "client_lateness"),
    ];
    let rows = names.iter().filter_map(|(title, key)| {
        let found = summary.milliseconds.get(key)?;
        Some(times(title, found))
    });
    Table {
        title: "Times in ms",
        head: head(&["", "count", "mean", "p50", "p90", "p99", "p99.9", "max"]),
        rows: rows.collect(),
    }
}

fn limits(summary: &Summary) -> Table {
    let rows = summary.limits.iter().map(|verdict| {
        let measured = verdict.measured.map_or_else(
            || "not measured".to_owned(),
            |value| format!("{}", (value * 1e3).round() / 1e3),
        );
        let kept = if verdict.kept { "yes" } else { "NO" };
        vec![verdict.limit.clone(), measured, kept.to_owned()]
    });
    Table {
        title: "Limits",
        head: head(&["limit", "measured", "kept"]),
        rows: rows.collect(),
    }
}

fn classes(summary: &Summary) -> Table {
    let rows = summary.classes.iter().map(|row| {
        let (first, total) = (&row.first_token, &row.total);
        vec![
            row.class.clone(),
            row.requests.to_string(),
            format!("{:.0}", row.prompt_tokens_mean),
            percent(row.hit_rate),
            figure(first, first.p50),
            figure(first, first.p99),
            figure(total, total.p50),
            figure(total, total.p99),
        ]
    });
    Table {
        title: "Classes",
        head: head(&[
            "class",
            "requests",
            "prompt tokens",
            "hit rate",
            "first token p50",
            "p99",
            "whole p50",
            "p99",
        ]),
        rows: rows.collect(),
    }
}

fn pods(summary: &Summary) -> Table {
    let rows = summary.pods.iter().map(|row| {
        vec![
            row.pod.clone(),
            row.requests.to_string(),
            row.prompt_tokens.to_string(),
            percent(row.hit_rate),
            row.most_open.to_string(),
        ]
    });
    Table {
        title: "Pods",
        head: head(&["pod", "requests", "prompt tokens", "hit rate", "most open"]),
        rows: rows.collect(),
    }
}

fn gateway(summary: &Summary) -> Table {
    let row = &summary.gateway;
    let named = [
        ("RSS least (MiB)", row.rss_min_mib),
        ("RSS most (MiB)", row.rss_max_mib),
        ("RSS at the end (MiB)", row.rss_end_mib),
        ("RSS mean of the first third (MiB)", row.rss_first_third_mib),
        ("RSS mean of the last third (MiB)", row.rss_last_third_mib),
        ("in flight at the start", row.in_flight_start),
        ("in flight at the peak", row.in_flight_peak),
        ("in flight at the end", row.in_flight_end),
        ("blocks in the index at the end", row.index_blocks_end),
        ("blocks that left the index", row.index_evictions),
    ];
    Table {
        title: "Gateway",
        head: head(&["figure", "value"]),
        rows: named
            .into_iter()
            .map(|(name, value)| vec![name.to_owned(), number(value)])
            .collect(),
    }
}

/// The summary for a terminal.
pub(crate) fn text(summary: &Summary) -> String {
    let mut text = format!("{}: {}\n", summary.scenario.name, verdict(summary));
    for table in tables(summary) {
        text += &format!("\n{}\n{}", table.title, aligned(&table));
    }
    text + "(Times count from the intended start of each request.)"
}

pub(super) fn verdict(summary: &Summary) -> &'static str {
    if summary.passed {
        "all limits kept"
    } else {
        "LIMITS BROKEN"
    }
}

pub(super) fn document(summary: &Summary) -> String {
    let setting = &summary.scenario;
    let mut text = format!("# Load test: {}\n\n", setting.name);
    if !setting.about.is_empty() {
        text += &format!("{}\n\n", setting.about.trim());
    }
    text += &format!("**{}**\n\n| | |\n| --- | --- |\n", verdict(summary));
    for (name, value) in self::setting(summary) {
        text += &line(&[name.to_owned(), value]);
    }
    for table in tables(summary) {
        text += &format!("\n## {}\n\n", table.title);
        text += &line(&table.head);
        text += &line(&vec!["---".to_owned(); table.head.len()]);
        for row in &table.rows {
            text += &line(row);
        }
    }
    text
}

fn line(cells: &[String]) -> String {
    let cells: Vec<String> = cells
        .iter()
        .map(|cell| cell.replace('|', "\\|").replace(['\n', '\r'], " "))
        .collect();
    format!("| {} |\n", cells.join(" | "))
}

fn aligned(table: &Table) -> String {
    let mut widths: Vec<usize> = table.head.iter().map(|cell| cell.chars().count()).collect();
    for row in &table.rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for row in std::iter::once(&table.head).chain(&table.rows) {
        let cells = row.iter().zip(&widths).enumerate();
        let cells: Vec<String> = cells
            .map(|(column, (cell, &width))| match column {
                0 => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            })
            .collect();
        text += &format!("  {}\n", cells.join("  ").replace('\n', " ").trim_end());
    }
    text
}
