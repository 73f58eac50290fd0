//! One walk over a JSON body. What is not needed is skipped without being built; skipping and borrowing do not recurse,
//! so no depth of nesting can exhaust the stack.

use std::borrow::Cow;
use std::fmt;

use serde::Deserializer as _;
use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

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
    let mut json = serde_json::Deserializer::from_slice(body);
    let walked = json.deserialize_map(TopLevel {
        fields: &mut fields,
        kind,
    });
    walked.and_then(|()| json.end()).map_err(|error| {
        if fields.model_twice {
            BodyError::TwoModels
        } else {
            BodyError::NotJson(place(&error))
        }
    })?;
    let model = model(&fields)?;
    let prompt = prompt(kind, &mut fields, options)?;
    Ok(InferenceRequest {
        model,
        prompt,
        stream: fields.stream.is_some_and(|raw| raw.get() == "true"),
        max_tokens: fields.max_tokens.and_then(|raw| raw.get().parse().ok()),
        cache_salt: fields.cache_salt.and_then(|raw| text::string(raw.get())),
    })
}

/// The top-level values that are needed, as they stand in the body. Of a key that is given twice the last one counts, as
/// for the engines' own readers; only `model` must not be.
#[derive(Default)]
struct Fields<'a> {
    model: Option<&'a RawValue>,
    model_twice: bool,
    messages: Option<Messages<'a>>,
    prompt: Option<&'a RawValue>,
    input: Option<&'a RawValue>,
    system: Option<&'a RawValue>,
    instructions: Option<&'a RawValue>,
    tools: Option<&'a RawValue>,
    query: Option<&'a RawValue>,
    documents: Option<&'a RawValue>,
    stream: Option<&'a RawValue>,
    max_tokens: Option<&'a RawValue>,
    cache_salt: Option<&'a RawValue>,
}

struct TopLevel<'f, 'a> {
    fields: &'f mut Fields<'a>,
    kind: PathKind,
}

impl<'a> Visitor<'a> for TopLevel<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        let fields = self.fields;
        while let Some(key) = map.next_key_seed(KeyOf)? {
            let field = match key {
                Key::Messages if self.kind.has_messages() => {
                    fields.messages = Some(map.next_value_seed(MessagesSeed)?);
                    continue;
                }
                Key::Model => {
                    if fields.model.is_some() {
                        fields.model_twice = true;
                        return Err(A::Error::custom("model twice"));
                    }
                    &mut fields.model
                }
                Key::Prompt => &mut fields.prompt,
                Key::Input => &mut fields.input,
                Key::System => &mut fields.system,
                Key::Instructions => &mut fields.instructions,
                Key::Tools => &mut fields.tools,
                Key::Query => &mut fields.query,
                Key::Documents => &mut fields.documents,
                Key::Stream => &mut fields.stream,
                Key::MaxTokens => &mut fields.max_tokens,
                Key::CacheSalt => &mut fields.cache_salt,
                Key::Messages | Key::Other => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            *field = Some(map.next_value()?);
        }
        Ok(())
    }
}

enum Key {
    Model,
    Messages,
    Prompt,
    Input,
    System,
    Instructions,
    Tools,
    Query,
    Documents,
    Stream,
    MaxTokens,
    CacheSalt,
    Other,
}

struct KeyOf;

impl<'de> DeserializeSeed<'de> for KeyOf {
    type Value = Key;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Key, D::Error> {
        deserializer.deserialize_bytes(self)
    }
}

impl Visitor<'_> for KeyOf {
    type Value = Key;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: serde::de::Error>(self, key: &str) -> Result<Key, E> {
        self.visit_bytes(key.as_bytes())
    }

    fn visit_bytes<E>(self, key: &[u8]) -> Result<Key, E> {
        Ok(match key {
            b"model" => Key::Model,
            b"messages" => Key::Messages,
            b"prompt" => Key::Prompt,
            b"input" => Key::Input,
            b"system" => Key::System,
            b"instructions" => Key::Instructions,
            b"tools" => Key::Tools,
            b"query" => Key::Query,
            b"documents" => Key::Documents,
            b"stream" => Key::Stream,
            b"max_tokens" | b"max_completion_tokens" | b"max_output_tokens" => Key::MaxTokens,
            b"cache_salt" => Key::CacheSalt,
            _ => Key::Other,
        })
    }
}

