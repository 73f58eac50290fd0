//! `least-gpu-cache`: the pod whose KV cache on the GPU is the emptiest.
//!
//! Engines have renamed the figure that the reference reads, and vLLM has it no more; it is read here under all its names.

use super::*;

pub(super) const DEFINITION: Definition = Definition {
    name: "least-gpu-cache",
    kind: Kind::Scorer,
    blending: Blending::Load,
    needs_prefix: false,
    needs_detail: false,
    build: |_, _| Box::new(LeastGpuCache),
};

struct LeastGpuCache;

impl Strategy for LeastGpuCache {
    fn score(&self, _: &Request<'_>, candidates: Candidates<'_>, scores: &mut [f64]) {
        for (score, row) in scores.iter_mut().zip(candidates.rows()) {
            *score = row.load.kv_usage.unwrap_or(f64::NAN);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;

    #[test]
    fn takes_the_emptiest() {
        let mut table = rows(&[0; 3], &[]);
        table[0].load.kv_usage = Some(0.5);
        table[2].load.kv_usage = Some(0.4);
        check_scores("least-gpu-cache", &table, &[0.5, f64::NAN, 0.4]);
        assert_eq!(alone("least-gpu-cache", &table), [2]);
    }
}
