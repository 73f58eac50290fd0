//! A client's connection that can be made to misbehave below HTTP.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Shared by the connection and the requests on it.
#[derive(Clone, Default)]
pub(super) struct Switch(Arc<Mutex<Mode>>);

#[derive(Default)]
enum Mode {
    #[default]
    Normal,
    /// Closing it resets it.
    Reset,
    /// These bytes are written in place of whatever HTTP writes.
    Raw(Bytes),
}

impl Switch {
    pub(super) fn reset(&self) {
        *self.0.lock() = Mode::Reset;
    }

    pub(super) fn raw(&self, bytes: Bytes) {
        *self.0.lock() = Mode::Raw(bytes);
    }
}

pub(super) struct Socket {
    stream: TcpStream,
    switch: Switch,
}

impl Socket {
    pub(super) fn new(stream: TcpStream, switch: Switch) -> Self {
        Self { stream, switch }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if matches!(*self.switch.0.lock(), Mode::Reset) {
            // If that fails the socket is gone already.
            let _ = self.stream.set_zero_linger();
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let mut mode = this.switch.0.lock();
        let Mode::Raw(raw) = &mut *mode else {
            drop(mode);
            return Pin::new(&mut this.stream).poll_write(context, data);
        };
        while raw.has_remaining() {
            match Pin::new(&mut this.stream).poll_write(context, raw) {
                Poll::Ready(Ok(written)) => raw.advance(written),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(data.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}
