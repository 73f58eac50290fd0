//! Reads a request body: its model, its prompt's text, how it wants the answer.
//!
//! Pure: bytes in, values out. Text is borrowed from the body wherever it needs no unescaping, and the body is
//! walked once. Nothing that a client wrote can end up in an error message but the names of keys.
//!
//! Deliberately not here: whether the model exists, and any change to the body. The text has no roles, names or calls of
//! tools within messages, as the reference's has not: prompts that differ in nothing else count as equal.

mod body;
mod canonical;
pub mod coding;
mod error;
mod multipart;
mod path;
mod prompt;
mod text;
mod tools;

use std::borrow::Cow;

pub use error::BodyError;
pub use path::{PathKind, model_in_path};
pub use prompt::Prompt;

/// What routing needs to know of a request.
#[derive(Debug, PartialEq)]
pub struct InferenceRequest<'a> {
    pub model: Cow<'a, str>,
    pub prompt: Prompt<'a>,
    pub stream: bool,
    pub max_tokens: Option<u64>,
    /// Keeps a client's blocks apart from all others, in the engine and in the index.
    pub cache_salt: Option<Cow<'a, str>>,
}

#[derive(Clone, Copy, Debug)]
pub struct ParseOptions {
    /// Tools are part of the prompt's text.
    pub include_tools: bool,
}

/// Reads the body of a request for a path of this kind.
pub fn parse<'a>(
    kind: PathKind,
    content_type: Option<&str>,
    body: &'a [u8],
    options: &ParseOptions,
) -> Result<InferenceRequest<'a>, BodyError> {
    let media_type = media_type(content_type);
    if kind.is_multipart() {
        let model = multipart::model(content_type.unwrap_or_default(), body)?;
        return Ok(InferenceRequest {
            model,
            prompt: Prompt::default(),
            stream: false,
            max_tokens: None,
            cache_salt: None,
        });
    }
    // A form on a path that takes JSON is told so. But many a client (curl for one) sends JSON under a form's name.
    match body::parse(kind, body, options) {
        Err(BodyError::NotJson(_) | BodyError::NotAnObject(_))
            if matches!(
                media_type.as_str(),
                "multipart/form-data" | "application/x-www-form-urlencoded"
            ) =>
        {
            Err(BodyError::ContentType {
                given: media_type,
                expected: "application/json",
            })
        }
        parsed => parsed,
    }
}

/// The model that a JSON body of unknown form names.
pub fn peek_model(body: &[u8]) -> Option<String> {
    let [model] = text::fields(body, ["model"])?;
    Some(model?.text()?.to_str().into_owned())
}

fn media_type(content_type: Option<&str>) -> String {
    let value = content_type.unwrap_or_default();
    let end = value.find(';').unwrap_or(value.len());
    value[..end].trim().to_ascii_lowercase()
}

#[cfg(test)]
mod tests;
