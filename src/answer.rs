//! The text of an answer, as the next turn of its conversation will repeat it.
//!
//! The caller feeds every chunk of an answer (server-sent events or one JSON document, not compressed) and asks once, at the
//! end. Events are read as they pass and not kept, a document is kept until then. Both, and the text itself, are
//! bounded: a longer text is cut, which leaves it a good prefix, and of anything that is not understood there is no text.
//!
//! Of an answer of several kinds of content only the text before the first other kind counts: calls of tools and
//! reasoning come back in forms that depend on the client.

mod event;
#[cfg(test)]
mod tests;

use self::event::Reader;

/// Longest text that is kept.
const LONGEST_TEXT: usize = 256 * 1024;
/// Longest line of a stream of events that is put together.
const LONGEST_LINE: usize = 64 * 1024;
/// Longest document that is kept.
const LONGEST_DOCUMENT: usize = 1024 * 1024;

/// Whose answer it is; each has a form of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    ChatCompletions,
    Completions,
    Messages,
    Responses,
}

impl Dialect {
    /// What stands between the prompt and the answer in the next turn's prompt.
    pub fn separator(self) -> &'static [u8] {
        match self {
            Self::Completions => b"",
            Self::ChatCompletions | Self::Messages | Self::Responses => b" ",
        }
    }
}

/// Watches one answer.
#[derive(Debug)]
pub struct AnswerText {
    reader: Reader,
    events: bool,
    /// The line or document that has not ended yet.
    unread: Vec<u8>,
    /// Nothing more is wanted, or can be understood.
    closed: bool,
}

impl AnswerText {
    /// `events`: the answer is a stream of server-sent events, else one JSON document.
    pub fn new(dialect: Dialect, events: bool) -> Self {
        Self {
            reader: Reader::new(dialect),
            events,
            unread: Vec::new(),
            closed: false,
        }
    }

    pub fn feed(&mut self, chunk: &[u8]) {
        if self.closed {
            return;
        }
        if self.events {
            self.feed_events(chunk);
        } else {
            self.keep(chunk, LONGEST_DOCUMENT);
        }
    }

    /// `None`: there is no text, or not all that came was understood.
    pub fn finish(mut self) -> Option<String> {
        let rest = std::mem::take(&mut self.unread);
        if !self.closed && !rest.is_empty() {
            if self.events {
                self.line(&rest);
            } else {
                self.reader.document(&rest);
            }
        }
        self.reader.into_text()
    }

    fn feed_events(&mut self, mut chunk: &[u8]) {
        while let Some(end) = memchr::memchr(b'\n', chunk) {
            let (line, rest) = chunk.split_at(end);
            chunk = &rest[1..];
            if self.unread.is_empty() {
                // A line that is whole is read where it stands.
                self.line(line);
            } else {
                self.keep(line, LONGEST_LINE);
                let mut whole = std::mem::take(&mut self.unread);
                self.line(&whole);
                whole.clear();
                self.unread = whole;
            }
            if self.closed {
                return;
            }
        }
        self.keep(chunk, LONGEST_LINE);
    }

    fn line(&mut self, line: &[u8]) {
        // Names of events, comments and blank lines say nothing that the data does not.
        if let Some(data) = line.strip_prefix(b"data:") {
            self.closed |= !self.reader.event(data.trim_ascii());
        }
    }

    fn keep(&mut self, bytes: &[u8], most: usize) {
        if self.unread.len() + bytes.len() > most {
            self.closed = true;
            self.reader.give_up();
            self.unread = Vec::new();
        } else {
            self.unread.extend_from_slice(bytes);
        }
    }
}
