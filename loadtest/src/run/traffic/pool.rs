//! Texts that conversations share, the popular ones more often.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use rand::Rng;
use rand_distr::{Distribution, Zipf};
use serde_json::json;
use serde_json::value::RawValue;

use super::super::scenario::workload::{Kind, Shared};
use super::text::words;

pub(super) struct Pool {
    texts: Vec<Arc<str>>,
    /// Of agents: the tools that belong to each text.
    tools: Vec<Arc<RawValue>>,
    popularity: Zipf<f64>,
}

/// All shared texts of a class are kept in memory.
const MOST_TOKENS: usize = 1 << 28;

impl Pool {
    pub(super) fn new(shared: &Shared, kind: &Kind, random: &mut impl Rng) -> Result<Self> {
        let mut texts = Vec::with_capacity(shared.count);
        let mut tools = Vec::new();
        let mut all = 0;
        for _ in 0..shared.count {
            let tokens = shared.tokens.count(random);
            all += tokens;
            if all > MOST_TOKENS {
                bail!(
                    "workload: the {} shared texts of {} have more than {MOST_TOKENS} tokens together; use fewer or shorter ones",
                    shared.count,
                    kind.name()
                );
            }
            texts.push(words(tokens, random).into());
            if let Kind::Agents(agents) = kind {
                let definitions: Vec<_> = (0..agents.tools)
                    .map(|number| tool(number, agents.tool_tokens.count(random), random))
                    .collect();
                tools.push(serde_json::value::to_raw_value(&definitions)?.into());
            }
        }
        Ok(Self {
            texts,
            tools,
            popularity: Zipf::new(shared.count as f64, shared.zipf)
                .with_context(|| format!("zipf: {}", shared.zipf))?,
        })
    }

    /// Which text a conversation takes, from 0.
    pub(super) fn choose(&self, random: &mut impl Rng) -> usize {
        let rank = self.popularity.sample(random) as usize;
        rank.clamp(1, self.texts.len()) - 1
    }

    pub(super) fn text(&self, at: usize) -> Arc<str> {
        Arc::clone(&self.texts[at])
    }

    pub(super) fn tools(&self, at: usize) -> Option<Arc<RawValue>> {
        self.tools.get(at).map(Arc::clone)
    }
}

pub(super) fn tool_name(number: usize) -> String {
    format!("tool_{number}")
}

fn tool(number: usize, tokens: usize, random: &mut impl Rng) -> serde_json::Value {
    json!({"type": "function", "function": {
        "name": tool_name(number), "description": words(tokens, random),
        "parameters": {"type": "object", "properties": {"query": {"type": "string"}}},
    }})
}
