//! One connection to an engine, below HTTP/1.1: the head of a request waits for the beginning of its body, so that both
//! leave in one write.
//!
//! Pingora writes and flushes a head before it looks at the body. For a small request that is a second system call
//! and packet. [`coalesce`] says that the body is at hand.

mod held_head;

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use pingora_core::Result;
use pingora_core::connectors::http::custom::{Connection, Connector};
use pingora_core::connectors::{ConnectorOptions, TransportConnector};
use pingora_core::protocols::raw_connect::ProxyDigest;
use pingora_core::protocols::tls::CustomALPN;
use pingora_core::protocols::{ALPN, Digest, GetProxyDigest, Peek, Stream};
use pingora_core::upstreams::peer::Peer;
use pingora_http::ResponseHeader;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use self::held_head::HeldHead;
use crate::wrapped::pass_on;

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
    if let Some(follows) = told {
        follows.0.store(true, Ordering::Relaxed);
    }
}

/// How a filter, which only has a connection's digest, tells the connection.
#[derive(Clone, Default)]
struct BodyFollows(Arc<AtomicBool>);

impl BodyFollows {
    fn take(&self) -> bool {
        // Read first: most writes follow no such word.
        self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::Relaxed)
    }
}

struct EngineStream {
    stream: Stream,
    head: HeldHead,
    body_follows: BodyFollows,
    /// Has [`Self::body_follows`].
    digest: Arc<ProxyDigest>,
}

impl EngineStream {
    fn new(stream: Stream) -> Self {
        // The digest is of an HTTP proxy on the way; of its answer there is none here.
        let (response, ()) = http::Response::new(()).into_parts();
        let response = Box::new(ResponseHeader::from(response));
        let body_follows = BodyFollows::default();
        let told = Box::new(body_follows.clone());
        Self {
            stream,
            head: HeldHead::default(),
            body_follows,
            digest: Arc::new(ProxyDigest::new(response, Some(told))),
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
            return this.head.poll_write(&mut this.stream, context, data);
        }
        if this.body_follows.take() {
            return Poll::Ready(Ok(this.head.hold(data)));
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
            let first = first.map_or(&[][..], |part| part);
            return this.head.poll_write(&mut this.stream, context, first);
        }
        if this.body_follows.take() {
            return Poll::Ready(Ok(data.iter().map(|part| this.head.hold(part)).sum()));
        }
        Pin::new(&mut this.stream).poll_write_vectored(context, data)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

pass_on!(EngineStream);

impl GetProxyDigest for EngineStream {
    fn get_proxy_digest(&self) -> Option<Arc<ProxyDigest>> {
        Some(Arc::clone(&self.digest))
    }
}

#[async_trait]
impl Peek for EngineStream {
    async fn try_peek(&mut self, buffer: &mut [u8]) -> io::Result<bool> {
        self.stream.try_peek(buffer).await
    }
}
