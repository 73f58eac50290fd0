//! `lmetric`: new prefill tokens times batch, the least product.
//!
//! Tokens that wait for prefill on the pod and those of this request that it has not cached, times the requests it would
//! then run. A product needs no weights between the two: whichever is small on a pod speaks for it. Alone it goes round the
//! load-imbalance gate. Not in the reference.

use super::*;

pub(super) const DEFINITION: Definition = Definition {
    name: "lmetric",
    kind: Kind::Scorer,
    blending: Blending::Complete,
    needs_prefix: true,
    needs_detail: false,
    build: |_, _| Box::new(Lmetric),
};

struct Lmetric;

impl Strategy for Lmetric {
    fn score(&self, request: &Request<'_>, candidates: Candidates<'_>, scores: &mut [f64]) {
        for (score, row) in scores.iter_mut().zip(candidates.rows()) {
            let uncached = request.uncached_tokens(row.matched_blocks) as f64;
            let tokens = row.load.pending_prefill as f64 + uncached;
            *score = tokens * (f64::from(row.load.in_flight) + 1.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;

    #[test]
    fn multiplies_tokens_by_batch() {
        let mut table = rows(&[0, 3, 1], &[0, 10, 5]);
        table[2].load.pending_prefill = 2000;
        let blocks = ten_blocks();
        let request = Request {
            blocks: &blocks,
            prompt_tokens: 1000,
            ..Request::default()
        };
        let found = scores_for(&RoutingSettings::default(), "lmetric", &request, &table);
        assert_close(&found, &[1000.0, 4.0, 5000.0]);
    }
}
