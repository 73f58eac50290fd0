//! `least-kv-cache`: the pod whose KV caches, the GPU's and the host's together, are the emptiest.
//!
//! An engine without a cache in the host's memory has none in use. One that does not tell its KV cache is not scored.

use super::*;

pub(super) const DEFINITION: Definition = Definition {
    name: "least-kv-cache",
    kind: Kind::Scorer,
    blending: Blending::Load,
    needs_prefix: false,
    needs_detail: true,
    build: |_, _| Box::new(LeastKvCache),
};

struct LeastKvCache;

impl Strategy for LeastKvCache {
    fn score(&self, _: &Request<'_>, candidates: Candidates<'_>, scores: &mut [f64]) {
        for (score, row) in scores.iter_mut().zip(candidates.rows()) {
            *score = match row.load.kv_usage {
                Some(usage) => usage + host_cache(row),
                None => f64::NAN,
            };
        }
    }
}

fn host_cache(row: &Candidate) -> f64 {
    let usage = row
        .detail
        .as_ref()
        .and_then(|detail| detail.cpu_cache_usage);
    usage.filter(|usage| !usage.is_nan()).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;

    #[test]
    fn adds_the_caches_of_gpu_and_host() {
        let mut table = detailed(&[0.5, f64::NAN, 0.0, 0.0], |detail, usage| {
            detail.cpu_cache_usage = usage;
        });
        for (row, usage) in table.iter_mut().zip([0.2, 0.6, 0.7]) {
            row.load.kv_usage = Some(usage);
        }
        check_scores("least-kv-cache", &table, &[0.7, 0.6, 0.7, f64::NAN]);
        assert_eq!(alone("least-kv-cache", &table), [1]);
    }
}
