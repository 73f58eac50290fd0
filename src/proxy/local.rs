//! Answers the gateway gives itself.

use bytes::Bytes;
use http::{Method, StatusCode};
use pingora_core::{Error, Result};
use pingora_http::ResponseHeader;
use pingora_proxy::Session;

use super::body;
use super::context::RequestContext;
use super::error::ErrorAnswer;
use super::headers;
use super::intake::Refusal;
use super::spelling::edit_response;
use super::state::State;

pub(super) fn is_health(method: &Method, path: &str) -> bool {
    (method == Method::GET || method == Method::HEAD) && path == "/health"
}

/// Well as long as one pod can take a request.
pub(super) async fn health(
    state: &State,
    session: &mut Session,
    context: &mut RequestContext,
) -> Result<(), Refusal> {
    if !state.fleet.snapshot().ready() {
        return Err(ErrorAnswer::no_ready_pod(None).into());
    }
    send(
        session,
        context,
        StatusCode::OK,
        &[],
        Bytes::from_static(b"{\"status\":\"ok\"}"),
    )
    .await?;
    Ok(())
}

pub(super) fn is_model_list(method: &Method, path: &str) -> bool {
    (method == Method::GET || method == Method::HEAD) && path.trim_end_matches('/') == "/v1/models"
}

/// What the pods serve, each name once.
pub(super) async fn models(
    state: &State,
    session: &mut Session,
    context: &mut RequestContext,
) -> Result<(), Refusal> {
    let snapshot = state.fleet.snapshot();
    let data: Vec<_> = snapshot
        .model_names()
        .into_iter()
        .map(|name| {
            serde_json::json!({"id": name, "object": "model", "created": 0, "owned_by": "warmgate"})
        })
        .collect();
    let list = serde_json::json!({"object": "list", "data": data});
    send(
        session,
        context,
        StatusCode::OK,
        &[],
        list.to_string().into(),
    )
    .await?;
    Ok(())
}

/// Answers with an error before the request was sent on.
pub(super) async fn refuse(
    session: &mut Session,
    context: &mut RequestContext,
    answer: &ErrorAnswer,
) {
    // What the client still sends cannot be told from its next request, so the connection ends.
    let unread = !session.downstream_session.is_body_done();
    if answer.close || unread {
        session.set_keepalive(None);
    }
    if send_error(session, context, answer).await && unread {
        body::linger(&mut session.downstream_session).await;
    }
}

/// Sends an error answer; `false` when the client is gone.
pub(super) async fn send_error(
    session: &mut Session,
    context: &mut RequestContext,
    answer: &ErrorAnswer,
) -> bool {
    let mut extra: Vec<(&'static str, String)> = answer.header.clone().into_iter().collect();
    if let Some(wait) = answer.retry_after {
        // Never 0, which would mean at once.
        let seconds = wait.as_secs_f64().ceil().max(1.0);
        extra.push(("retry-after", seconds.to_string()));
    }
    if answer.status == StatusCode::UNAUTHORIZED {
        extra.push(("www-authenticate", "Bearer".to_owned()));
    }
    send(
        session,
        context,
        answer.status,
        &extra,
        answer.body().into(),
    )
    .await
    .inspect_err(|error| {
        log::debug!(
            "request {}: the client left before its error answer: {error}",
            context.request_id
        )
    })
    .is_ok()
}

async fn send(
    session: &mut Session,
    context: &mut RequestContext,
    status: StatusCode,
    extra: &[(&'static str, String)],
    body: Bytes,
) -> Result<()> {
    let mut response = ResponseHeader::build_no_case(status, Some(12))?;
    response.insert_header(http::header::CONTENT_TYPE, "application/json")?;
    response.insert_header(http::header::CONTENT_LENGTH, body.len())?;
    for (name, value) in extra {
        response.insert_header(*name, value)?;
    }
    edit_response(&mut response, |headers| {
        headers::to_client(headers, context)
    })?;
    context.answer.status = status.as_u16();
    let is_head = session.req_header().method == Method::HEAD;
    session
        .write_response_header(Box::new(response), is_head)
        .await
        .map_err(Error::into_down)?;
    if !is_head {
        context.answer.bytes += body.len() as u64;
        session
            .write_response_body(Some(body), true)
            .await
            .map_err(Error::into_down)?;
    }
    context.answer.complete = true;
    Ok(())
}
