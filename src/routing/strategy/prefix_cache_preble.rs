//! `prefix-cache-preble`: the Preble cost model.
//!
//! When a candidate holds more than half of the prompt, the candidates that hold the most of it share its load: the fewest
//! requests of the last minutes wins. Otherwise each candidate's work of the last minutes is weighed, as seconds of prefill
//! and decode on a GPU that was measured, and the least wins.
//!
//! Differences to the reference: who holds what comes from the prefix index, so a prompt that no candidate holds is new
//! even if another pod or another model has seen it; what was computed for a request is what the chosen pod did not hold;
//! prompts are measured in tokens of about four bytes; a prompt belongs to one model, by whose number costs are
//! divided there.

use super::*;
use crate::routing::memory::{Entry, Sent};
use crate::routing::settings::{Gpu, Preble};

pub(super) const DEFINITION: Definition = Definition {
    name: "prefix-cache-preble",
    kind: Kind::Scorer,
    blending: Blending::Load,
    needs_prefix: true,
    needs_detail: false,
    build: |settings, memory| {
        Box::new(PrefixCachePreble {
            settings: settings.preble,
            memory: Arc::clone(memory),
        })
    },
};

struct PrefixCachePreble {
    settings: Preble,
    memory: Arc<Memory>,
}

impl PrefixCachePreble {
    fn window_ms(&self) -> u64 {
        u64::try_from(self.settings.window.as_millis()).unwrap_or(u64::MAX)
    }
}

impl Strategy for PrefixCachePreble {
    fn score(&self, request: &Request<'_>, candidates: Candidates<'_>, scores: &mut [f64]) {
        let rows = candidates.rows();
        let since = request.now_ms.saturating_sub(self.window_ms());
        let mut histogram = self.memory.histogram.lock();
        histogram.age(since, |entry| seconds(&self.settings, entry));
        let deepest = rows.iter().map(|row| row.matched_blocks).max().unwrap_or(0);
        if deepest as usize > request.blocks.total_blocks() / 2 {
            for (score, row) in scores.iter_mut().zip(rows) {
                if row.matched_blocks == deepest {
                    *score = histogram.requests(row.slot) as f64;
                }
            }
            return;
        }
        for (score, row) in scores.iter_mut().zip(rows) {
            *score = histogram.cost(row.slot);
        }
    }

    fn sent(&self, request: &Request<'_>, choice: &Choice) {
        let sent = Sent {
            slot: choice.slot,
            prompt_tokens: request.prompt_tokens,
            uncached_tokens: choice.uncached_tokens.min(request.prompt_tokens),
            at_ms: request.now_ms,
        };
        let mut histogram = self.memory.histogram.lock();
        histogram.note(request.blocks, sent, self.window_ms(), |entry| {
            seconds(&self.settings, entry)
        });
    }
}

/// What an entry's requests cost the pods listed for it.
fn seconds(settings: &Preble, entry: &Entry) -> f64 {
    /// Of an output token.
    const DECODE: f64 = 0.15;
    /// Share of the time that the GPU computes.
    const BUSY: f64 = 0.9;
    let missed = match entry.prompt {
        0 => 1.0,
        prompt => 1.0 - entry.hit as f64 / prompt as f64,
    };
    let one = prefill_seconds(settings.target_gpu, entry.new as f64, entry.context as f64) / BUSY;
    missed * entry.requests as f64 * one + f64::from(settings.decoding_length) * DECODE
}

