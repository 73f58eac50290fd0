//! Tools as text: canonical JSON, so that key order and white space do not matter.

use serde_json::Value;

use super::prompt::Prompt;
use super::text;

/// The tools' text: nothing for what is no array or an empty one.
pub(super) fn push<'a>(raw: &'a str, prompt: &mut Prompt<'a>) {
    if !raw.starts_with('[') || raw[1..].trim_start().starts_with(']') {
        return;
    }
    push_json(raw, prompt);
}

/// A string's text, or any other value canonically.
pub(super) fn push_canonical<'a>(raw: &'a str, prompt: &mut Prompt<'a>) {
    match text::string(raw) {
        Some(text) => prompt.push_text(text),
        None => push_json(raw, prompt),
    }
}

/// What is nested too deep to be put in order stands as it was sent.
fn push_json<'a>(raw: &'a str, prompt: &mut Prompt<'a>) {
    match serde_json::from_str::<Value>(raw) {
        Ok(value) => prompt.push(value.to_string().into_bytes()),
        Err(_) => prompt.push(raw.as_bytes()),
    }
}
