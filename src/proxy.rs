//! The gateway as Pingora sees it: one short method per phase of a request.
//!
//! A request's body is read whole in `request_filter`, so that the pod can be chosen by its prompt; [`replay`] gives it
//! back to Pingora. A pod is chosen in `upstream_peer`, again for each further try. A further try is made only when no
//! byte of the request can have reached an engine, so nothing is ever sent twice.
//!
//! What must be undone whatever happens (the pod's count of requests in flight) hangs on a guard in the context.

mod auth;
mod body;
mod connection;
mod context;
mod deadline;
mod error;
mod framing;
mod front;
mod headers;
mod intake;
mod local;
mod outcome;
mod pace;
mod queue;
mod recall;
mod replay;
mod rules;
mod selection;
mod sessions;
mod shelf;
mod spelling;
mod state;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{CONTENT_ENCODING, TRANSFER_ENCODING, UPGRADE};
use http::{Method, StatusCode};
use pingora_core::modules::http::HttpModules;
use pingora_core::protocols::Digest;
use pingora_core::upstreams::peer::HttpPeer;
use pingora_core::{Error, ErrorSource, ErrorType, Result};
use pingora_http::{RequestHeader, ResponseHeader};
use pingora_proxy::{FailToProxy, ProxyHttp, ProxyWarnLogContext, Session};

pub use context::RequestContext;
pub use front::{Front, FrontService, service as front_service};
pub use state::{Live, State};

use crate::fleet::ConnectionHandle;
use crate::usage::UsageScanner;
use error::ErrorAnswer;
use headers::RequestId;
use intake::Intake;
use spelling::{edit_request, edit_response};

pub struct Gateway {
    state: Arc<State>,
}

impl Gateway {
    pub fn new(state: Arc<State>) -> Self {
        Self { state }
    }
}

#[async_trait]
impl ProxyHttp for Gateway {
    type CTX = RequestContext;

    fn new_ctx(&self) -> RequestContext {
        RequestContext::new(self.state.live())
    }

    fn init_downstream_modules(&self, _modules: &mut HttpModules) {
        // Pingora's default adds a compression module; answers are never changed here.
    }

    async fn early_request_filter(
        &self,
        session: &mut Session,
        context: &mut RequestContext,
    ) -> Result<()> {
        connection::header_read(&session.downstream_session);
        context.open = Some(self.state.open_request());
        context.request_id = RequestId::of(&session.req_header().headers);
        context.client = session
            .client_addr()
            .and_then(|address| address.as_inet())
            .map(|address| address.ip());
        let downstream = &mut session.downstream_session;
        spelling::drop_from(downstream.req_header_mut())?;
        // Pingora takes a chunk without a size for the last one. What follows such a body may be part of it to others, so
        // it is never read as a request: after a chunked body the connection ends.
        let chunked = downstream
            .req_header()
            .headers
            .contains_key(TRANSFER_ENCODING);
        downstream.set_pipelining_enabled(!chunked);
        downstream.set_write_timeout(context.live.timeouts.client_write);
        if chunked || self.state.is_draining() {
            downstream.set_keepalive(None);
        }
        framing::check(downstream, &context.live.limits).map_err(|answer| context.fail(answer))
    }

    async fn request_filter(
        &self,
        session: &mut Session,
        context: &mut RequestContext,
    ) -> Result<bool> {
        match intake::take(&self.state, session, context).await? {
            Intake::Answered => Ok(true),
            Intake::Forward(body) => {
                context.body_length = body.len();
                context.may_upgrade = asks_for_websocket(session) && body.is_empty();
                if !context.may_upgrade {
                    replay::wrap(
                        session,
                        body,
                        &context.replay,
                        Arc::clone(&context.deadline),
                        self.state.draining(),
                    );
                }
                Ok(false)
            }
        }
    }

    async fn upstream_peer(
        &self,
        session: &mut Session,
        context: &mut RequestContext,
    ) -> Result<Box<HttpPeer>> {
        let peer = selection::next_peer(&self.state, session, context).await;
        context.deadline.try_started();
        peer
    }

    async fn connected_to_upstream(
        &self,
        _session: &mut Session,
        reused: bool,
        _peer: &HttpPeer,
        _fd: std::os::unix::io::RawFd,
        digest: Option<&Digest>,
        context: &mut RequestContext,
    ) -> Result<()> {
        let handle = digest.and_then(ConnectionHandle::of);
        if let Some(handle) = handle
            && context.body_length > 0
        {
            handle.coalesce();
        }
        if let Some(attempt) = &mut context.attempt {
            attempt.connection = handle.cloned();
            attempt.kept_connection = reused || handle.is_some_and(ConnectionHandle::was_kept);
            if !attempt.kept_connection {
                attempt.pod.connect_ok();
            }
        }
        Ok(())
    }

    async fn upstream_request_filter(
        &self,
        session: &mut Session,
        upstream: &mut RequestHeader,
        context: &mut RequestContext,
    ) -> Result<()> {
        let tls = session
            .digest()
            .is_some_and(|digest| digest.ssl_digest.is_some());
        edit_request(upstream, |headers| {
            headers::to_engine(headers, context, tls)
        })?;
        selection::record(&self.state, context);
        Ok(())
    }

