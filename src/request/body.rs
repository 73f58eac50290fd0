//! One walk over a JSON body. What is not needed is passed over without being built; neither passing over nor borrowing
//! recurses, so no depth of nesting can exhaust the stack.

use std::borrow::Cow;

use serde::de::IgnoredAny;

use crate::json::{Raw, Walk};

use super::canonical::canonical;
use super::error::BodyError;
use super::path::PathKind;
use super::prompt::Prompt;
use super::{InferenceRequest, ParseOptions, text, tools};

pub(super) fn parse<'a>(
    kind: PathKind,
    body: &'a [u8],
    options: &ParseOptions,
) -> Result<InferenceRequest<'a>, BodyError> {
    if let Some(other) = not_an_object(body) {
        return Err(BodyError::NotAnObject(other));
    }
    let mut fields = Fields::default();
    let mut walk = Walk::new(body);
    let walked = fields.read(kind, &mut walk).and_then(|()| walk.end());
    if fields.model_twice {
        return Err(BodyError::TwoModels);
    }
    walked.ok_or_else(|| BodyError::NotJson(fault(body, walk.no_utf8())))?;
    let model = model(&fields)?;
    let prompt = prompt(kind, &mut fields, options)?;
    Ok(InferenceRequest {
        model,
        prompt,
        stream: fields.stream.is_some_and(|raw| raw.bytes == b"true"),
        max_tokens: fields.max_tokens.and_then(|raw| raw.count()),
        cache_salt: fields
            .cache_salt
            .and_then(|raw| raw.text())
            .map(|text| text.to_str()),
    })
}

/// The top-level values that are needed, as they stand in the body. Of a key that is given twice the last one counts, as
/// for the engines' own readers; only `model` must not be.
#[derive(Default)]
struct Fields<'a> {
    model: Option<Raw<'a>>,
    model_twice: bool,
    messages: Option<Messages<'a>>,
    prompt: Option<Raw<'a>>,
    input: Option<Raw<'a>>,
    system: Option<Raw<'a>>,
    instructions: Option<Raw<'a>>,
    tools: Option<Raw<'a>>,
    query: Option<Raw<'a>>,
    documents: Option<Raw<'a>>,
    stream: Option<Raw<'a>>,
    max_tokens: Option<Raw<'a>>,
    cache_salt: Option<Raw<'a>>,
}

impl<'a> Fields<'a> {
    fn read(&mut self, kind: PathKind, walk: &mut Walk<'a>) -> Option<()> {
        walk.object(|walk, key| {
            let field = match &*key.unescaped() {
                b"messages" if kind.has_messages() => {
                    self.messages = Some(messages(walk)?);
                    return Some(());
                }
                b"model" => {
                    self.model_twice = self.model.is_some();
                    if self.model_twice {
                        return None;
                    }
                    &mut self.model
                }
                b"prompt" => &mut self.prompt,
                b"input" => &mut self.input,
                b"system" => &mut self.system,
                b"instructions" => &mut self.instructions,
                b"tools" => &mut self.tools,
                b"query" => &mut self.query,
                b"documents" => &mut self.documents,
                b"stream" => &mut self.stream,
                b"max_tokens" | b"max_completion_tokens" | b"max_output_tokens" => {
                    &mut self.max_tokens
                }
                b"cache_salt" => &mut self.cache_salt,
                _ => {
                    walk.pass()?;
                    return Some(());
                }
            };
            *field = Some(walk.value()?);
            Some(())
        })
    }
}

/// The messages' text; how many there were.
#[derive(Default)]
struct Messages<'a> {
    text: Prompt<'a>,
    count: usize,
}

/// What is no array has no messages; that is judged when the whole body is known to be JSON.
fn messages<'a>(walk: &mut Walk<'a>) -> Option<Messages<'a>> {
    let mut messages = Messages::default();
    if walk.peek()? != b'[' {
        walk.pass()?;
        return Some(messages);
    }
    walk.array(|walk| {
        let content = content(walk)?;
        if messages.count > 0 {
            messages.text.push(&b" "[..]);
        }
        messages.count += 1;
        if let Some(content) = content {
            text::push_content(content, &mut messages.text);
        }
        Some(())
    })?;
    Some(messages)
}

/// The `content` of one message.
fn content<'a>(walk: &mut Walk<'a>) -> Option<Option<Raw<'a>>> {
    let mut content = None;
    if walk.peek()? != b'{' {
        walk.pass()?;
        return Some(content);
    }
    walk.object(|walk, key| {
        if key.is("content") {
            content = Some(walk.value()?);
        } else {
            walk.pass()?;
        }
        Some(())
    })?;
    Some(content)
}

fn model<'a>(fields: &Fields<'a>) -> Result<Cow<'a, str>, BodyError> {
    let raw = fields.model.ok_or(BodyError::NoModel)?;
    match raw.text() {
        Some(name) if name.len() == 0 => Err(BodyError::BadModel("an empty string")),
        Some(name) => Ok(name.to_str()),
        None => Err(BodyError::BadModel(kind_of(raw))),
    }
}

