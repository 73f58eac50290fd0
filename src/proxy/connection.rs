//! One client connection, below HTTP: what Pingora's own reading and writing of HTTP/1.1 leaves open.
//!
//! - The head of a request must be complete within a fixed time; single bytes do not extend it.
//! - Bytes of an answer never wait in the write buffer while the gateway waits for more: Pingora does not flush an
//!   answer with a Content-Length until it is complete, so the flush happens here, when the connection is next read.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use pingora_core::protocols::http::ServerSession;
use pingora_core::protocols::raw_connect::ProxyDigest;
use pingora_core::protocols::{GetProxyDigest, Peek, Stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::wrapped::pass_on;

/// Tells the connection that carries `session` that the head of a request has been read.
pub(super) fn header_read(session: &ServerSession) {
    if let Some(connection) = of(session) {
        connection.reading_header.store(false, Ordering::Relaxed);
    }
}

/// Tells it that the next bytes belong to the head of the next request.
pub(super) fn request_done(session: &ServerSession) {
    if let Some(connection) = of(session) {
        connection.reading_header.store(true, Ordering::Relaxed);
        connection.early.answering.store(false, Ordering::Relaxed);
        connection.early.seen.store(false, Ordering::Relaxed);
    }
}

/// Tells it that the request has been read whole: what comes now is early for the next one.
pub(super) fn request_read(session: &ServerSession) {
    if let Some(connection) = of(session) {
        connection.early.answering.store(true, Ordering::Relaxed);
    }
}

/// Whether the client has sent more while it waits for its answer. `None` for HTTP/2.
pub(super) fn early_bytes(session: &ServerSession) -> Option<Arc<EarlyBytes>> {
    of(session).map(|connection| Arc::clone(&connection.early))
}

/// Bytes of a next request. Pingora keeps the first and reads no more, so from then on a client that leaves is not seen.
#[derive(Default)]
pub(super) struct EarlyBytes {
    answering: AtomicBool,
    seen: AtomicBool,
}

impl EarlyBytes {
    pub(super) fn seen(&self) -> bool {
        self.seen.load(Ordering::Relaxed)
    }
}

/// `None` for HTTP/2, whose streams share a connection.
fn of(session: &ServerSession) -> Option<&Connection> {
    let stream = session.as_http1()?.stream();
    stream.as_any().downcast_ref::<Connection>()
}

pub(super) struct Connection {
    stream: Stream,
    header_limit: Option<Duration>,
    /// Set while the head of a request is expected.
    reading_header: AtomicBool,
    header_deadline: Option<Instant>,
    /// Made only when the gateway has to wait for the rest of a head.
    header_timer: Option<Pin<Box<Sleep>>>,
    /// Bytes were written that may not have been flushed.
    unflushed: bool,
    early: Arc<EarlyBytes>,
}

impl Connection {
    pub(super) fn new(stream: Stream, header_limit: Option<Duration>) -> Self {
        // The clock of a connection's first head starts when it is accepted, of a later one at its first byte.
        Self {
            stream,
            header_limit,
            reading_header: AtomicBool::new(true),
            header_deadline: header_limit.map(|limit| Instant::now() + limit),
            header_timer: None,
            unflushed: false,
            early: Arc::default(),
        }
    }

    fn poll_header_timer(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(deadline) = self.header_deadline else {
            return Poll::Pending;
        };
        let timer = self
            .header_timer
            .get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        timer.as_mut().poll(context)
    }

    /// Bytes of a head have been read.
    fn header_bytes_read(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(deadline) = self.header_deadline else {
            if !bytes.is_empty() {
                self.header_deadline = self.header_limit.map(|limit| Instant::now() + limit);
            }
            return Ok(());
        };
        if bytes.starts_with(b"PRI") {
            // HTTP/2: its streams have no head of their own on the connection.
            self.reading_header.store(false, Ordering::Relaxed);
        } else if Instant::now() >= deadline {
            return Err(header_timed_out());
        }
        Ok(())
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.unflushed {
            // Progress goes on at the next poll if the socket is full: the task is woken when it can be written.
            if let Poll::Ready(flushed) = Pin::new(&mut this.stream).poll_flush(context) {
                this.unflushed = false;
                flushed?;
            }
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(context, buffer);
        if !this.reading_header.load(Ordering::Relaxed) {
            this.header_deadline = None;
            this.header_timer = None;
            if buffer.filled().len() > before && this.early.answering.load(Ordering::Relaxed) {
                this.early.seen.store(true, Ordering::Relaxed);
            }
            return read;
        }
        match read {
            Poll::Ready(Ok(())) => Poll::Ready(this.header_bytes_read(&buffer.filled()[before..])),
            Poll::Pending if this.poll_header_timer(context).is_ready() => {
                Poll::Ready(Err(header_timed_out()))
            }
            other => other,
        }
    }
}

fn header_timed_out() -> io::Error {
    io::Error::new(
        io::ErrorKind::TimedOut,
        "request head not complete within limits.header_timeout",
    )
}

impl AsyncWrite for Connection {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.unflushed = true;
        Pin::new(&mut this.stream).poll_write(context, data)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = Pin::new(&mut this.stream).poll_flush(context);
        if matches!(flushed, Poll::Ready(Ok(()))) {
            this.unflushed = false;
        }
        flushed
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.unflushed = true;
        Pin::new(&mut this.stream).poll_write_vectored(context, data)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

pass_on!(Connection);

impl GetProxyDigest for Connection {
    fn get_proxy_digest(&self) -> Option<Arc<ProxyDigest>> {
        self.stream.get_proxy_digest()
    }
}

#[async_trait]
impl Peek for Connection {
    /// Waits for as many bytes as the buffer holds, so it too is bounded by the time for a head.
    async fn try_peek(&mut self, buffer: &mut [u8]) -> io::Result<bool> {
        let peek = self.stream.try_peek(buffer);
        match self.header_deadline {
            Some(deadline) => tokio::time::timeout_at(deadline, peek)
                .await
                .unwrap_or_else(|_| Err(header_timed_out())),
            None => peek.await,
        }
    }
}
