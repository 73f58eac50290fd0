//! Connections to engines, below HTTP/1.1.
//!
//! The head of a request waits for the beginning of its body, so that both leave in one write: Pingora writes and flushes
//! a head before it looks at the body, which for a small request is a second system call and packet.
//!
//! Between requests a connection is kept in [`IdleConnections`], which costs less than Pingora's pool. Pingora tells nobody
//! that it puts a connection back, but tests it first by reading a byte. After an answer's end nothing else is read, so
//! that this read is the sign: the connection is kept here, and Pingora is told that it has ended.

mod held_head;
mod idle;
#[cfg(test)]
mod tests;

use std::io::{self, Cursor, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use pingora_core::Result;
use pingora_core::connectors::http::custom::{Connection, Connector};
use pingora_core::connectors::{ConnectorOptions, TransportConnector};
use pingora_core::protocols::raw_connect::ProxyDigest;
use pingora_core::protocols::tls::CustomALPN;
use pingora_core::protocols::{ALPN, Digest, GetProxyDigest, Peek, Stream};
use pingora_core::upstreams::peer::Peer;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use self::held_head::HeldHead;
use self::idle::Idle;
pub use self::idle::IdleConnections;
use crate::wrapped::pass_on;

/// Makes the connections of peers whose protocol is [`protocol`].
pub struct EngineConnector {
    transport: TransportConnector,
    idle: Arc<IdleConnections>,
}

/// Marks the peers whose connections are made here: those that take HTTP/1.1 without TLS. It is never sent.
pub(super) fn protocol() -> ALPN {
    ALPN::Custom(CustomALPN::new(b"coalesced".to_vec()))
}

impl EngineConnector {
    pub fn new(options: Option<ConnectorOptions>, idle: Arc<IdleConnections>) -> Self {
        Self {
            transport: TransportConnector::new(options),
            idle,
        }
    }

    fn wrap(&self, idle: Idle, home: Option<Home>) -> Connection<()> {
        Connection::Stream(Box::new(EngineStream {
            stream: idle.stream,
            head: idle.head,
            handle: idle.handle,
            digest: idle.digest,
            home,
        }))
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
        let home = Home::of(peer, &self.idle);
        let kept = home.as_ref().and_then(|home| home.idle.take(&home.address));
        let connection = match kept {
            Some(kept) => {
                kept.handle.kept();
                kept
            }
            None => Idle::new(self.transport.new_stream(peer).await?),
        };
        // Pingora takes a connection from here for a new one, whatever is told: `Handle::was_kept` knows better.
        Ok((self.wrap(connection, home), false))
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

/// How a filter, which only has a connection's digest, and the connection tell each other.
#[derive(Clone, Default)]
pub(crate) struct Handle(Arc<Told>);

#[derive(Default)]
struct Told {
    body_follows: AtomicBool,
    answered: AtomicBool,
    was_kept: AtomicBool,
}

impl Handle {
    /// Of a connection that was made here.
    pub(crate) fn of(digest: &Digest) -> Option<&Self> {
        let data = digest.proxy_digest.as_ref()?.user_data.as_ref()?;
        data.downcast_ref()
    }

    /// Lets the next head wait for the body that follows it at once. The caller has that body.
    pub(crate) fn coalesce(&self) {
        self.0.body_follows.store(true, Ordering::Relaxed);
    }

    /// The answer was read to its end.
    pub(crate) fn answered(&self) {
        self.0.answered.store(true, Ordering::Relaxed);
    }

    /// The connection has served a request before this one.
    pub(crate) fn was_kept(&self) -> bool {
        self.0.was_kept.load(Ordering::Relaxed)
    }

    fn is_answered(&self) -> bool {
        self.0.answered.load(Ordering::Relaxed)
    }

    /// Something is written. Whether it is the head of a request whose body follows at once.
    fn write(&self) -> bool {
        // Read first: most writes follow no such word.
        let take =
            |told: &AtomicBool| told.load(Ordering::Relaxed) && told.swap(false, Ordering::Relaxed);
        take(&self.0.answered);
        take(&self.0.body_follows)
    }

    fn kept(&self) {
        self.0.was_kept.store(true, Ordering::Relaxed);
    }
}

/// Where a connection is kept between requests.
struct Home {
    address: SocketAddr,
    timeout: Duration,
    idle: Arc<IdleConnections>,
}

impl Home {
    fn of(peer: &impl Peer, idle: &Arc<IdleConnections>) -> Option<Self> {
        Some(Self {
            address: *peer.address().as_inet()?,
            timeout: peer.idle_timeout()?,
            idle: Arc::clone(idle),
        })
    }
}

struct EngineStream {
    stream: Stream,
    head: HeldHead,
    handle: Handle,
    /// Has [`Self::handle`].
    digest: Arc<ProxyDigest>,
    home: Option<Home>,
}

impl EngineStream {
    /// Keeps the connection for the next request. `false`: it has no place to stay.
    fn go_home(&mut self) -> bool {
        let Some(home) = self.home.take_if(|home| home.idle.has_room()) else {
            return false;
        };
        let nothing = Box::new(Cursor::new(Vec::new()));
        let idle = Idle {
            stream: std::mem::replace(&mut self.stream, nothing),
            head: std::mem::take(&mut self.head),
            handle: self.handle.clone(),
            digest: Arc::clone(&self.digest),
            until: Instant::now() + home.timeout,
        };
        home.idle.put(home.address, idle);
        true
    }
}

impl AsyncRead for EngineStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let read = Pin::new(&mut this.stream).poll_read(context, buffer);
        let tested = buffer.capacity() == 1 && this.handle.is_answered();
        if tested && read.is_pending() && this.head.is_empty() && this.go_home() {
            return Poll::Ready(Ok(()));
        }
        read
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
        if this.handle.write() {
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
        if this.handle.write() {
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
