//! Notes answers in the prefix index: the next turn of a conversation repeats them, and the pod that made one has it in
//! its cache.
//!
//! While an answer passes only its text is put together; the index hears of it when the client has all of it.

use http::HeaderMap;
use http::header::CONTENT_TYPE;

use super::context::{Attempt, RequestContext};
use super::state::State;
use crate::answer::{AnswerText, Dialect};
use crate::request::PathKind;

/// What puts the text of this answer together, if it is to be noted.
pub(super) fn watch(context: &RequestContext, headers: &HeaderMap) -> Option<AnswerText> {
    let router = &context.live.router;
    let noted = context
        .routing
        .as_ref()
        .is_some_and(|routing| routing.records);
    if !noted || !router.settings().prefix_cache.answers {
        return None;
    }
    let content_type = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let media_type = content_type.split(';').next().unwrap_or_default().trim();
    let events = match media_type {
        "text/event-stream" => true,
        "application/json" => false,
        _ => return None,
    };
    Some(AnswerText::new(dialect(context.kind)?, events))
}

/// Notes a complete answer as its pod's; while the attempt is held the pod's slot cannot become another's.
pub(super) fn note(state: &State, attempt: &Attempt, context: &mut RequestContext) {
    let text = context
        .answer
        .text
        .take()
        .filter(|_| context.answer.complete);
    let (Some(text), Some(routing), Some(dialect)) = (
        text.and_then(AnswerText::finish),
        &context.routing,
        dialect(context.kind),
    ) else {
        return;
    };
    let router = &context.live.router;
    // The prompt's own are still to be told.
    let mut blocks = routing.blocks.clone();
    if router.extend([dialect.separator(), text.as_bytes()], &mut blocks) {
        router.record(attempt.choice.slot, &blocks, state.now_ms());
    }
}

fn dialect(kind: PathKind) -> Option<Dialect> {
    match kind {
        PathKind::ChatCompletions => Some(Dialect::ChatCompletions),
        PathKind::Completions => Some(Dialect::Completions),
        PathKind::Messages => Some(Dialect::Messages),
        PathKind::Responses => Some(Dialect::Responses),
        _ => None,
    }
}
