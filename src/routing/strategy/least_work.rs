//! `least-work`: the pod whose first token is expected first.
//!
//! ```text
//! (prompt tokens that wait there + those of this request that it has not cached + decodes) / prefill speed
//! ```
//!
//! All of it is the gateway's own knowledge: requests whose answer has not begun, the prefix index, and the speed learned
//! from times to first bytes; a pod without one has the mean of the others. Warm and idle pods are weighed in one unit,
//! tokens to compute, so there are no weights to set. Alone it goes round the load-imbalance gate, which would throw a warm
//! pod away by counting requests. Not in the reference.

use super::*;

pub(super) const DEFINITION: Definition = Definition {
    name: "least-work",
    kind: Kind::Scorer,
    blending: Blending::Complete,
    needs_prefix: true,
    needs_detail: false,
    build: |_, _| Box::new(LeastWork),
};

/// What a running decode delays a prefill by, as prompt tokens: a decode takes a step's memory traffic, not its arithmetic.
const DECODE_TOKENS: f64 = 16.0;

struct LeastWork;

impl Strategy for LeastWork {
    fn score(&self, request: &Request<'_>, candidates: Candidates<'_>, scores: &mut [f64]) {
        let rows = candidates.rows();
        let speeds = rows.iter().filter_map(|row| speed(&row.load));
        let (sum, pods) = speeds.fold((0.0, 0.0), |(sum, pods), speed| (sum + speed, pods + 1.0));
        let usual = if pods > 0.0 { sum / pods } else { 1.0 };
        for (score, row) in scores.iter_mut().zip(rows) {
            let load = &row.load;
            let decodes = load.in_flight.saturating_sub(load.prefilling);
            let tokens = load.pending_prefill as f64
                + request.uncached_tokens(row.matched_blocks) as f64
                + DECODE_TOKENS * f64::from(decodes);
            *score = tokens / speed(load).unwrap_or(usual);
        }
    }
}

fn speed(load: &Load) -> Option<f64> {
    load.prefill_rate
        .filter(|rate| rate.is_finite() && *rate > 0.0)
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;

    /// (running, prefilling, pending tokens, speed, matched of 10 blocks)
    fn table(pods: &[(u32, u32, u64, f64, u32)]) -> Vec<Candidate> {
        let mut table = rows(&vec![0; pods.len()], &[]);
        for (row, &(in_flight, prefilling, pending_prefill, speed, matched)) in
            table.iter_mut().zip(pods)
        {
            row.load = Load {
                in_flight,
                prefilling,
                pending_prefill,
                prefill_rate: (speed != 0.0).then_some(speed),
                ..Load::default()
            };
            row.matched_blocks = matched;
        }
        table
    }

    fn check(pods: &[(u32, u32, u64, f64, u32)], expected: &[f64]) {
        let blocks = ten_blocks();
        let request = Request {
            blocks: &blocks,
            prompt_tokens: 1000,
            ..Request::default()
        };
        let settings = RoutingSettings::default();
        assert_close(
            &scores_for(&settings, "least-work", &request, &table(pods)),
            expected,
        );
    }

    #[test]
    fn weighs_what_waits_what_is_missing_and_what_runs() {
        check(&[(0, 0, 0, 0.0, 0), (0, 0, 0, 0.0, 5)], &[1000.0, 500.0]);
        check(
            &[(0, 0, 0, 500.0, 0), (2, 2, 3000, 1000.0, 10)],
            &[2.0, 3.001],
        );
        check(
            &[(10, 0, 0, 1000.0, 10), (0, 0, 0, 0.0, 10)],
            &[0.161, 0.001],
        );
        check(&[(1, 9, 0, f64::NAN, 10), (0, 0, 0, -1.0, 10)], &[1.0, 1.0]);
    }
}
