//! The demo's table.

use std::fmt::Write;
use std::time::Duration;

use super::traffic::Seen;

#[derive(Default)]
pub(super) struct Report {
    rows: Vec<Row>,
}

struct Row {
    strategy: String,
    requests: usize,
    failed: usize,
    median: Duration,
    p95: Duration,
    hit_rate: f64,
    /// Requests of each pod, most first.
    spread: Vec<usize>,
}

impl Report {
    pub(super) fn add(
        &mut self,
        strategy: &str,
        seen: &Seen,
        prompt_tokens: u64,
        cached_tokens: u64,
    ) {
        let mut times = seen.first_event.clone();
        times.sort_unstable();
        let mut spread: Vec<usize> = seen.by_pod.values().copied().collect();
        spread.sort_unstable_by(|a, b| b.cmp(a));
        self.rows.push(Row {
            strategy: strategy.to_owned(),
            requests: times.len(),
            failed: seen.failed,
            median: quantile(&times, 0.5),
            p95: quantile(&times, 0.95),
            hit_rate: cached_tokens as f64 / prompt_tokens.max(1) as f64,
            spread,
        });
    }

    pub(super) fn table(&self, engines: usize) -> String {
        let mut table = format!(
            "\n{:<24} {:>9} {:>7} {:>12} {:>12} {:>10}   requests by pod\n",
            "strategy", "requests", "failed", "TTFT median", "TTFT p95", "hit rate"
        );
        for row in &self.rows {
            let missing = engines.saturating_sub(row.spread.len());
            let spread: Vec<String> = row
                .spread
                .iter()
                .copied()
                .chain(vec![0; missing])
                .map(|n| n.to_string())
                .collect();
            // Writing to a string cannot fail.
            let _ = writeln!(
                table,
                "{:<24} {:>9} {:>7} {:>9.1} ms {:>9.1} ms {:>8.1} %   {}",
                row.strategy,
                row.requests,
                row.failed,
                row.median.as_secs_f64() * 1e3,
                row.p95.as_secs_f64() * 1e3,
                row.hit_rate * 100.0,
                spread.join(" / "),
            );
        }
        table
            + "(TTFT: time to the first token at the client. Hit rate: prompt tokens that the engines found in their KV caches.)\n"
    }
}

fn quantile(sorted: &[Duration], share: f64) -> Duration {
    let last = sorted.len().saturating_sub(1);
    sorted
        .get((last as f64 * share).round() as usize)
        .copied()
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_shows_pods_that_got_nothing() {
        let mut report = Report::default();
        let seen = Seen {
            first_event: (1..=100).map(Duration::from_millis).collect(),
            by_pod: [("a".to_owned(), 100)].into(),
            failed: 0,
        };
        report.add("random", &seen, 1000, 250);
        let table = report.table(3);
        assert!(table.contains("100 / 0 / 0"), "{table}");
        assert!(table.contains("25.0 %"), "{table}");
        assert!(
            table.contains("50.0 ms") || table.contains("51.0 ms"),
            "{table}"
        );
    }
}
