//! What the gateway writes where its configuration names a file under `capture`: JSON lines.
//!
//! Blocks are of bytes there. How many tokens a block is comes from the answers that told the
//! tokens of their prompts; without any, four bytes are one. What else an answer did not tell is
//! taken from its bytes. Left out are requests that no pod got, and those without a prompt.

use serde::{Deserialize, Deserializer, de};
use warmgate::routing::BlockHash;

use super::{Format, Turn};

/// Bytes of a token's text, and of the event that carries a token of a stream.
const TOKEN_BYTES: usize = 4;
const EVENT_BYTES: usize = 200;

#[derive(Default)]
pub(super) struct Capture {
    block_bytes: usize,
    /// Of the prompts whose tokens were told.
    bytes: usize,
    tokens: usize,
}

#[derive(Deserialize)]
struct Line {
    time_ms: u64,
    #[serde(default)]
    session: Option<Hex>,
    #[serde(default)]
    pod: Option<de::IgnoredAny>,
    prompt_bytes: usize,
    #[serde(default)]
    prompt_tokens: Option<usize>,
    output_bytes: usize,
    #[serde(default)]
    output_tokens: Option<usize>,
    stream: bool,
    duration_ms: u64,
    block_bytes: usize,
    blocks: Vec<Hex>,
}

struct Hex(u64);

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <&str>::deserialize(deserializer)?;
        let value = u64::from_str_radix(text, 16);
        let wrong = |_| de::Error::custom(format!("{text:?} is no hash of 16 digits"));
        value.map(Self).map_err(wrong)
    }
}

pub(super) fn is_line(line: &str) -> bool {
    line.starts_with('{') && line.contains("\"block_bytes\"")
}

impl Format for Capture {
    fn name(&self) -> &'static str {
        "capture"
    }

    fn turn(&mut self, line: &str) -> Result<Option<Turn>, String> {
        let line: Line = serde_json::from_str(line)
            .map_err(|error| format!("no request of a capture: {error}"))?;
        if line.pod.is_none() || line.prompt_bytes == 0 {
            return Ok(None);
        }
        if line.block_bytes == 0 {
            return Err("block_bytes is 0".to_owned());
        }
        if self.block_bytes != 0 && self.block_bytes != line.block_bytes {
            return Err(format!(
                "blocks of {} bytes after others of {}: the block size was changed; cut the file here",
                line.block_bytes, self.block_bytes
            ));
        }
        self.block_bytes = line.block_bytes;
        if let Some(tokens) = line.prompt_tokens {
            self.bytes += line.prompt_bytes;
            self.tokens += tokens;
        }
        let token_of_answer = if line.stream {
            EVENT_BYTES
        } else {
            TOKEN_BYTES
        };
        Ok(Some(Turn {
            at_us: line.time_ms.saturating_mul(1000),
            prompt_tokens: line
                .prompt_tokens
                .unwrap_or(line.prompt_bytes / TOKEN_BYTES),
            output_tokens: line
                .output_tokens
                .unwrap_or(line.output_bytes / token_of_answer),
            blocks: line.blocks.iter().map(|hash| BlockHash(hash.0)).collect(),
            took_us: Some(line.duration_ms.saturating_mul(1000)),
            session: line.session.map(|session| session.0),
        }))
    }

    fn block_tokens(&self) -> usize {
        let token_bytes = if self.tokens > 0 {
            self.bytes as f64 / self.tokens as f64
        } else {
            TOKEN_BYTES as f64
        };
        ((self.block_bytes as f64 / token_bytes).round() as usize).max(1)
    }
}