fn prompt<'a>(
    kind: PathKind,
    fields: &mut Fields<'a>,
    options: &ParseOptions,
) -> Result<Prompt<'a>, BodyError> {
    let mut prompt = Prompt::default();
    match kind {
        PathKind::ChatCompletions => {
            push_tools(fields, options, &mut prompt);
            push_messages(fields, &mut prompt)?;
        }
        PathKind::Messages => {
            push_field(fields.system, &mut prompt, text::push_content);
            push_tools(fields, options, &mut prompt);
            push_messages(fields, &mut prompt)?;
        }
        PathKind::Responses => {
            push_field(fields.instructions, &mut prompt, tools::push_canonical);
            push_tools(fields, options, &mut prompt);
            let input = responses_input(fields.input)?;
            text::push_field(&mut prompt, input);
        }
        PathKind::Completions => push_field(fields.prompt, &mut prompt, text::push_prompt),
        PathKind::Rerank => {
            push_field(fields.query, &mut prompt, text::push_prompt);
            push_field(fields.documents, &mut prompt, text::push_prompt);
        }
        PathKind::Classify | PathKind::Pooling => {
            push_field(fields.input, &mut prompt, text::push_prompt)
        }
        _ => {}
    }
    Ok(prompt)
}

/// Adds a field's text after a blank, unless it is empty.
fn push_field<'a>(
    field: Option<Raw<'a>>,
    prompt: &mut Prompt<'a>,
    push: impl FnOnce(Raw<'a>, &mut Prompt<'a>),
) {
    let mut added = Prompt::default();
    if let Some(raw) = field.filter(|raw| raw.bytes != b"null") {
        push(raw, &mut added);
    }
    text::push_field(prompt, added);
}

fn push_tools<'a>(fields: &Fields<'a>, options: &ParseOptions, prompt: &mut Prompt<'a>) {
    if options.include_tools {
        push_field(fields.tools, prompt, tools::push);
    }
}

fn push_messages<'a>(fields: &mut Fields<'a>, prompt: &mut Prompt<'a>) -> Result<(), BodyError> {
    let messages = fields.messages.take().unwrap_or_default();
    if messages.count == 0 {
        return Err(BodyError::NoMessages);
    }
    text::push_field(prompt, messages.text);
    Ok(())
}

fn responses_input(input: Option<Raw<'_>>) -> Result<Prompt<'_>, BodyError> {
    let raw = input.ok_or(BodyError::NoInput)?;
    if raw.bytes == b"null" {
        return Err(BodyError::NoInput);
    }
    let mut prompt = Prompt::default();
    if raw.text().is_some() {
        text::push_content(raw, &mut prompt);
        return Ok(prompt);
    }
    let items = text::each(raw, |at, item| {
        if at > 0 {
            prompt.push(&b" "[..]);
        }
        push_item(item, &mut prompt);
        Some(())
    });
    match items {
        Some(0) => Err(BodyError::EmptyInput),
        Some(_) => Ok(prompt),
        None => Err(BodyError::BadInput),
    }
}

/// A message by its content; what else there is (calls of functions and their results) in canonical form.
fn push_item<'a>(raw: Raw<'a>, prompt: &mut Prompt<'a>) {
    match text::fields(raw.bytes, ["content"]) {
        Some([Some(content)]) => text::push_content(content, prompt),
        _ => prompt.push(canonical(raw)),
    }
}

/// `None` for what begins like an object, or like nothing that is JSON.
fn not_an_object(body: &[u8]) -> Option<&'static str> {
    let first = body.iter().find(|byte| !byte.is_ascii_whitespace())?;
    match first {
        b'[' => Some("an array"),
        b'"' => Some("a string"),
        b't' | b'f' => Some("a boolean"),
        b'n' => Some("null"),
        b'-' | b'0'..=b'9' => Some("a number"),
        _ => None,
    }
}

fn kind_of(raw: Raw<'_>) -> &'static str {
    not_an_object(raw.bytes).unwrap_or("an object")
}

/// Where and why a body is not JSON, without quotations of it. `serde_json` is asked, which tells the place.
fn fault(body: &[u8], no_utf8: Option<usize>) -> String {
    let (why, line, column) = match (no_utf8, serde_json::from_slice::<IgnoredAny>(body)) {
        (None, Err(error)) => {
            let why = match error.classify() {
                serde_json::error::Category::Eof => "it ends too early",
                _ => "invalid syntax or encoding",
            };
            (why, error.line(), error.column())
        }
        (end, _) => {
            let before = &body[..end.unwrap_or(body.len())];
            let line = memchr::memrchr(b'\n', before).map_or(0, |at| at + 1);
            let lines = memchr::memchr_iter(b'\n', before).count() + 1;
            ("invalid syntax or encoding", lines, before.len() - line)
        }
    };
    format!("{why} at line {line} column {column}")
}
