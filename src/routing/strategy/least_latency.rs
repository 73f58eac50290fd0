//! `least-latency`: the pod that is expected to be through with the request first.
//!
//! ```text
//! queue + prefill per token * prompt tokens + decode per token * output tokens
//! ```
//!
//! from the engine's means over the last minute, for this request's prompt and the mean output of the candidates (100
//! tokens if none tells). Where an engine tells no prefill time, the speed counts that the gateway has learned from first
//! bytes. A pod of which neither is known, as one that has just begun, counts as the best of the others, so that it is
//! tried. The reference reads queue and token counts as zeros and so compares mean times of whole requests.

use super::*;

pub(super) const DEFINITION: Definition = Definition {
    name: "least-latency",
    kind: Kind::Scorer,
    blending: Blending::Load,
    needs_prefix: false,
    needs_detail: true,
    build: |_, _| Box::new(LeastLatency),
};

struct LeastLatency;

const USUAL_OUTPUT: f64 = 100.0;

impl Strategy for LeastLatency {
    fn score(&self, request: &Request<'_>, candidates: Candidates<'_>, scores: &mut [f64]) {
        let rows = candidates.rows();
        let prompt = request.prompt_tokens as f64;
        let output = mean(rows, |row| row.figure(|detail| detail.output_tokens));
        let output = output.unwrap_or(USUAL_OUTPUT);
        let decode = |row: &Candidate| row.figure(|detail| detail.decode_seconds_per_token);
        let usual_decode = mean(rows, decode).unwrap_or(0.0);
        for (score, row) in scores.iter_mut().zip(rows) {
            let queue = row.figure(|detail| detail.queue_seconds);
            let decode = known(decode(row)).unwrap_or(usual_decode);
            *score = known(queue).unwrap_or(0.0) + prefill(row) * prompt + decode * output;
        }
        let best = scores.iter().copied().filter(|score| score.is_finite());
        let Some(best) = best.min_by(f64::total_cmp) else {
            return;
        };
        for score in scores.iter_mut().filter(|score| score.is_nan()) {
            *score = best;
        }
    }
}

fn prefill(row: &Candidate) -> f64 {
    let told = known(row.figure(|detail| detail.prefill_seconds_per_token));
    let learned = || known(1.0 / row.load.prefill_rate?);
    told.or_else(learned).unwrap_or(f64::NAN)
}

fn known(figure: f64) -> Option<f64> {
    (figure.is_finite() && figure >= 0.0).then_some(figure)
}

fn mean(rows: &[Candidate], of: impl Fn(&Candidate) -> f64) -> Option<f64> {
    let figures = rows.iter().filter_map(|row| known(of(row)));
    let (sum, count) = figures.fold((0.0, 0.0), |(sum, count), figure| {
        (sum + figure, count + 1.0)
    });
    (count > 0.0).then(|| sum / count)
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;

    const NAN: f64 = f64::NAN;

    /// (queue, prefill and decode per token, output)
    fn table(figures: &[[f64; 4]]) -> Vec<Candidate> {
        let mut table = rows(&vec![0; figures.len()], &[]);
        for (row, figures) in table.iter_mut().zip(figures) {
            let [queue, prefill, decode, output] = figures.map(known);
            row.detail = Some(Arc::new(PodDetail {
                queue_seconds: queue,
                prefill_seconds_per_token: prefill,
                decode_seconds_per_token: decode,
                output_tokens: output,
                ..PodDetail::default()
            }));
        }
        table
    }

    fn check(rows: &[Candidate], prompt_tokens: u64, expected: &[f64]) {
        let request = Request {
            prompt_tokens,
            ..Request::default()
        };
        let found = scores_for(&RoutingSettings::default(), "least-latency", &request, rows);
        assert_close(&found, expected);
    }

    #[test]
    fn adds_queue_prefill_and_decode_of_this_request() {
        let two = table(&[[1.0, 0.001, 0.02, 300.0], [0.0, 0.002, 0.04, 100.0]]);
        check(&two, 1000, &[1.0 + 1.0 + 4.0, 2.0 + 8.0]);
        check(&two, 0, &[5.0, 8.0]);
        let no_output = table(&[[NAN, 0.001, 0.02, NAN], [NAN, 0.001, NAN, NAN]]);
        check(&no_output, 1000, &[3.0, 3.0]);
    }

    #[test]
    fn what_the_engine_does_not_tell_is_learned_or_taken_for_good() {
        let mut rows = table(&[[0.0, 0.002, 0.0, NAN], [NAN; 4], [NAN; 4]]);
        rows[1].load.prefill_rate = Some(1000.0);
        check(&rows, 1000, &[2.0, 1.0, 1.0]);
        rows[1].detail = None;
        rows[2].load.prefill_rate = Some(0.0);
        check(&rows, 1000, &[2.0, 1.0, 1.0]);
        check(&table(&[[NAN; 4], [1.0, NAN, 1.0, 1.0]]), 1000, &[NAN, NAN]);
    }
}
