//! Prompts as users, documents and programs make them.
//!
//! Everything follows from the seed: conversation `n` draws from a stream of its own, so what it says does not depend on
//! when it begins or on what else is under way. Only the answers that a conversation quotes come from outside.

pub(crate) mod arrivals;
mod conversation;
mod pool;
#[cfg(test)]
mod tests;
mod text;

use std::sync::Arc;

use anyhow::Result;
use rand::SeedableRng;
use rand::distr::Distribution;
use rand::distr::weighted::WeightedIndex;
use rand_chacha::ChaCha8Rng;

use super::scenario::Scenario;
use super::scenario::workload::{Class, Kind};
pub(crate) use conversation::{Conversation, Turn};
use pool::Pool;

/// All that conversations are made of.
pub(crate) struct Traffic {
    seed: u64,
    models: Vec<Arc<str>>,
    stream: bool,
    weights: WeightedIndex<f64>,
    classes: Vec<Arc<Ready>>,
}

/// A class with its shared texts.
struct Ready {
    kind: Kind,
    pool: Option<Pool>,
}

/// Streams of the generator: one each for the shared texts, the arrivals and the pauses, then one a conversation.
const POOLS: u64 = 0;
const ARRIVALS: u64 = 1;
const PAUSES: u64 = 2;
const CONVERSATIONS: u64 = 3;

fn generator(seed: u64, stream: u64) -> ChaCha8Rng {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(stream);
    random
}

impl Traffic {
    pub(crate) fn new(scenario: &Scenario) -> Result<Self> {
        let mut random = generator(scenario.seed, POOLS);
        let classes = scenario.workload.iter();
        let classes = classes
            .map(|class: &Class| {
                let shared = class.kind.shared();
                let pool = shared.map(|(_, shared)| Pool::new(shared, &class.kind, &mut random));
                Ok(Arc::new(Ready {
                    kind: class.kind.clone(),
                    pool: pool.transpose()?,
                }))
            })
            .collect::<Result<_>>()?;
        Ok(Self {
            seed: scenario.seed,
            models: scenario
                .models
                .iter()
                .map(|name| name.as_str().into())
                .collect(),
            stream: scenario.stream,
            weights: WeightedIndex::new(scenario.workload.iter().map(|class| class.weight))?,
            classes,
        })
    }

    pub(crate) fn conversation(&self, number: u64) -> Conversation {
        let mut random = generator(self.seed, CONVERSATIONS + number);
        let class = self.weights.sample(&mut random);
        let model = Arc::clone(&self.models[(number % self.models.len() as u64) as usize]);
        Conversation::new(
            class,
            Arc::clone(&self.classes[class]),
            model,
            self.stream,
            random,
        )
    }

    /// Randomness for the times at which conversations begin.
    pub(crate) fn arrivals(&self) -> ChaCha8Rng {
        generator(self.seed, ARRIVALS)
    }

    /// Randomness for the pauses of closed-loop clients.
    pub(crate) fn pauses(&self, client: u64) -> ChaCha8Rng {
        generator(
            self.seed ^ client.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            PAUSES,
        )
    }
}