    async fn upstream_response_filter(
        &self,
        _session: &mut Session,
        response: &mut ResponseHeader,
        context: &mut RequestContext,
    ) -> Result<()> {
        context.deadline.heard();
        let switches = response.status == StatusCode::SWITCHING_PROTOCOLS;
        if switches && !context.may_upgrade {
            let answer = ErrorAnswer::engine(
                StatusCode::BAD_GATEWAY,
                "the engine switched protocols without being asked to",
            );
            return Err(context.fail(answer).into_up());
        }
        if response.status.is_informational() && !switches {
            return Ok(());
        }
        context.replay.release_body();
        let answer = &mut context.answer;
        answer.status = response.status.as_u16();
        answer.from_engine = true;
        answer.stream = headers::is_event_stream(&response.headers);
        let plain = !response.headers.contains_key(CONTENT_ENCODING);
        if plain && response.status.is_success() && context.kind.reads_model() {
            answer.usage = Some(UsageScanner::default());
            context.answer.text = recall::watch(context, &response.headers);
        }
        Ok(())
    }

    async fn response_filter(
        &self,
        session: &mut Session,
        response: &mut ResponseHeader,
        context: &mut RequestContext,
    ) -> Result<()> {
        let (status, client) = (response.status, session.req_header().version);
        edit_response(response, |headers| {
            headers::fit_framing(headers, status, client);
            headers::to_client(headers, context);
        })
    }

    fn response_body_filter(
        &self,
        _session: &mut Session,
        body: &mut Option<Bytes>,
        end_of_stream: bool,
        context: &mut RequestContext,
    ) -> Result<Option<Duration>> {
        context.deadline.heard();
        if let Some(chunk) = body {
            context.answer.received(chunk);
            if let Some(attempt) = context.attempt.as_mut().filter(|_| !chunk.is_empty()) {
                attempt.in_flight.answer_began(context.answer.stream);
            }
        }
        if end_of_stream {
            context.answer.complete = true;
            if let Some(attempt) = &context.attempt {
                attempt.answered();
            }
        }
        Ok(None)
    }

    fn fail_to_connect(
        &self,
        _session: &mut Session,
        _peer: &HttpPeer,
        context: &mut RequestContext,
        mut error: Box<Error>,
    ) -> Box<Error> {
        // Nothing of the request has left, so another pod may have it.
        let retry = selection::connect_failed(&self.state, context, &error.to_string());
        error.set_retry(retry);
        error
    }

    fn error_while_proxy(
        &self,
        peer: &HttpPeer,
        session: &mut Session,
        error: Box<Error>,
        context: &mut RequestContext,
        _client_reused: bool,
    ) -> Box<Error> {
        let mut error = match error.etype() {
            // An answer that was chosen here; its context is for the client.
            ErrorType::HTTPStatus(_) => error,
            _ => error.more_context(format!("pod: {peer}")),
        };
        // The engine may have begun to read the request. It is sent again only where that can do no harm: a method
        // that changes nothing, on a kept connection that turned out to be closed.
        let harmless = session.req_header().method.is_safe() && context.body_length == 0;
        let attempt = context.attempt.as_ref();
        let kept = attempt.is_some_and(|attempt| attempt.kept_connection);
        let stale = kept && *error.esource() == ErrorSource::Upstream;
        error.set_retry(
            harmless && stale && session.response_written().is_none() && context.may_try_again(),
        );
        error
    }

    async fn fail_to_proxy(
        &self,
        session: &mut Session,
        error: &Error,
        context: &mut RequestContext,
    ) -> FailToProxy {
        replay::unwrap(session, &context.replay);
        let answer = outcome::answer_for(error, context);
        let Some(answer) = answer.filter(|_| session.response_written().is_none()) else {
            return FailToProxy {
                error_code: 0,
                can_reuse_downstream: false,
            };
        };
        // Pingora keeps no connection after an error, so the answer says that.
        session.set_keepalive(None);
        local::send_error(session, context, &answer).await;
        FailToProxy {
            error_code: answer.status.as_u16(),
            can_reuse_downstream: false,
        }
    }

    async fn logging(
        &self,
        session: &mut Session,
        error: Option<&Error>,
        context: &mut RequestContext,
    ) {
        replay::unwrap(session, &context.replay);
        outcome::account(&self.state, session, error, context);
        connection::request_done(&session.downstream_session);
    }

    fn suppress_error_log(
        &self,
        _session: &Session,
        _context: &RequestContext,
        error: &Error,
    ) -> bool {
        // The access line has the outcome; a client that leaves and an answer we chose are no faults of ours.
        *error.esource() == ErrorSource::Downstream
            || matches!(error.etype(), ErrorType::HTTPStatus(_))
    }

    fn suppress_proxy_warn_log(
        &self,
        _session: &Session,
        _context: &RequestContext,
        _error: &Error,
        _place: ProxyWarnLogContext,
    ) -> bool {
        true
    }

    fn request_summary(&self, _session: &Session, context: &RequestContext) -> String {
        // Pingora's own summary has the path with its query, which may carry a secret.
        format!("request {}", context.request_id)
    }
}

/// The one upgrade that is passed on. All others are taken off, and the request is an ordinary one.
fn asks_for_websocket(session: &Session) -> bool {
    let header = session.req_header();
    let wanted = header.headers.get(UPGRADE);
    session.is_upgrade_req()
        && header.method == Method::GET
        && wanted.is_some_and(|wanted| wanted.as_bytes().eq_ignore_ascii_case(b"websocket"))
}
