//! How a request ended: the answer for an error, and the account of it in metrics and access log.

use std::sync::Arc;

use http::StatusCode;
use pingora_core::{Error, ErrorSource, ErrorType};
use pingora_proxy::Session;

use super::context::RequestContext;
use super::error::ErrorAnswer;
use super::state::State;

/// What the client is told about an error; `None` when it is gone.
pub(super) fn answer_for(error: &Error, context: &mut RequestContext) -> Option<ErrorAnswer> {
    if let Some(answer) = context.error.take() {
        return Some(answer);
    }
    if let ErrorType::HTTPStatus(504) = error.etype() {
        let reason = error.context.as_ref().map_or("the engine took too long", |context| context.as_str());
        return Some(ErrorAnswer::engine(StatusCode::GATEWAY_TIMEOUT, reason));
    }
    match error.esource() {
        ErrorSource::Downstream => match error.etype() {
            ErrorType::ReadTimedout => Some(ErrorAnswer::body_too_slow()),
            ErrorType::InvalidHTTPHeader | ErrorType::InvalidChunk => {
                Some(ErrorAnswer::bad_framing("the request is not valid HTTP"))
            }
            _ => None,
        },
        ErrorSource::Upstream => Some(engine_failure(error)),
        ErrorSource::Internal | ErrorSource::Unset => Some(ErrorAnswer::internal()),
    }
}

fn engine_failure(error: &Error) -> ErrorAnswer {
    match error.etype() {
        ErrorType::ConnectTimedout | ErrorType::ReadTimedout | ErrorType::WriteTimedout | ErrorType::TLSHandshakeTimedout => {
            ErrorAnswer::engine(StatusCode::GATEWAY_TIMEOUT, "the engine did not answer in time")
        }
        kind if is_connect_failure(kind) => {
            ErrorAnswer::engine(StatusCode::BAD_GATEWAY, "no connection to an engine could be made")
        }
        _ => ErrorAnswer::engine(
            StatusCode::BAD_GATEWAY,
            "the engine ended the connection before it answered, or answered with something that is not HTTP",
        ),
    }
}
