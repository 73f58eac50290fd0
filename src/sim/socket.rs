//! A client's connection that can be made to misbehave below HTTP.
//!
//! A request on the connection arms the [`Switch`]; the next flush acts on it. At a flush all that HTTP
//! had to say before has been written, so a death comes exactly behind the last event and never cuts it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Shared by the connection and the requests on it.
#[derive(Clone, Default)]
pub(super) struct Switch(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    death: Option<Death>,
    /// The connection's task, which may be another than that of the request.
    connection: Option<Waker>,
}

struct Death {
    last_words: Bytes,
    reset: bool,
}

impl Switch {
    /// Closes the connection, with a reset or in peace, and never returns.
    pub(super) async fn die(&self, reset: bool) -> ! {
        self.arm(Bytes::new(), reset).await
    }

    /// Writes these bytes to the socket in place of an answer, and closes it.
    pub(super) async fn say(&self, last_words: Bytes) -> ! {
        self.arm(last_words, false).await
    }

    async fn arm(&self, last_words: Bytes, reset: bool) -> ! {
        let connection = {
            let mut state = self.0.lock();
            state.death = Some(Death { last_words, reset });
            state.connection.take()
        };
        if let Some(connection) = connection {
            connection.wake();
        }
        match std::future::pending::<std::convert::Infallible>().await {}
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

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let read = Pin::new(&mut this.stream).poll_read(context, buffer);
        if read.is_pending() {
            let connection = &mut this.switch.0.lock().connection;
            match connection {
                Some(waker) => waker.clone_from(context.waker()),
                None => *connection = Some(context.waker().clone()),
            }
        }
        read
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, data)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(context, data)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let mut state = this.switch.0.lock();
        let Some(death) = &mut state.death else {
            drop(state);
            return Pin::new(&mut this.stream).poll_flush(context);
        };
        while death.last_words.has_remaining() {
            match Pin::new(&mut this.stream).poll_write(context, &death.last_words) {
                Poll::Ready(Ok(written)) => death.last_words.advance(written),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        if death.reset {
            this.stream.set_zero_linger()?;
        }
        Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}
