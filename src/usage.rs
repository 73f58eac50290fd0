//! Finds the token counts in an engine's answer, however the answer is cut, without keeping it.
//!
//! The caller feeds every chunk of an answer (a stream of server-sent events or one JSON document,
//! not compressed) and asks once, at the end. An answer in one chunk is held as it is. Of a longer
//! one bytes are copied: the first [`HEAD`] (the Anthropic stream tells the prompt's tokens in its
//! first event) and the last [`TAIL`] (everything else is told last). Nothing is decoded before
//! the end and nothing grows.
//!
//! Invariants: work per chunk is at most a copy of `HEAD + TAIL` bytes, whatever the chunk's size;
//! only a key named `usage` at the top of a document or one level below it (`response.usage`,
//! `message.usage`) counts, so neither generated text nor a tool's arguments are taken for it.
//!
//! Deliberately not here: usage that stands in the middle of a long document, and answers with a
//! `Content-Encoding`, which the caller does not feed.

mod segment;
mod told;

#[cfg(test)]
mod tests;

use bytes::Bytes;

use self::segment::{Found, Segment};

const HEAD: usize = 1024;
const TAIL: usize = 4096;

/// Tokens as the engine told them; what it did not tell is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub prompt: u64,
    pub completion: u64,
    /// Part of the prompt that came out of the engine's cache.
    pub cached: u64,
}

/// Watches one answer.
#[derive(Debug, Default)]
pub struct UsageScanner {
    /// The first chunk, until there is another.
    first: Option<Bytes>,
    /// `HEAD` bytes of head, then the ring of `TAIL` bytes; empty until the second chunk.
    kept: Box<[u8]>,
    total: u64,
    /// Where the ring's next byte goes.
    next: usize,
}

impl UsageScanner {
    pub fn feed(&mut self, chunk: &Bytes) {
        if chunk.is_empty() {
            return;
        }
        if self.kept.is_empty() && self.first.is_none() && chunk.len() <= TAIL {
            self.first = Some(chunk.clone());
            return;
        }
        if let Some(first) = self.first.take() {
            self.keep(&first);
        }
        self.keep(chunk);
    }

    fn keep(&mut self, chunk: &[u8]) {
        if self.kept.is_empty() {
            self.kept = vec![0; HEAD + TAIL].into_boxed_slice();
        }
        let (head, ring) = self.kept.split_at_mut(HEAD);
        if let Some(rest) = head_len(self.total).and_then(|len| head.get_mut(len..)) {
            let len = rest.len().min(chunk.len());
            rest[..len].copy_from_slice(&chunk[..len]);
        }
        self.total = self.total.saturating_add(chunk.len() as u64);

        let last = &chunk[chunk.len().saturating_sub(TAIL)..];
        let (before_wrap, after_wrap) = last.split_at(last.len().min(TAIL - self.next));
        ring[self.next..self.next + before_wrap.len()].copy_from_slice(before_wrap);
        ring[..after_wrap.len()].copy_from_slice(after_wrap);
        self.next = (self.next + last.len()) % TAIL;
    }

    /// `None`: the answer told no tokens, or not where they can be found.
    pub fn finish(mut self) -> Option<Usage> {
        let mut found = Found::default();
        if let Some(answer) = &self.first {
            Segment {
                bytes: answer,
                starts_clean: true,
                ends_clean: true,
            }
            .scan(is_document(answer), &mut found);
            return found.usage();
        }
        if self.kept.is_empty() {
            return None;
        }
        let (head, ring) = self.kept.split_at_mut(HEAD);
        let head = &head[..head_len(self.total).unwrap_or(HEAD)];
        let wrapped = self.total > TAIL as u64;
        let tail = if wrapped {
            ring.rotate_left(self.next);
            &*ring
        } else {
            let len = usize::try_from(self.total).unwrap_or(TAIL);
            &ring[..len]
        };

        let document = is_document(head);
        if wrapped {
            Segment {
                bytes: head,
                starts_clean: true,
                ends_clean: false,
            }
            .scan(document, &mut found);
        }
        Segment {
            bytes: tail,
            starts_clean: !wrapped,
            ends_clean: true,
        }
        .scan(document, &mut found);
        found.usage()
    }
}

/// One JSON document, not a stream of events.
fn is_document(start: &[u8]) -> bool {
    start.trim_ascii_start().starts_with(b"{")
}

/// How much of the head is filled; `None`: all of it.
fn head_len(total: u64) -> Option<usize> {
    usize::try_from(total).ok().filter(|total| *total < HEAD)
}
