//! Gives Pingora back a request body that was read before the pod was chosen.
//!
//! Pingora forwards only what is still unread of a body, and can replay at most 64 KiB of what was read. So once
//! the whole body is in memory, the downstream session is wrapped in [`ReplaySession`], which claims to have the
//! whole body in its retry buffer. Every try sends it from there, at the cost of a reference count.
//!
//! This is the only file that knows Pingora's hidden trait for sessions with a client. It goes when Pingora can buffer a body early.
//!
//! Invariants
//! - [`unwrap`] is called before anything is answered by us and before Pingora finishes the session; otherwise the
//!   client's keep-alive is lost, since a custom session is never reused.
//! - While wrapped, a read from the client only ever resolves with an error: the client is gone, or a [`Deadline`] passed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::HeaderMap;
use parking_lot::Mutex;
use pingora_core::protocols::http::custom::CustomMessageWrite;
use pingora_core::protocols::http::custom::server::Session as CustomSession;
use pingora_core::protocols::http::{HttpTask, ServerSession};
use pingora_core::protocols::l4::socket::SocketAddr;
use pingora_core::protocols::{Digest, SocketDigest};
use pingora_core::{Error, ErrorType, Result};
use pingora_http::{RequestHeader, ResponseHeader};
use pingora_proxy::Session;

use super::connection::{self, EarlyBytes};
use super::deadline::Deadline;

/// What the wrapped session and the request's context share.
#[derive(Default)]
pub(super) struct Replay {
    inner: Mutex<Option<Box<ServerSession>>>,
    body: Mutex<Option<Bytes>>,
}

impl Replay {
    /// Frees the body: called when the engine has answered, since nothing is sent again after that.
    pub(super) fn release_body(&self) {
        self.body.lock().take();
    }
}

/// Wraps the session's downstream so that `body` is what goes upstream, on every try.
pub(super) fn wrap(
    session: &mut Session,
    body: Bytes,
    replay: &Arc<Replay>,
    deadline: Arc<Deadline>,
    draining: Arc<AtomicBool>,
) {
    connection::request_read(&session.downstream_session);
    let early = connection::early_bytes(&session.downstream_session);
    let socket = session
        .downstream_session
        .digest()
        .and_then(|digest| digest.socket_digest.clone());
    let placeholder = Box::new(ServerSession::Custom(Box::new(())));
    let inner = std::mem::replace(&mut session.downstream_session, placeholder);
    *replay.body.lock() = (!body.is_empty()).then_some(body);
    *session.downstream_session = ServerSession::Custom(Box::new(ReplaySession {
        inner: Some(inner),
        replay: Arc::clone(replay),
        deadline,
        early,
        socket,
        draining,
    }));
}

/// Puts the real session back. Does nothing when the session is not wrapped.
pub(super) fn unwrap(session: &mut Session, replay: &Replay) {
    if session.downstream_session.as_custom().is_none() {
        return;
    }
    // Dropping the wrapper leaves the real session in the slot.
    *session.downstream_session = ServerSession::Custom(Box::new(()));
    if let Some(inner) = replay.inner.lock().take() {
        session.downstream_session = inner;
    }
}

/// Resolves when there is no sense in a request any more that has not been sent on yet: its client has left, or a limit has
/// passed. Never for a session that is not wrapped: what its client sends next is for the engine.
pub(super) async fn ended(session: &mut Session) -> Box<Error> {
    if session.downstream_session.as_custom().is_none() {
        return std::future::pending().await;
    }
    loop {
        if let Err(error) = session.downstream_session.read_body_or_idle(true).await {
            return error.into_down();
        }
    }
}

struct ReplaySession {
    /// `None` only inside `drop`.
    inner: Option<Box<ServerSession>>,
    replay: Arc<Replay>,
    deadline: Arc<Deadline>,
    early: Option<Arc<EarlyBytes>>,
    socket: Option<Arc<SocketDigest>>,
    /// Set when the gateway is about to end: answers then end their connections.
    draining: Arc<AtomicBool>,
}

/// Resolves when a client that sent more than its request has left; until it has sent more, its reads tell that.
async fn left_after_early_bytes(early: Option<&EarlyBytes>, socket: Option<&SocketDigest>) {
    let (Some(early), Some(socket)) = (early, socket) else {
        return std::future::pending().await;
    };
    // Polled with the read that may see early bytes, so it needs no waker of its own.
    std::future::poll_fn(|_| {
        if early.seen() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    loop {
        tokio::time::sleep(LOOK_AGAIN).await;
        let state = socket.tcp_info().map(|info| info.tcpi_state);
        if state != Some(TCP_ESTABLISHED) {
            return;
        }
    }
}

const LOOK_AGAIN: Duration = Duration::from_millis(250);
/// The kernel's number of that state.
const TCP_ESTABLISHED: u8 = 1;

impl Drop for ReplaySession {
    fn drop(&mut self) {
        *self.replay.inner.lock() = self.inner.take();
    }
}

#[expect(
    clippy::unreachable,
    reason = "the inner session is only taken by drop, after which nothing can call"
)]
impl ReplaySession {
    fn inner(&self) -> &ServerSession {
        match &self.inner {
            Some(inner) => inner,
            None => unreachable!(),
        }
    }

    fn inner_mut(&mut self) -> &mut ServerSession {
        match &mut self.inner {
            Some(inner) => inner,
            None => unreachable!(),
        }
    }
}