/// The messages' text; how many there were.
#[derive(Default)]
struct Messages<'a> {
    text: Prompt<'a>,
    count: usize,
}

struct MessagesSeed;

impl<'de> DeserializeSeed<'de> for MessagesSeed {
    type Value = Messages<'de>;

    fn deserialize<D: serde::Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

/// What is no array has no messages; that is judged when the whole body is known to be JSON.
impl<'a> Visitor<'a> for MessagesSeed {
    type Value = Messages<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of messages")
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut seq: A) -> Result<Messages<'a>, A::Error> {
        let mut messages = Messages::default();
        while let Some(content) = seq.next_element_seed(ContentOf)? {
            if messages.count > 0 {
                messages.text.push(&b" "[..]);
            }
            messages.count += 1;
            if let Some(content) = content {
                text::push_content(content.get(), &mut messages.text);
            }
        }
        Ok(messages)
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<Messages<'a>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Messages::default())
    }

    fn visit_str<E>(self, _: &str) -> Result<Messages<'a>, E> {
        Ok(Messages::default())
    }

    fn visit_unit<E>(self) -> Result<Messages<'a>, E> {
        Ok(Messages::default())
    }

    fn visit_bool<E>(self, _: bool) -> Result<Messages<'a>, E> {
        Ok(Messages::default())
    }

    fn visit_f64<E>(self, _: f64) -> Result<Messages<'a>, E> {
        Ok(Messages::default())
    }

    fn visit_u64<E>(self, _: u64) -> Result<Messages<'a>, E> {
        Ok(Messages::default())
    }

    fn visit_i64<E>(self, _: i64) -> Result<Messages<'a>, E> {
        Ok(Messages::default())
    }
}

/// The `content` of one message.
struct ContentOf;

impl<'de> DeserializeSeed<'de> for ContentOf {
    type Value = Option<&'de RawValue>;

    fn deserialize<D: serde::Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'a> Visitor<'a> for ContentOf {
    type Value = Option<&'a RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut content = None;
        while let Some(is_content) = map.next_key_seed(text::IsKey("content"))? {
            if is_content {
                content = Some(map.next_value()?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(content)
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(None)
    }
}

fn model<'a>(fields: &Fields<'a>) -> Result<Cow<'a, str>, BodyError> {
    let raw = fields.model.ok_or(BodyError::NoModel)?.get();
    match text::string(raw) {
        Some(name) if name.is_empty() => Err(BodyError::BadModel("an empty string")),
        Some(name) => Ok(name),
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
    field: Option<&'a RawValue>,
    prompt: &mut Prompt<'a>,
    push: impl FnOnce(&'a str, &mut Prompt<'a>),
) {
    let mut added = Prompt::default();
    if let Some(raw) = field.filter(|raw| raw.get() != "null") {
        push(raw.get(), &mut added);
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

fn responses_input(input: Option<&RawValue>) -> Result<Prompt<'_>, BodyError> {
    let raw = input.map_or("null", RawValue::get);
    let mut prompt = Prompt::default();
    match raw.as_bytes().first() {
        Some(b'"') => text::push_content(raw, &mut prompt),
        Some(b'[') => {
            let items = text::each(raw, |at, item| {
                if at > 0 {
                    prompt.push(&b" "[..]);
                }
                push_item(item, &mut prompt);
                Some(())
            });
            match items {
                Some(0) => return Err(BodyError::EmptyInput),
                Some(_) => {}
                None => return Err(BodyError::BadInput),
            }
        }
        Some(b'n') => return Err(BodyError::NoInput),
        _ => return Err(BodyError::BadInput),
    }
    Ok(prompt)
}

/// A message by its content; what else there is (calls of functions and their results) in canonical form.
fn push_item<'a>(raw: &'a str, prompt: &mut Prompt<'a>) {
    let fields = match raw.starts_with('{') {
        true => text::fields(raw.as_bytes(), ["content"]),
        false => None,
    };
    match fields {
        Some([Some(content)]) => text::push_content(content.get(), prompt),
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

fn kind_of(raw: &str) -> &'static str {
    not_an_object(raw.as_bytes()).unwrap_or("an object")
}

/// Where and why, without serde's quotations of the text.
fn place(error: &serde_json::Error) -> String {
    let why = match error.classify() {
        serde_json::error::Category::Eof => "it ends too early",
        _ => "invalid syntax or encoding",
    };
    format!("{why} at line {} column {}", error.line(), error.column())
}