/// Measured: of so many new tokens at the end of so many.
fn prefill_seconds(gpu: Gpu, new: f64, context: f64) -> f64 {
    // Slower by the same factor in all but the fitted curves' last digits.
    let pick = |a6000: f64, v100: f64| match gpu {
        Gpu::A6000 => a6000,
        Gpu::V100 => v100,
    };
    let linear = if new >= 384.0 {
        pick(0.108_425_71, 0.271_064_28) * new + pick(4.209_777_054_806_409, 10.524_442_63)
    } else if new >= 192.0 {
        pick(-118.0, -295.0) + pick(1.25, 3.125) * new - pick(0.002_56, 0.0064) * new * new
    } else {
        pick(22.0, 55.0)
    };
    let attention = if context <= 1024.0 {
        pick(0.32, 0.80)
    } else {
        let whole = pick(0.000_186, 0.000_465) * context + pick(0.159, 0.398);
        let alone = if new == 0.0 { context } else { new };
        if alone <= 1024.0 { whole / 2.0 } else { whole }
    };
    let quadratic = if new >= 4096.0 {
        pick(-7.37, -18.425)
            + pick(0.003_86, 0.009_65) * new
            + pick(0.000_002_16, 0.000_005_4) * new * new
    } else {
        0.0
    };
    (linear + attention + quadratic) / 1000.0
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;

    #[test]
    fn prefill_times_are_those_of_the_reference() {
        let check = |gpu, new, context, expected: f64| {
            let found = prefill_seconds(gpu, new, context);
            assert!((found - expected).abs() < 1e-8, "{new} {context}: {found}");
        };
        check(Gpu::A6000, 100.0, 100.0, 0.02232);
        check(Gpu::A6000, 200.0, 200.0, 0.02992);
        check(Gpu::A6000, 1000.0, 3000.0, 0.112_993_987);
        check(Gpu::A6000, 5000.0, 6000.0, 0.613_543_327);
        check(Gpu::V100, 100.0, 100.0, 0.0558);
        check(Gpu::V100, 1000.0, 3000.0, 0.282_485_223);
        check(Gpu::V100, 5000.0, 6000.0, 1.533_858_843);
    }

    struct Case {
        memory: Arc<Memory>,
        strategy: Box<dyn Strategy>,
    }

    impl Case {
        fn new() -> Self {
            let memory = Arc::new(Memory::new(1));
            let settings = RoutingSettings::default();
            Self {
                strategy: (DEFINITION.build)(&settings, &memory),
                memory,
            }
        }

        fn scores(&self, matched: &[u32], now_ms: u64) -> Vec<f64> {
            let (blocks, mut scores) = (ten_blocks(), Vec::new());
            let request = Request {
                blocks: &blocks,
                prompt_tokens: 1000,
                now_ms,
                ..Request::default()
            };
            let table = rows(&vec![0; matched.len()], matched);
            let candidates = Candidates::new(&table).unwrap();
            fill_scores(&*self.strategy, &request, candidates, &mut scores);
            scores
        }

        fn send(&self, slot: u16, uncached_tokens: u64) {
            let blocks = ten_blocks();
            let request = Request {
                blocks: &blocks,
                prompt_tokens: 1000,
                ..Request::default()
            };
            let choice = Choice {
                uncached_tokens,
                ..choice(PodSlot(slot))
            };
            self.strategy.sent(&request, &choice);
        }
    }

    #[test]
    fn more_than_half_held_is_shared_by_the_deepest_and_less_goes_by_cost() {
        let case = Case::new();
        assert_close(&case.scores(&[0, 10, 10], 0), &[f64::NAN, 0.0, 0.0]);
        assert_close(&case.scores(&[0, 5, 4], 0), &[0.0; 3]);
        case.send(1, 1000);
        assert_close(&case.scores(&[0, 10, 10], 0), &[f64::NAN, 1.0, 0.0]);
        assert_close(&case.scores(&[0, 6, 5], 0), &[f64::NAN, 1.0, f64::NAN]);
        let one = prefill_seconds(Gpu::V100, 1000.0, 1000.0) / 0.9;
        assert_close(&case.scores(&[0, 5, 4], 0), &[0.0, one + 45.0 * 0.15, 0.0]);
        // All of it held this time: on the average half was missed.
        case.send(2, 0);
        let both = 0.5 * 2.0 * one + 45.0 * 0.15;
        assert_close(&case.scores(&[0, 5, 4], 0), &[0.0, both, both]);
        assert_close(&case.scores(&[0, 0, 0], 180_001), &[0.0; 3]);
    }

    #[test]
    fn scoring_changes_nothing_and_an_empty_prompt_is_nothing_to_remember() {
        let case = Case::new();
        let before = case.scores(&[1, 0], 0);
        assert_close(&case.scores(&[1, 0], 0), &before);
        case.strategy.sent(&Request::default(), &choice(PodSlot(0)));
        assert_eq!(case.memory.histogram.lock().requests(PodSlot(0)), 0);
        assert_eq!(alone("prefix-cache-preble", &rows(&[0, 0], &[])), [0, 1]);
    }
}