#[async_trait]
impl CustomSession for ReplaySession {
    fn is_body_done(&mut self) -> bool {
        true
    }

    fn is_body_empty(&mut self) -> bool {
        self.replay.body.lock().is_none()
    }

    fn enable_retry_buffering(&mut self) {}

    fn retry_buffer_truncated(&self) -> bool {
        false
    }

    fn get_retry_buffer(&self) -> Option<Bytes> {
        self.replay.body.lock().clone()
    }

    async fn read_body_bytes(&mut self) -> Result<Option<Bytes>> {
        Ok(None)
    }

    async fn drain_request_body(&mut self) -> Result<()> {
        Ok(())
    }

    async fn read_body_or_idle(&mut self, _no_body_expected: bool) -> Result<Option<Bytes>> {
        let Self {
            inner: Some(inner),
            deadline,
            early,
            socket,
            ..
        } = self
        else {
            return Error::e_explain(ErrorType::InternalError, "a session after its end");
        };
        let left = left_after_early_bytes(early.as_deref(), socket.as_deref());
        tokio::select! {
            biased;
            read = inner.read_body_or_idle(true) => read,
            () = left => Error::e_explain(ErrorType::ConnectionClosed, "left before its answer was complete"),
            expired = deadline.expired(), if deadline.is_set() => {
                Error::e_explain(ErrorType::HTTPStatus(504), expired)
            }
        }
    }

    fn req_header(&self) -> &RequestHeader {
        self.inner().req_header()
    }

    fn req_header_mut(&mut self) -> &mut RequestHeader {
        self.inner_mut().req_header_mut()
    }

    async fn write_response_header(
        &mut self,
        response: Box<ResponseHeader>,
        _end: bool,
    ) -> Result<()> {
        self.inner_mut().write_response_header(response).await
    }

    async fn write_response_header_ref(
        &mut self,
        response: &ResponseHeader,
        _end: bool,
    ) -> Result<()> {
        self.inner_mut().write_response_header_ref(response).await
    }

    async fn write_body(&mut self, data: Bytes, end: bool) -> Result<()> {
        self.inner_mut().write_response_body(data, end).await
    }

    async fn write_trailers(&mut self, trailers: HeaderMap) -> Result<()> {
        self.inner_mut().write_response_trailers(trailers).await
    }

    async fn response_duplex_vec(&mut self, tasks: Vec<HttpTask>) -> Result<bool> {
        if self.draining.load(Ordering::Relaxed) {
            // Told in the answer's head, if that is still to be written.
            self.inner_mut().set_keepalive(None);
        }
        self.inner_mut().response_duplex_vec(tasks).await
    }

    fn set_read_timeout(&mut self, timeout: Option<Duration>) {
        self.inner_mut().set_read_timeout(timeout);
    }

    fn get_read_timeout(&self) -> Option<Duration> {
        self.inner().get_read_timeout()
    }

    fn set_write_timeout(&mut self, timeout: Option<Duration>) {
        self.inner_mut().set_write_timeout(timeout);
    }

    fn get_write_timeout(&self) -> Option<Duration> {
        self.inner().get_write_timeout()
    }

    fn set_total_drain_timeout(&mut self, timeout: Option<Duration>) {
        self.inner_mut().set_total_drain_timeout(timeout);
    }

    fn get_total_drain_timeout(&self) -> Option<Duration> {
        self.inner().get_total_drain_timeout()
    }

    fn request_summary(&self) -> String {
        self.inner().request_summary()
    }

    fn response_written(&self) -> Option<&ResponseHeader> {
        self.inner().response_written()
    }

    async fn shutdown(&mut self, _code: u32, _context: &str) {
        self.inner_mut().shutdown().await;
    }

    async fn finish(&mut self) -> Result<()> {
        self.inner_mut().finish_body().await
    }

    fn body_bytes_sent(&self) -> usize {
        self.inner().body_bytes_sent()
    }

    fn body_bytes_read(&self) -> usize {
        self.inner().body_bytes_read()
    }

    fn digest(&self) -> Option<&Digest> {
        self.inner().digest()
    }

    fn digest_mut(&mut self) -> Option<&mut Digest> {
        self.inner_mut().digest_mut()
    }

    fn client_addr(&self) -> Option<&SocketAddr> {
        self.inner().client_addr()
    }

    fn server_addr(&self) -> Option<&SocketAddr> {
        self.inner().server_addr()
    }

    fn pseudo_raw_h1_request_header(&self) -> Bytes {
        self.inner().to_h1_raw()
    }

    async fn finish_custom(&mut self) -> Result<()> {
        Ok(())
    }

    fn take_custom_message_reader(
        &mut self,
    ) -> Option<Box<dyn futures::Stream<Item = Result<Bytes>> + Unpin + Send + Sync + 'static>>
    {
        None
    }

    fn restore_custom_message_reader(
        &mut self,
        _reader: Box<dyn futures::Stream<Item = Result<Bytes>> + Unpin + Send + Sync + 'static>,
    ) -> Result<()> {
        Ok(())
    }

    fn take_custom_message_writer(&mut self) -> Option<Box<dyn CustomMessageWrite>> {
        None
    }

    fn restore_custom_message_writer(
        &mut self,
        _writer: Box<dyn CustomMessageWrite>,
    ) -> Result<()> {
        Ok(())
    }
}
