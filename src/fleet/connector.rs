//! One connection to an engine, below HTTP/1.1: the head of a request waits for the beginning of its body, so that both
//! leave in one write.
//!
//! Pingora writes and flushes a head before it looks at the body. For a small request that is a second packet, and a second
//! time that the engine is woken. [`coalesce`] says that the body is at hand.

use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use async_trait::async_trait;
use pingora_core::Result;
use pingora_core::connectors::http::custom::{Connection, Connector};
use pingora_core::connectors::{ConnectorOptions, TransportConnector};
use pingora_core::protocols::raw_connect::ProxyDigest;
use pingora_core::protocols::tls::{CustomALPN, SslDigest};
use pingora_core::protocols::{
    ALPN, Digest, GetProxyDigest, GetSocketDigest, GetTimingDigest, Peek, Shutdown, SocketDigest,
    Ssl, Stream, TimingDigest, UniqueID, UniqueIDType,
};
use pingora_core::upstreams::peer::Peer;
use pingora_http::ResponseHeader;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Makes the connections of peers whose protocol is [`protocol`]. They are kept in Pingora's pool as all others.
pub struct EngineConnector {
    transport: TransportConnector,
}

/// Marks the peers whose connections are made here: those that take HTTP/1.1 without TLS. It is never sent.
pub(super) fn protocol() -> ALPN {
    ALPN::Custom(CustomALPN::new(b"coalesced".to_vec()))
}

impl EngineConnector {
    pub fn new(options: Option<ConnectorOptions>) -> Self {
        Self {
            transport: TransportConnector::new(options),
        }
    }
}

#[async_trait]
impl Connector for EngineConnector {
    /// There are none: HTTP/1.1 is Pingora's own.
    type Session = ();

    async fn get_http_session<P: Peer + Send + Sync + 'static>(
        &self,
        peer: &P,
    ) -> Result<(Connection<()>, bool)> {
        let stream = self.transport.new_stream(peer).await?;
        let stream = EngineStream::new(stream);
        Ok((Connection::Stream(Box::new(stream)), false))
    }

    async fn reused_http_session<P: Peer + Send + Sync + 'static>(&self, _peer: &P) -> Option<()> {
        None
    }

    async fn release_http_session<P: Peer + Send + Sync + 'static>(
        &self,
        (): (),
        _peer: &P,
        _idle_timeout: Option<Duration>,
    ) {
    }
}

/// Lets the next head on the connection of `digest` wait for the body that follows it at once. The caller has that body.
pub(crate) fn coalesce(digest: Option<&Digest>) {
    let told = digest
        .and_then(|digest| digest.proxy_digest.as_ref()?.user_data.as_ref())
        .and_then(|data| data.downcast_ref::<BodyFollows>());
    if let Some(BodyFollows(follows)) = told {
        follows.store(true, Ordering::Relaxed);
    }
}

/// How a filter, which only has a connection's digest, tells the connection.
struct BodyFollows(AtomicBool);

struct EngineStream {
    stream: Stream,
    /// A head that has not been written yet.
    head: Vec<u8>,
    /// As much of it as has been.
    head_written: usize,
    /// Has [`BodyFollows`].
    told: Arc<ProxyDigest>,
}

impl EngineStream {
    fn new(stream: Stream) -> Self {
        // The digest is of an HTTP proxy on the way; of its answer there is none here.
        let (response, ()) = http::Response::new(()).into_parts();
        let follows = BodyFollows(AtomicBool::new(false));
        Self {
            stream,
            head: Vec::new(),
            head_written: 0,
            told: Arc::new(ProxyDigest::new(
                Box::new(ResponseHeader::from(response)),
                Some(Box::new(follows)),
            )),
        }
    }

    fn take_body_follows(&self) -> bool {
        let data = self.told.user_data.as_ref();
        data.and_then(|data| data.downcast_ref::<BodyFollows>())
            .is_some_and(|BodyFollows(follows)| follows.swap(false, Ordering::Relaxed))
    }

    /// Writes what is left of the head and of `data`, and gives how much of `data` was taken.
    fn poll_write_with_head(
        &mut self,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            let head = &self.head[self.head_written..];
            let both = [IoSlice::new(head), IoSlice::new(data)];
            let head_left = head.len();
            let written = ready!(Pin::new(&mut self.stream).poll_write_vectored(context, &both))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.head_written += written.min(head_left);
            if written > head_left || (written == head_left && data.is_empty()) {
                self.head.clear();
                self.head_written = 0;
                return Poll::Ready(Ok(written - head_left));
            }
            if written == head_left {
                self.head.clear();
                self.head_written = 0;
                return Pin::new(&mut self.stream).poll_write(context, data);
            }
        }
    }
}

impl AsyncRead for EngineStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for EngineStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if !this.head.is_empty() {
            return this.poll_write_with_head(context, data);
        }
        if this.take_body_follows() {
            this.head.extend_from_slice(data);
            return Poll::Ready(Ok(data.len()));
        }
        Pin::new(&mut this.stream).poll_write(context, data)
    }

    /// A head that waits for its body stays: the body is written next.
    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    /// A head that still waits belongs to a request that was given up: the engine never hears of it.
    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if !this.head.is_empty() {
            let first = data.iter().find(|part| !part.is_empty());
            return this.poll_write_with_head(context, first.map_or(&[], |part| part));
        }
        if this.take_body_follows() {
            data.iter()
                .for_each(|part| this.head.extend_from_slice(part));
            return Poll::Ready(Ok(this.head.len()));
        }
        Pin::new(&mut this.stream).poll_write_vectored(context, data)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

impl fmt::Debug for EngineStream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stream.fmt(formatter)
    }
}

#[async_trait]
impl Shutdown for EngineStream {
    async fn shutdown(&mut self) {
        self.stream.shutdown().await;
    }
}

impl UniqueID for EngineStream {
    fn id(&self) -> UniqueIDType {
        self.stream.id()
    }
}

impl Ssl for EngineStream {
    fn get_ssl_digest(&self) -> Option<Arc<SslDigest>> {
        self.stream.get_ssl_digest()
    }

    fn selected_alpn_proto(&self) -> Option<ALPN> {
        self.stream.selected_alpn_proto()
    }
}

impl GetTimingDigest for EngineStream {
    fn get_timing_digest(&self) -> Vec<Option<TimingDigest>> {
        self.stream.get_timing_digest()
    }

    fn get_read_pending_time(&self) -> Duration {
        self.stream.get_read_pending_time()
    }

    fn get_write_pending_time(&self) -> Duration {
        self.stream.get_write_pending_time()
    }
}

impl GetProxyDigest for EngineStream {
    fn get_proxy_digest(&self) -> Option<Arc<ProxyDigest>> {
        Some(Arc::clone(&self.told))
    }
}

impl GetSocketDigest for EngineStream {
    fn get_socket_digest(&self) -> Option<Arc<SocketDigest>> {
        self.stream.get_socket_digest()
    }
}

#[async_trait]
impl Peek for EngineStream {
    async fn try_peek(&mut self, buffer: &mut [u8]) -> io::Result<bool> {
        self.stream.try_peek(buffer).await
    }
}
