//! Bodies and what is read from them. `check` is the one way to ask; the tables are in the children.

mod depth;
mod errors;
mod fields;
mod golden;
mod properties;
mod text;

use super::*;

const WITH_TOOLS: ParseOptions = ParseOptions {
    include_tools: true,
};
const WITHOUT_TOOLS: ParseOptions = ParseOptions {
    include_tools: false,
};

fn read(kind: PathKind, options: &ParseOptions, body: &[u8]) -> Result<String, BodyError> {
    let request = parse(kind, Some("application/json"), body, options)?;
    assert_eq!(request.model, "m");
    let mut text = Vec::new();
    request.prompt.each(|piece| text.extend_from_slice(piece));
    assert_eq!(request.prompt.len(), text.len());
    assert_eq!(request.prompt.is_empty(), text.is_empty());
    Ok(String::from_utf8(text).unwrap())
}

/// Asks for the prompt's text; the model must be `m`.
#[track_caller]
fn check(kind: PathKind, body: impl AsRef<[u8]>, expected: Result<&str, BodyError>) {
    let body = body.as_ref();
    assert_eq!(
        read(kind, &WITH_TOOLS, body),
        expected.map(str::to_owned),
        "{kind:?} {}",
        String::from_utf8_lossy(&body[..body.len().min(300)])
    );
}

/// A chat body with these messages.
fn chat(messages: &str) -> String {
    format!(r#"{{"model":"m","messages":{messages}}}"#)
}

/// A chat body with one message of this content.
fn says(content: &str) -> String {
    chat(&format!(r#"[{{"role":"user","content":{content}}}]"#))
}
