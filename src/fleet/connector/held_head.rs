//! The head of a request that waits for its body, and leaves with it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::AsyncWrite;

/// Empty again once it is written; the next one takes its memory.
#[derive(Default)]
pub(super) struct HeldHead {
    bytes: Vec<u8>,
    written: usize,
}

impl HeldHead {
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Gives how much was taken: all.
    pub(super) fn hold(&mut self, data: &[u8]) -> usize {
        self.bytes.extend_from_slice(data);
        data.len()
    }

    /// Writes what is left of the head and of `data`, and gives how much of `data` was taken.
    pub(super) fn poll_write<W: AsyncWrite + Unpin>(
        &mut self,
        stream: &mut W,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            let left = &self.bytes[self.written..];
            let both = [IoSlice::new(left), IoSlice::new(data)];
            let written = ready!(Pin::new(&mut *stream).poll_write_vectored(context, &both))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            let Some(of_data) = written.checked_sub(left.len()) else {
                self.written += written;
                continue;
            };
            self.bytes.clear();
            self.written = 0;
            // Nothing taken would be an error to the caller, who has data.
            return match of_data {
                0 if !data.is_empty() => Pin::new(stream).poll_write(context, data),
                _ => Poll::Ready(Ok(of_data)),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::AsyncReadExt;

    use super::*;

    /// What arrives of a head and a body through a pipe that takes `room` bytes at a time.
    async fn through(room: usize, head: &'static [u8], body: &'static [u8]) -> Vec<u8> {
        let (mut sender, mut receiver) = tokio::io::duplex(room);
        let send = async move {
            let mut held = HeldHead::default();
            assert_eq!(held.hold(head), head.len());
            let mut rest = body;
            while !held.is_empty() || !rest.is_empty() {
                let taken = match held.is_empty() {
                    false => poll_fn(|context| held.poll_write(&mut sender, context, rest)).await,
                    true => {
                        poll_fn(|context| Pin::new(&mut sender).poll_write(context, rest)).await
                    }
                };
                rest = &rest[taken.expect("a write")..];
            }
        };
        let receive = async move {
            let mut all = Vec::new();
            receiver.read_to_end(&mut all).await.expect("a read");
            all
        };
        tokio::join!(send, receive).1
    }

    #[tokio::test]
    async fn head_and_body_arrive_whole_and_in_order_however_little_is_taken_at_a_time() {
        for room in [1, 2, 3, 4, 5, 8, 9, 64] {
            let arrived = through(room, b"head", b"body!").await;
            assert_eq!(arrived, b"headbody!", "{room} bytes at a time");
        }
    }

    #[tokio::test]
    async fn a_head_without_more_data_leaves_alone() {
        for room in [1, 3, 4, 64] {
            assert_eq!(through(room, b"head", b"").await, b"head");
        }
    }

    #[tokio::test]
    async fn a_stream_that_is_closed_is_an_error() {
        let (mut sender, receiver) = tokio::io::duplex(4);
        drop(receiver);
        let mut held = HeldHead::default();
        held.hold(b"head");
        let written = poll_fn(|context| held.poll_write(&mut sender, context, b"body")).await;
        assert_eq!(written.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
