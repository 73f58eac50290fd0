//! From a request body to what the engine computes: how many tokens, which blocks.

use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::engine::Job;

/// Four bytes of text are a token.
pub(super) const TOKEN_BYTES: usize = 4;
const DEFAULT_OUTPUT: usize = 16;
/// Nobody gets more: an answer that never ends would hold up an engine without time.
const MOST_OUTPUT: u64 = 1 << 20;

/// Engines are written in Python, whose JSON reader takes half a surrogate pair.
pub(super) fn read_json(body: &[u8]) -> serde_json::Result<Value> {
    serde_json::from_slice(body).or_else(|error| match std::str::from_utf8(body) {
        Ok(text) if text.contains("\\u") => serde_json::from_str(&without_surrogates(text)),
        _ => Err(error),
    })
}

fn without_surrogates(text: &str) -> String {
    let mut parts = text.split("\\u");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_surrogate = matches!(
            part.as_bytes(),
            [
                b'd' | b'D',
                b'8' | b'9' | b'a'..=b'f' | b'A'..=b'F',
                _,
                _,
                ..,
            ]
        );
        out.push_str("\\u");
        match part.get(4..) {
            Some(rest) if is_surrogate => {
                out.push_str("fffd");
                out.push_str(rest);
            }
            _ => out.push_str(part),
        }
    }
    out
}

/// What a request asks for.
pub(super) struct Wanted {
    pub(super) model: String,
    pub(super) stream: bool,
    pub(super) include_usage: bool,
    pub(super) job: Job,
}

impl Wanted {
    /// `None`: the body names no model.
    pub(super) fn read(body: &Value, block_tokens: usize) -> Option<Self> {
        let model = body["model"].as_str()?.to_owned();
        let limit = ["max_tokens", "max_completion_tokens", "max_output_tokens"];
        let output = limit.iter().find_map(|key| body[*key].as_u64());
        let salt = body["cache_salt"].as_str().unwrap_or_default();
        let mut text = format!("{model}\0{salt}\0");
        for key in [
            "tools",
            "system",
            "instructions",
            "messages",
            "prompt",
            "input",
            "query",
            "documents",
            "text_1",
            "text_2",
        ] {
            append(&body[key], &mut text);
        }
        let prompt_tokens = (text.len() / TOKEN_BYTES).max(1);
        Some(Self {
            stream: body["stream"].as_bool().unwrap_or(false),
            include_usage: body["stream_options"]["include_usage"]
                .as_bool()
                .unwrap_or(false),
            job: Job {
                blocks: blocks(text.as_bytes(), block_tokens),
                prompt_tokens,
                output_tokens: output
                    .map_or(DEFAULT_OUTPUT, |output| output.min(MOST_OUTPUT) as usize),
            },
            model,
        })
    }
}

/// The words of a value, in order, as a chat template would string them together.
fn append(value: &Value, text: &mut String) {
    match value {
        Value::String(word) => {
            text.push_str(word);
            text.push('\n');
        }
        Value::Array(items) => items.iter().for_each(|item| append(item, text)),
        Value::Object(map) => map.values().for_each(|item| append(item, text)),
        Value::Null => {}
        other => text.push_str(&other.to_string()),
    }
}

fn blocks(text: &[u8], block_tokens: usize) -> Vec<u64> {
    let mut parent = 0;
    let full = text.chunks_exact(block_tokens.max(1) * TOKEN_BYTES);
    full.map(|block| {
        parent = xxh3_64_with_seed(block, parent);
        parent
    })
    .collect()
}
