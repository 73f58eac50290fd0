//! The report as one HTML file that needs nothing else.

use anyhow::Result;

use super::markdown::{Table, setting, tables, verdict};
use super::plots::{self, Axis};
use super::summary::Summary;

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222;background:#fff}\
table{border-collapse:collapse;margin:.5rem 0 1.5rem}th,td{padding:.2rem .7rem;border-bottom:1px solid #ddd;text-align:right}\
th:first-child,td:first-child{text-align:left}.setting td{text-align:left}.good{color:#17692f}.bad{color:#b3261e}svg{max-width:100%;height:auto}";

pub(super) fn document(summary: &Summary) -> Result<String> {
    let name = escaped(&summary.scenario.name);
    let class = if summary.passed { "good" } else { "bad" };
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Load test: {name}</title><style>{STYLE}</style></head><body>\n\
         <h1>Load test: {name}</h1>\n<p>{}</p>\n<p class=\"{class}\"><strong>{}</strong></p>\n<table class=\"setting\">\n",
        escaped(&summary.scenario.about),
        verdict(summary),
    );
    for (name, value) in setting(summary) {
        page += &format!("<tr><td>{name}</td><td>{}</td></tr>\n", escaped(&value));
    }
    page += "</table>\n";
    for table in tables(summary) {
        page += &html(&table);
    }
    for (title, plot) in all_plots(summary)? {
        page += &format!("<h2>{title}</h2>\n{plot}\n");
    }
    Ok(page + "</body></html>\n")
}

fn all_plots(summary: &Summary) -> Result<Vec<(&'static str, String)>> {
    let series = &summary.series;
    let mut plots = Vec::new();
    for (title, bars) in [
        (
            "Time to the first token",
            &summary.distributions.first_token,
        ),
        ("Time between tokens", &summary.distributions.between_tokens),
    ] {
        if !bars.is_empty() {
            plots.push((title, plots::distribution(bars)?));
        }
    }
    let one = |name: &str, points: &super::series::Series| vec![(name.to_owned(), points.clone())];
    if !series.hit_rate.is_empty() {
        let percent = series.hit_rate.iter().map(|&(at, rate)| (at, rate * 100.0));
        let lines = one("hit rate", &percent.collect());
        plots.push((
            "Hit rate over time (% of prompt tokens)",
            plots::lines(&lines, Axis::Percent)?,
        ));
    }
    let load: Vec<_> = series.load_per_pod.clone().into_iter().collect();
    if !load.is_empty() {
        plots.push((
            "Open requests per pod over time",
            plots::lines(&load, Axis::FromZero)?,
        ));
    }
    let in_flight: Vec<_> = series
        .in_flight
        .iter()
        .filter(|(_, points)| !points.is_empty())
        .map(|(name, points)| ((*name).to_owned(), points.clone()))
        .collect();
    plots.push((
        "Requests in flight, as clients and gateway count",
        plots::lines(&in_flight, Axis::FromZero)?,
    ));
    if !series.gateway_rss_mib.is_empty() {
        let lines = one("RSS", &series.gateway_rss_mib);
        plots.push((
            "Memory of the gateway over time (RSS, MiB)",
            plots::lines(&lines, Axis::FromZero)?,
        ));
    }
    Ok(plots)
}

fn html(table: &Table) -> String {
    let cells = |row: &[String], tag: &str| {
        let cells = row
            .iter()
            .map(|cell| format!("<{tag}>{}</{tag}>", escaped(cell)));
        format!("<tr>{}</tr>\n", cells.collect::<String>())
    };
    let rows = table.rows.iter().map(|row| cells(row, "td"));
    format!(
        "<h2>{}</h2>\n<table>\n{}{}</table>\n",
        table.title,
        cells(&table.head, "th"),
        rows.collect::<String>()
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
