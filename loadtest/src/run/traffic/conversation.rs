//! One conversation: the bodies of its requests, one after the other.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use serde_json::value::RawValue;

use super::super::scenario::spread::{Count, Spread};
use super::super::scenario::workload::{Agents, Documents, Kind, Sessions, SystemPrompts};
use super::Ready;
use super::pool::tool_name;
use super::text::words;

pub(crate) struct Conversation {
    /// Its class's place in the scenario.
    pub(crate) class: usize,
    ready: Arc<Ready>,
    model: Arc<str>,
    stream: bool,
    random: ChaCha8Rng,
    /// The shared text it took.
    chosen: usize,
    turns: usize,
    done: usize,
    messages: Vec<Message>,
}

/// A request to send.
pub(crate) struct Turn {
    pub(crate) body: Bytes,
    pub(crate) answer_tokens: usize,
    /// How long the user or the tool takes between the answer before and this request.
    pub(crate) pause: Duration,
    /// Whether the next turn quotes the answer.
    pub(crate) quotes_answer: bool,
}

/// A request's size and what comes before it.
struct Step {
    answer_tokens: usize,
    pause: Duration,
}

#[derive(Serialize)]
struct Message {
    role: &'static str,
    content: Arc<str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_calls: Option<[ToolCall; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<String>,
}

#[derive(Serialize)]
struct ToolCall {
    id: String,
    #[serde(rename = "type")]
    kind: &'static str,
    function: Function,
}

#[derive(Serialize)]
struct Function {
    name: String,
    arguments: String,
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    max_tokens: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Arc<RawValue>>,
    messages: &'a [Message],
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

impl Message {
    fn new(role: &'static str, content: impl Into<Arc<str>>) -> Self {
        Self {
            role,
            content: content.into(),
            tool_calls: None,
            tool_call_id: None,
        }
    }
}

impl Conversation {
    pub(super) fn new(
        class: usize,
        ready: Arc<Ready>,
        model: Arc<str>,
        stream: bool,
        mut random: ChaCha8Rng,
    ) -> Self {
        let pool = ready.pool.as_ref();
        let chosen = pool.map_or(0, |pool| pool.choose(&mut random));
        let turns = match &ready.kind {
            Kind::SystemPrompts(_) => 1,
            Kind::Documents(documents) => documents.questions.count(&mut random),
            Kind::Sessions(sessions) => sessions.turns.count(&mut random),
            Kind::Agents(agents) => agents.steps.count(&mut random),
        };
        Self {
            class,
            ready,
            model,
            stream,
            random,
            chosen,
            turns: turns.max(1),
            done: 0,
            messages: Vec::new(),
        }
    }

    /// The next request, until the conversation is over.
    pub(crate) fn next(&mut self) -> serde_json::Result<Option<Turn>> {
        if self.done == self.turns {
            return Ok(None);
        }
        let ready = Arc::clone(&self.ready);
        let step = match &ready.kind {
            Kind::SystemPrompts(class) => self.ask_once(class),
            Kind::Documents(class) => self.ask_about(class),
            Kind::Sessions(class) => self.chat(class),
            Kind::Agents(class) => self.work(class),
        };
        self.done += 1;
        let body = Body {
            model: &self.model,
            stream: self.stream,
            stream_options: self.stream.then_some(StreamOptions {
                include_usage: true,
            }),
            max_tokens: step.answer_tokens,
            tools: ready.pool.as_ref().and_then(|pool| pool.tools(self.chosen)),
            messages: &self.messages,
        };
        Ok(Some(Turn {
            body: serde_json::to_vec(&body)?.into(),
            answer_tokens: step.answer_tokens,
            pause: step.pause,
            quotes_answer: self.done < self.turns
                && matches!(ready.kind, Kind::Sessions(_) | Kind::Agents(_)),
        }))
    }

    /// What the engine said to the last request, for the turns that quote it.
    pub(crate) fn answered(&mut self, answer: String) {
        let mut message = Message::new("assistant", answer);
        if let Kind::Agents(agents) = &self.ready.kind {
            message.tool_calls = Some([ToolCall {
                id: self.call(),
                kind: "function",
                function: Function {
                    name: tool_name(self.done % agents.tools.max(1)),
                    arguments: format!("{{\"query\":\"{}\"}}", words(2, &mut self.random).trim()),
                },
            }]);
        }
        self.messages.push(message);
    }

    fn ask_once(&mut self, class: &SystemPrompts) -> Step {
        self.begin("system");
        let question = self.text(&class.question_tokens);
        self.messages.push(Message::new("user", question));
        self.step(&class.answer_tokens, Duration::ZERO)
    }

    fn ask_about(&mut self, class: &Documents) -> Step {
        let pause = class.think.pause(&mut self.random);
        self.messages.clear();
        self.begin("user");
        let question = self.text(&class.question_tokens);
        self.messages.push(Message::new("user", question));
        self.step(&class.answer_tokens, pause)
    }

    fn chat(&mut self, class: &Sessions) -> Step {
        let pause = class.think.pause(&mut self.random);
        if self.done == 0 {
            self.begin("system");
        }
        let question = self.text(&class.question_tokens);
        self.messages.push(Message::new("user", question));
        self.step(&class.answer_tokens, pause)
    }

    fn work(&mut self, class: &Agents) -> Step {
        let pause = class.tool_time.pause(&mut self.random);
        if self.done == 0 {
            self.begin("system");
            let task = self.text(&class.task_tokens);
            self.messages.push(Message::new("user", task));
        } else {
            let result = self.text(&class.result_tokens);
            let mut message = Message::new("tool", result);
            message.tool_call_id = Some(self.call());
            self.messages.push(message);
        }
        self.step(&class.answer_tokens, pause)
    }

    /// Opens with the shared text, if the class has one.
    fn begin(&mut self, role: &'static str) {
        if let Some(pool) = &self.ready.pool {
            self.messages
                .push(Message::new(role, pool.text(self.chosen)));
        }
    }

    /// Nobody has waited for anything before the first turn; an answer has at least one token.
    fn step(&mut self, answer_tokens: &Spread<Count>, pause: Duration) -> Step {
        Step {
            answer_tokens: answer_tokens.count(&mut self.random).max(1),
            pause: if self.done == 0 {
                Duration::ZERO
            } else {
                pause
            },
        }
    }

    fn text(&mut self, tokens: &Spread<Count>) -> String {
        let tokens = tokens.count(&mut self.random);
        words(tokens, &mut self.random)
    }

    fn call(&self) -> String {
        format!("call_{}", self.done)
    }
}
