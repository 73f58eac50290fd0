//! Tools as text: canonical JSON, so that key order and white space do not matter.

use crate::json::Raw;

use super::canonical::canonical;
use super::prompt::Prompt;

/// The tools' text: nothing for what is no array or an empty one.
pub(super) fn push<'a>(raw: Raw<'a>, prompt: &mut Prompt<'a>) {
    match raw.bytes.strip_prefix(b"[") {
        Some(rest) if !rest.trim_ascii_start().starts_with(b"]") => prompt.push(canonical(raw)),
        _ => {}
    }
}

/// A string's text, or any other value canonically.
pub(super) fn push_canonical<'a>(raw: Raw<'a>, prompt: &mut Prompt<'a>) {
    match raw.text() {
        Some(text) => prompt.push_text(text),
        None => prompt.push(canonical(raw)),
    }
}
