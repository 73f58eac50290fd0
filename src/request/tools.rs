//! Tools as text: canonical JSON, so that key order and white space do not matter.

use super::canonical::canonical;
use super::prompt::Prompt;
use super::text;

/// The tools' text: nothing for what is no array or an empty one.
pub(super) fn push<'a>(raw: &'a str, prompt: &mut Prompt<'a>) {
    if !raw.starts_with('[') || raw[1..].trim_start().starts_with(']') {
        return;
    }
    prompt.push(canonical(raw));
}

/// A string's text, or any other value canonically.
pub(super) fn push_canonical<'a>(raw: &'a str, prompt: &mut Prompt<'a>) {
    match text::string(raw) {
        Some(text) => prompt.push_text(text),
        None => prompt.push(canonical(raw)),
    }
}
