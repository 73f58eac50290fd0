//! The shapes of the engines' answers.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::request::PathKind;

/// Counts of one request.
#[derive(Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) prompt: usize,
    pub(super) cached: usize,
    pub(super) output: usize,
}

/// How an answer is named: engines make its id of the request's, so that a client can tell whose answer it got.
#[derive(Clone)]
pub(super) struct Identity {
    pub(super) model: String,
    /// `None`: the request brought none.
    pub(super) request_id: Option<String>,
}

impl Identity {
    fn id(&self, kind: &str) -> String {
        format!("{kind}-{}", self.request_id.as_deref().unwrap_or("sim"))
    }
}

/// The words of an answer, one a token.
pub(super) const WORD: &str = "word ";

pub(super) fn whole(kind: PathKind, identity: &Identity, counts: Counts) -> Value {
    let model = &identity.model;
    let text = WORD.repeat(counts.output);
    match kind {
        PathKind::ChatCompletions => json!({
            "id": identity.id("chatcmpl"), "object": "chat.completion", "created": 0, "model": model,
            "choices": [{"index": 0, "finish_reason": "length", "message": {"role": "assistant", "content": text}}],
            "usage": usage(counts),
        }),
        PathKind::Completions => json!({
            "id": identity.id("cmpl"), "object": "text_completion", "created": 0, "model": model,
            "choices": [{"index": 0, "finish_reason": "length", "text": text}],
            "usage": usage(counts),
        }),
        PathKind::Responses => json!({
            "id": identity.id("resp"), "object": "response", "created_at": 0, "model": model, "status": "completed",
            "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}],
            "usage": responses_usage(counts),
        }),
        PathKind::Messages => json!({
            "id": identity.id("msg"), "type": "message", "role": "assistant", "model": model, "stop_reason": "max_tokens",
            "content": [{"type": "text", "text": text}],
            "usage": messages_usage(counts),
        }),
        PathKind::CountTokens => json!({"input_tokens": counts.prompt}),
        PathKind::Embeddings => json!({
            "object": "list", "model": model, "data": [{"object": "embedding", "index": 0, "embedding": [0.5, -0.5]}],
            "usage": {"prompt_tokens": counts.prompt, "total_tokens": counts.prompt},
        }),
        PathKind::Tokenize => {
            json!({"count": counts.prompt, "max_model_len": 1 << 20, "tokens": (0..counts.prompt).collect::<Vec<_>>()})
        }
        PathKind::Detokenize => json!({"prompt": ""}),
        PathKind::AudioTranscriptions | PathKind::AudioTranslations => json!({"text": "sound"}),
        _ => {
            json!({"object": "list", "model": model, "data": [{"index": 0, "score": 0.5}], "results": [{"index": 0, "relevance_score": 0.5}]})
        }
    }
}

/// The events of a stream: before the tokens, for each token, after them.
pub(super) struct Events {
    kind: PathKind,
    identity: Identity,
    include_usage: bool,
}

impl Events {
    /// `None` for what cannot be streamed.
    pub(super) fn new(kind: PathKind, identity: &Identity, include_usage: bool) -> Option<Self> {
        kind.fills_cache().then(|| Self {
            kind,
            identity: identity.clone(),
            include_usage,
        })
    }

    fn completion(&self) -> &'static str {
        match self.kind {
            PathKind::Completions => "cmpl",
            _ => "chatcmpl",
        }
    }

    pub(super) fn start(&self, counts: Counts) -> Option<Bytes> {
        match self.kind {
            PathKind::Messages => Some(
                [
                    named(
                        "message_start",
                        &json!({"type": "message_start", "message": {"id": self.identity.id("msg"), "type": "message", "role": "assistant", "model": self.identity.model, "content": [], "usage": messages_usage(Counts { output: 0, ..counts })}}),
                    ),
                    named(
                        "content_block_start",
                        &json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
                    ),
                ]
                .concat()
                .into(),
            ),
            PathKind::Responses => Some(named(
                "response.created",
                &json!({"type": "response.created", "response": {"id": self.identity.id("resp"), "object": "response", "status": "in_progress"}}),
            )),
            _ => None,
        }
    }

    pub(super) fn token(&self, counts: Counts, is_last: bool) -> Bytes {
        let finish_reason = is_last.then_some("length");
        match self.kind {
            PathKind::Completions => data(&json!({
                "id": self.identity.id("cmpl"), "object": "text_completion", "created": 0, "model": self.identity.model,
                "choices": [{"index": 0, "text": WORD, "finish_reason": finish_reason}],
            })),
            PathKind::Messages => named(
                "content_block_delta",
                &json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": WORD}}),
            ),
            PathKind::Responses => named(
                "response.output_text.delta",
                &json!({"type": "response.output_text.delta", "output_index": 0, "delta": WORD}),
            ),
            _ => {
                let delta = match counts.output {
                    1 => json!({"role": "assistant", "content": WORD}),
                    _ => json!({"content": WORD}),
                };
                data(&json!({
                    "id": self.identity.id("chatcmpl"), "object": "chat.completion.chunk", "created": 0, "model": self.identity.model,
                    "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}],
                }))
            }
        }
    }

    pub(super) fn end(&self, counts: Counts) -> Vec<Bytes> {
        match self.kind {
            PathKind::Messages => vec![
                named(
                    "content_block_stop",
                    &json!({"type": "content_block_stop", "index": 0}),
                ),
                named(
                    "message_delta",
                    &json!({"type": "message_delta", "delta": {"stop_reason": "max_tokens"}, "usage": {"output_tokens": counts.output}}),
                ),
                named("message_stop", &json!({"type": "message_stop"})),
            ],
            PathKind::Responses => vec![named(
                "response.completed",
                &json!({"type": "response.completed", "response": whole(self.kind, &self.identity, counts)}),
            )],
            _ => {
                let usage = self.include_usage.then(|| {
                    data(&json!({"id": self.identity.id(self.completion()), "object": "chat.completion.chunk", "created": 0, "model": self.identity.model, "choices": [], "usage": usage(counts)}))
                });
                usage
                    .into_iter()
                    .chain([Bytes::from_static(b"data: [DONE]\n\n")])
                    .collect()
            }
        }
    }
}

pub(super) fn error(message: &str, code: &str) -> Value {
    json!({"error": {"message": message, "type": "invalid_request_error", "param": null, "code": code}})
}

fn data(value: &Value) -> Bytes {
    format!("data: {value}\n\n").into()
}

fn named(event: &str, value: &Value) -> Bytes {
    format!("event: {event}\ndata: {value}\n\n").into()
}

fn usage(counts: Counts) -> Value {
    json!({
        "prompt_tokens": counts.prompt, "completion_tokens": counts.output, "total_tokens": counts.prompt + counts.output,
        "prompt_tokens_details": {"cached_tokens": counts.cached},
    })
}

fn responses_usage(counts: Counts) -> Value {
    json!({
        "input_tokens": counts.prompt, "output_tokens": counts.output, "total_tokens": counts.prompt + counts.output,
        "input_tokens_details": {"cached_tokens": counts.cached},
    })
}

fn messages_usage(counts: Counts) -> Value {
    json!({"input_tokens": counts.prompt - counts.cached, "cache_read_input_tokens": counts.cached, "output_tokens": counts.output})
}
