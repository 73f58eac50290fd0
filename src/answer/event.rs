//! The text in one event or document, by dialect.

use std::borrow::Cow;

use serde::Deserialize;

use super::{Dialect, LONGEST_TEXT};

/// Puts the text together.
#[derive(Debug)]
pub(super) struct Reader {
    dialect: Dialect,
    text: String,
    /// Parts of text so far: those of a message are repeated with a blank between them.
    parts: usize,
    lost: bool,
}

/// A chunk of a stream, or a whole answer, in the form of `/v1/chat/completions` and `/v1/completions`.
#[derive(Deserialize)]
struct Choices<'a> {
    #[serde(borrow, default)]
    choices: Vec<Choice<'a>>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(default)]
    index: u32,
    #[serde(borrow, alias = "delta")]
    message: Option<Message<'a>>,
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    content: Option<Cow<'a, str>>,
}

/// An event of `/v1/messages` or `/v1/responses`.
#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    delta: Delta<'a>,
    #[serde(borrow)]
    content_block: Option<Part<'a>>,
    #[serde(borrow)]
    item: Option<Part<'a>>,
    #[serde(default)]
    content_index: u32,
}

/// `delta` is an object on `/v1/messages`, and a string on `/v1/responses`.
#[derive(Default, Deserialize)]
#[serde(untagged)]
enum Delta<'a> {
    Text(#[serde(borrow)] Cow<'a, str>),
    Part(#[serde(borrow)] Part<'a>),
    #[default]
    None,
}

/// A part of a message, or an item of an answer.
#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    content: Vec<Part<'a>>,
}

/// A whole answer of `/v1/messages` or `/v1/responses`.
#[derive(Deserialize)]
struct Document<'a> {
    #[serde(borrow, default)]
    content: Vec<Part<'a>>,
    #[serde(borrow, default)]
    output: Vec<Part<'a>>,
}

impl Part<'_> {
    fn is(&self, kind: &str) -> bool {
        self.kind.as_deref() == Some(kind)
    }
}

impl Reader {
    pub(super) fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            text: String::new(),
            parts: 0,
            lost: false,
        }
    }

    pub(super) fn give_up(&mut self) {
        self.lost = true;
    }

    pub(super) fn into_text(self) -> Option<String> {
        (!self.lost && !self.text.is_empty()).then_some(self.text)
    }

    /// Whether more is wanted.
    pub(super) fn event(&mut self, data: &[u8]) -> bool {
        if data == b"[DONE]" {
            return false;
        }
        if data.is_empty() {
            return true;
        }
        let more = match self.dialect {
            Dialect::ChatCompletions | Dialect::Completions => self.choices(data),
            Dialect::Messages => self.messages_event(data),
            Dialect::Responses => self.responses_event(data),
        };
        self.lost |= more.is_none();
        more.unwrap_or_default()
    }

    pub(super) fn document(&mut self, data: &[u8]) {
        let read = match self.dialect {
            Dialect::ChatCompletions | Dialect::Completions => self.choices(data).map(drop),
            Dialect::Messages => parse::<Document>(data).map(|answer| {
                self.parts(&answer.content, "text");
            }),
            Dialect::Responses => parse::<Document>(data).map(|answer| {
                let messages = answer.output.iter().take_while(|item| item.is("message"));
                for message in messages {
                    if !self.parts(&message.content, "output_text") {
                        break;
                    }
                }
            }),
        };
        self.lost |= read.is_none();
    }

    /// `None`: not understood; several answers to choose from are none that can be foreseen.
    fn choices(&mut self, data: &[u8]) -> Option<bool> {
        let chunk: Choices = parse(data)?;
        let mut more = true;
        for choice in &chunk.choices {
            if choice.index > 0 {
                return None;
            }
            let content = choice
                .message
                .as_ref()
                .and_then(|said| said.content.as_ref());
            if let Some(text) = content.or(choice.text.as_ref()) {
                more &= self.push(text);
            }
        }
        Some(more)
    }

    fn messages_event(&mut self, data: &[u8]) -> Option<bool> {
        let event: Event = parse(data)?;
        match (event.kind.as_deref()?, &event.content_block, &event.delta) {
            ("content_block_start", Some(block), _) => Some(self.part(block, "text")),
            ("content_block_delta", _, Delta::Part(delta)) if delta.is("text_delta") => {
                Some(self.push(delta.text.as_deref()?))
            }
            ("error", ..) => None,
            _ => Some(true),
        }
    }

    fn responses_event(&mut self, data: &[u8]) -> Option<bool> {
        let event: Event = parse(data)?;
        match (event.kind.as_deref()?, &event.item, &event.delta) {
            ("response.output_item.added", Some(item), _) => {
                if !item.is("message") {
                    return Some(false);
                }
                self.parts += 1;
                Some(self.parts == 1 || self.push(" "))
            }
            ("response.content_part.added", ..) if event.content_index > 0 => Some(self.push(" ")),
            ("response.output_text.delta", _, Delta::Text(text)) => Some(self.push(text)),
            ("error" | "response.failed", ..) => None,
            _ => Some(true),
        }
    }

    fn parts(&mut self, parts: &[Part<'_>], kind: &str) -> bool {
        parts.iter().all(|part| self.part(part, kind))
    }

    /// Adds a part of the kind that is text; `false` at any other, which ends what can be foreseen.
    fn part(&mut self, part: &Part<'_>, kind: &str) -> bool {
        if !part.is(kind) {
            return false;
        }
        self.parts += 1;
        let apart = self.parts == 1 || self.push(" ");
        apart && self.push(part.text.as_deref().unwrap_or_default())
    }

    /// Whether there is room for more.
    fn push(&mut self, text: &str) -> bool {
        let room = LONGEST_TEXT - self.text.len();
        if text.len() <= room {
            self.text.push_str(text);
            return true;
        }
        let end = (0..=room).rev().find(|&end| text.is_char_boundary(end));
        self.text.push_str(&text[..end.unwrap_or_default()]);
        false
    }
}

/// An object; of an array serde would make one as well.
fn parse<'a, T: Deserialize<'a>>(data: &'a [u8]) -> Option<T> {
    let object = data.trim_ascii_start().starts_with(b"{");
    object.then(|| serde_json::from_slice(data).ok()).flatten()
}
