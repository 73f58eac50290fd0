//! Reads an answer as it comes, times its tokens and checks that it is the right one.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;

use super::super::scenario::Engines;
use super::Wanted;
use super::failure::{Failure, Kind};
use super::sse::{self, Events};

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) pod: Option<String>,
    /// Of streams.
    pub(crate) first_token: Option<Instant>,
    /// Microseconds between one token and the next.
    pub(crate) gaps: Vec<u32>,
    pub(crate) ended: Instant,
    pub(crate) text: String,
    pub(crate) usage: Option<Usage>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Usage {
    pub(crate) prompt_tokens: u64,
    pub(crate) completion_tokens: u64,
    prompt_tokens_details: Option<PromptDetails>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct PromptDetails {
    cached_tokens: Option<u64>,
}

impl Usage {
    /// `None`: the engine does not tell.
    pub(crate) fn cached_tokens(&self) -> Option<u64> {
        self.prompt_tokens_details?.cached_tokens
    }
}

/// A chunk of a stream or a whole answer.
#[derive(Deserialize)]
struct Document<'a> {
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    choices: Vec<Choice<'a>>,
    usage: Option<Usage>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow, alias = "message")]
    delta: Option<Said<'a>>,
}

#[derive(Deserialize)]
struct Said<'a> {
    #[serde(borrow)]
    content: Option<Cow<'a, str>>,
    /// What a model thinks before it answers are tokens as well.
    #[serde(borrow)]
    reasoning_content: Option<Cow<'a, str>>,
    #[serde(borrow)]
    reasoning: Option<Cow<'a, str>>,
    tool_calls: Option<Vec<Value>>,
}

impl Said<'_> {
    /// Some engines tell the role in an event of its own, before there is a token.
    fn has_token(&self) -> bool {
        let text = [&self.content, &self.reasoning_content, &self.reasoning];
        let has_text = text.into_iter().flatten().any(|text| !text.is_empty());
        has_text
            || self
                .tool_calls
                .as_ref()
                .is_some_and(|calls| !calls.is_empty())
    }
}

pub(super) struct Reader<'a> {
    wanted: &'a Wanted,
    engines: Engines,
    events: Events,
    /// What all parts of this answer are called.
    id: Option<String>,
    whole: Vec<u8>,
    done: bool,
    tokens: usize,
    first_token: Option<Instant>,
    last_token: Option<Instant>,
    gaps: Vec<u32>,
    text: String,
    usage: Option<Usage>,
}

const DONE: &[u8] = b"[DONE]";

impl<'a> Reader<'a> {
    pub(super) fn new(wanted: &'a Wanted, engines: Engines) -> Self {
        Self {
            wanted,
            engines,
            events: Events::default(),
            id: None,
            whole: Vec::new(),
            done: false,
            tokens: 0,
            first_token: None,
            last_token: None,
            gaps: Vec::new(),
            text: String::new(),
            usage: None,
        }
    }

    pub(super) fn feed(&mut self, chunk: &[u8], now: Instant) -> Result<(), Failure> {
        if !self.wanted.stream {
            self.whole.extend_from_slice(chunk);
            return Ok(());
        }
        let mut events = std::mem::take(&mut self.events);
        events.feed(chunk, |data| self.event(data, now))?;
        if events.is_too_long() {
            let detail = format!("an event of more than {} bytes", sse::LONGEST);
            return Err(Failure::new(Kind::Malformed, detail));
        }
        self.events = events;
        Ok(())
    }

    pub(super) fn end(mut self, now: Instant) -> Result<Answer, Failure> {
        if self.wanted.stream {
            if !self.done || !self.events.is_between() {
                let detail = format!("{} tokens and no [DONE] at the end", self.tokens);
                return Err(Failure::new(Kind::CutShort, detail));
            }
        } else {
            let whole = std::mem::take(&mut self.whole);
            self.document(&whole, None)?;
        }
        if self.engines == Engines::Simulated {
            self.check_length()?;
        }
        Ok(Answer {
            pod: None,
            first_token: self.first_token,
            gaps: self.gaps,
            ended: now,
            text: self.text,
            usage: self.usage,
        })
    }

    fn event(&mut self, data: &[u8], now: Instant) -> Result<(), Failure> {
        if self.done {
            let detail = format!("after [DONE]: {}", String::from_utf8_lossy(data));
            return Err(Failure::new(Kind::Malformed, detail));
        }
        if data == DONE {
            self.done = true;
            return Ok(());
        }
        self.document(data, Some(now))
    }

    fn document(&mut self, data: &[u8], token_at: Option<Instant>) -> Result<(), Failure> {
        let document: Document<'_> = serde_json::from_slice(data).map_err(|error| {
            let detail = format!("{error}: {}", String::from_utf8_lossy(data));
            Failure::new(Kind::Malformed, detail)
        })?;
        if let Some(error) = document.error {
            return Err(Failure::new(Kind::ErrorEvent, error.to_string()));
        }
        self.check_id(document.id.as_deref())?;
        if let Some(usage) = document.usage {
            self.usage = Some(usage);
        }
        let said = document
            .choices
            .iter()
            .find_map(|choice| choice.delta.as_ref());
        let Some(said) = said else { return Ok(()) };
        if let Some(now) = token_at.filter(|_| said.has_token()) {
            self.token(now);
        }
        if self.wanted.keep_text {
            self.text
                .push_str(said.content.as_deref().unwrap_or_default());
        }
        Ok(())
    }

    fn token(&mut self, now: Instant) {
        self.tokens += 1;
        self.first_token.get_or_insert(now);
        if let Some(last) = self.last_token.replace(now) {
            let gap = now.duration_since(last).as_micros();
            self.gaps.push(gap.try_into().unwrap_or(u32::MAX));
        }
    }

    /// All parts carry one id, which simulated engines make of the request's.
    fn check_id(&mut self, id: Option<&str>) -> Result<(), Failure> {
        let given = id.unwrap_or_default();
        let right = match (&self.id, self.engines) {
            (Some(first), _) => given == first,
            (None, Engines::Simulated) => given.strip_prefix("chatcmpl-") == Some(&self.wanted.id),
            (None, Engines::Unknown) => true,
        };
        if !right {
            let detail = format!(
                "a part called {given:?} in the answer to {}",
                self.wanted.id
            );
            return Err(Failure::new(Kind::WrongAnswer, detail));
        }
        if self.id.is_none() {
            self.id = Some(given.to_owned());
        }
        Ok(())
    }

    /// Simulated engines say exactly as much as they were asked for.
    fn check_length(&self) -> Result<(), Failure> {
        let wanted = self.wanted.answer_tokens;
        let told = self.usage.map(|usage| usage.completion_tokens);
        let counted = !self.wanted.stream || self.tokens == wanted;
        if counted && told == Some(wanted as u64) {
            return Ok(());
        }
        let detail = format!(
            "{} tokens, usage says {told:?}; {wanted} were asked for",
            self.tokens
        );
        Err(Failure::new(Kind::WrongAnswer, detail))
    }
}
