//! The traces of Mooncake: JSON lines of arrival in milliseconds, lengths in tokens, and an id for
//! each 512 tokens of the prompt. Equal ids stand for equal tokens up to there.

use serde::Deserialize;

use super::{Format, Turn, chain};

const BLOCK_TOKENS: usize = 512;

pub(super) struct Mooncake;

#[derive(Deserialize)]
struct Line {
    timestamp: u64,
    input_length: usize,
    output_length: usize,
    hash_ids: Vec<u64>,
}

pub(super) fn is_line(line: &str) -> bool {
    line.starts_with('{') && line.contains("\"hash_ids\"")
}

impl Format for Mooncake {
    fn name(&self) -> &'static str {
        "mooncake"
    }

    fn turn(&mut self, line: &str) -> Result<Option<Turn>, String> {
        let line: Line =
            serde_json::from_str(line).map_err(|error| format!("no Mooncake request: {error}"))?;
        // The last id may stand for a block that is not full; nobody keeps those.
        let full = line.input_length / BLOCK_TOKENS;
        if line.hash_ids.len() < full {
            return Err(format!(
                "{} hash_ids for {} tokens, of which {full} blocks are full",
                line.hash_ids.len(),
                line.input_length
            ));
        }
        Ok(Some(Turn {
            at_us: line.timestamp.saturating_mul(1000),
            prompt_tokens: line.input_length,
            output_tokens: line.output_length,
            blocks: chain(line.hash_ids.into_iter().take(full)),
            ..Turn::default()
        }))
    }

    fn block_tokens(&self) -> usize {
        BLOCK_TOKENS
    }
}
