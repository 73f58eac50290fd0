//! How a request ended: the answer for an error, and the account of it in metrics and access log.

use std::time::SystemTime;

use http::StatusCode;
use pingora_core::{Error, ErrorSource, ErrorType};
use pingora_proxy::Session;

use super::context::RequestContext;
use super::error::ErrorAnswer;
use super::state::State;
use crate::capture::Captured;
use crate::fleet::client::is_connect;
use crate::metrics::{EndedBy, RequestEnd};
use crate::telemetry::AccessLine;

/// A client that left before its answer began, as nginx logs it.
const CLIENT_CLOSED: u16 = 499;

/// What the client is told about an error; `None` when it is gone.
pub(super) fn answer_for(error: &Error, context: &mut RequestContext) -> Option<ErrorAnswer> {
    if let Some(answer) = context.error.take() {
        return Some(answer);
    }
    if let ErrorType::HTTPStatus(504) = error.etype() {
        let reason = error
            .context
            .as_ref()
            .map_or("the engine took too long", |context| context.as_str());
        return Some(ErrorAnswer::engine(StatusCode::GATEWAY_TIMEOUT, reason));
    }
    match error.esource() {
        ErrorSource::Downstream => match error.etype() {
            ErrorType::ReadTimedout => Some(ErrorAnswer::body_too_slow()),
            ErrorType::InvalidHTTPHeader => {
                Some(ErrorAnswer::bad_framing("the request is not valid HTTP"))
            }
            // Pingora's names for these two are hidden.
            ErrorType::Custom("InvalidChunk" | "InvalidTrailerEnd") => Some(
                ErrorAnswer::bad_framing("the chunked body is not valid HTTP"),
            ),
            _ => None,
        },
        ErrorSource::Upstream => Some(engine_failure(error.etype())),
        ErrorSource::Internal | ErrorSource::Unset => Some(ErrorAnswer::internal()),
    }
}

fn engine_failure(kind: &ErrorType) -> ErrorAnswer {
    let (status, message) = match kind {
        ErrorType::ConnectTimedout | ErrorType::TLSHandshakeTimedout => (
            StatusCode::GATEWAY_TIMEOUT,
            "no connection to an engine within timeouts.connect",
        ),
        ErrorType::ReadTimedout | ErrorType::WriteTimedout => (
            StatusCode::GATEWAY_TIMEOUT,
            "the engine did not answer in time",
        ),
        kind if is_connect(kind) => (
            StatusCode::BAD_GATEWAY,
            "no connection to an engine could be made",
        ),
        _ => (
            StatusCode::BAD_GATEWAY,
            "the engine ended the connection before it answered, or answered with something that is not HTTP",
        ),
    };
    ErrorAnswer::engine(status, message)
}

/// Takes the request off the pod's count and writes it down.
pub(super) fn account(
    state: &State,
    session: &Session,
    error: Option<&Error>,
    context: &mut RequestContext,
) {
    let attempt = context.attempt.take();
    let ended_by = ended_by(error, context);
    if ended_by == EndedBy::Client && context.answer.status == 0 {
        context.answer.status = CLIENT_CLOSED;
    }
    let usage = context
        .answer
        .usage
        .take()
        .and_then(|scanner| scanner.finish());
    if let (Some(attempt), Some(usage)) = (&attempt, usage) {
        attempt.pod.add_output_tokens(usage.completion);
    }
    let routing = context.routing.as_ref();
    let model = routing.and_then(|routing| routing.model.as_deref());
    let answer = &context.answer;
    let total = context.started.elapsed();
    let first_byte = answer
        .first_byte
        .map(|at| at.duration_since(context.started));
    state.metrics.model(model).request_ended(&RequestEnd {
        path: context.kind.label(),
        status: answer.status,
        ended_by,
        duration: total,
        first_byte,
        request_bytes: context.body_length as u64,
        response_bytes: answer.bytes,
        usage,
    });
    if let (Some(capture), Some(routing)) = (&state.capture, routing) {
        let session_id = session.req_header().headers.get("x-session-id");
        capture.write(&Captured {
            time: SystemTime::now() - total,
            path: context.kind.label(),
            model,
            pod: attempt.as_ref().map(|attempt| attempt.pod.name()),
            session: session_id.map(|id| id.as_bytes()),
            status: answer.status,
            body_bytes: context.body_length as u64,
            blocks: &routing.blocks,
            block_size: context.live.router.settings().prefix_cache.block_size,
            usage,
            output_bytes: answer.bytes,
            stream: answer.stream,
            first_byte,
            total,
        });
    }
    let Some(access) = &state.access else {
        return;
    };
    let header = session.req_header();
    access.write(&AccessLine {
        time: SystemTime::now(),
        request_id: context.request_id.as_str(),
        client: context.client,
        method: header.method.as_str(),
        path: header.uri.path(),
        status: answer.status,
        model,
        pod: attempt.as_ref().map(|attempt| attempt.pod.name()),
        strategy: routing.map(|routing| routing.plan.requested()),
        reason: attempt
            .as_ref()
            .map(|attempt| attempt.choice.reason.as_str()),
        matched_blocks: attempt
            .as_ref()
            .map_or(0, |attempt| attempt.choice.matched_blocks),
        total_blocks: routing
            .filter(|routing| routing.plan.needs_prefix())
            .map_or(0, |routing| routing.blocks.total_blocks()),
        request_bytes: context.body_length as u64,
        response_bytes: answer.bytes,
        usage,
        first_byte,
        total,
        tries: context.tries,
        ended_by,
    });
}

fn ended_by(error: Option<&Error>, context: &RequestContext) -> EndedBy {
    let Some(error) = error else {
        // An engine's own error is the engine's word, passed on in full.
        return if context.answer.from_engine || context.answer.status < 500 {
            EndedBy::Ok
        } else {
            EndedBy::Gateway
        };
    };
    match error.esource() {
        ErrorSource::Downstream => EndedBy::Client,
        ErrorSource::Upstream => EndedBy::Engine,
        ErrorSource::Internal | ErrorSource::Unset => EndedBy::Gateway,
    }
}
