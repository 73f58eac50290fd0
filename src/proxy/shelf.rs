//! Memory of large bodies, kept for the next ones.
//!
//! Fresh memory comes from the kernel in pages that it clears one by one, which for a body of megabytes takes longer than
//! to read it. So a buffer that was in use a moment ago is used again. What is kept was in use together within that
//! moment, so the peak does not rise, and [`Shelf::clear_old`] gives back what nobody came for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;

/// Smaller buffers the allocator keeps itself.
const SMALLEST: usize = 512 << 10;
/// How long a buffer waits for its next use.
const KEPT_FOR: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct Shelf {
    /// The one used last stands last.
    buffers: Mutex<Vec<(Instant, Vec<u8>)>>,
}

impl Shelf {
    /// An empty buffer with room for at least so much.
    pub(super) fn take(&self, capacity: usize) -> Vec<u8> {
        if capacity >= SMALLEST {
            let mut buffers = self.buffers.lock();
            let fits = |(_, buffer): &(Instant, Vec<u8>)| buffer.capacity() >= capacity;
            if let Some(at) = buffers.iter().rposition(fits) {
                return buffers.remove(at).1;
            }
        }
        Vec::with_capacity(capacity)
    }

    pub(super) fn put(&self, mut buffer: Vec<u8>) {
        if buffer.capacity() >= SMALLEST {
            buffer.clear();
            self.buffers.lock().push((Instant::now(), buffer));
        }
    }

    /// The buffer's content as bytes whose memory comes back here.
    pub(super) fn lend(self: &Arc<Self>, buffer: Vec<u8>) -> Bytes {
        if buffer.capacity() < SMALLEST {
            return buffer.into();
        }
        Bytes::from_owner(Lent {
            buffer,
            shelf: Arc::clone(self),
        })
    }

    /// Frees what has waited for long.
    pub(super) fn clear_old(&self) {
        let now = Instant::now();
        let waiting = |(since, _): &(Instant, Vec<u8>)| now.duration_since(*since) >= KEPT_FOR;
        let old: Vec<_> = {
            let mut buffers = self.buffers.lock();
            let old = buffers.partition_point(waiting);
            buffers.drain(..old).collect()
        };
        // Given back to the kernel only now, where nobody waits for the lock.
        drop(old);
    }
}

struct Lent {
    buffer: Vec<u8>,
    shelf: Arc<Shelf>,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.buffer
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.shelf.put(std::mem::take(&mut self.buffer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_buffer_is_used_again_when_its_last_reader_is_gone() {
        let shelf = Arc::new(Shelf::default());
        let mut buffer = shelf.take(SMALLEST);
        let place = buffer.as_ptr();
        buffer.extend_from_slice(b"one");
        let body = shelf.lend(buffer);
        let reader = body.slice(1..);
        drop(body);
        let other = shelf.take(SMALLEST);
        assert_ne!(other.as_ptr(), place, "it is being read");
        assert_eq!(&*reader, b"ne");
        drop(reader);
        let again = shelf.take(SMALLEST);
        assert_eq!(again.as_ptr(), place);
        assert!(again.is_empty());
    }

    #[test]
    fn one_that_is_too_small_is_left_for_others() {
        let shelf = Arc::new(Shelf::default());
        shelf.put(Vec::with_capacity(2 * SMALLEST));
        shelf.put(Vec::with_capacity(SMALLEST));
        assert!(shelf.take(2 * SMALLEST).capacity() >= 2 * SMALLEST);
        assert_eq!(shelf.buffers.lock().len(), 1);
        assert!(shelf.take(3 * SMALLEST).capacity() >= 3 * SMALLEST);
        assert_eq!(shelf.buffers.lock().len(), 1);
    }

    #[test]
    fn small_buffers_are_not_kept_and_old_ones_not_for_long() {
        let shelf = Arc::new(Shelf::default());
        drop(shelf.lend(vec![1; SMALLEST / 2]));
        assert!(shelf.buffers.lock().is_empty());

        let now = Instant::now();
        for since in [now - 2 * KEPT_FOR, now + KEPT_FOR] {
            let buffer = (since, Vec::with_capacity(SMALLEST));
            shelf.buffers.lock().push(buffer);
        }
        shelf.clear_old();
        let left: Vec<_> = shelf
            .buffers
            .lock()
            .iter()
            .map(|(since, _)| *since)
            .collect();
        assert_eq!(left, [now + KEPT_FOR]);
    }
}
