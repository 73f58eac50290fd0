//! The text of a prompt, as the pieces it stands in.

use std::borrow::Cow;

use xxhash_rust::xxh3::xxh3_64;

/// A piece costs more than its bytes where it is short. Past this many pieces short ones are therefore put together, so
/// that a body of nothing but tiny parts takes no more than a few times its own size. Honest requests stay below.
const MANY: usize = 4096;
/// The length from which a piece is worth its own place.
const LONG: usize = 64;

/// Pieces of a prompt's text, in order, joined by single blanks where the parts of a request meet.
#[derive(Debug, Default, PartialEq)]
pub struct Prompt<'a> {
    pieces: Vec<Cow<'a, [u8]>>,
}

impl<'a> Prompt<'a> {
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        self.pieces.iter().map(|piece| &**piece)
    }

    pub fn len(&self) -> usize {
        self.pieces().map(<[u8]>::len).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.pieces().all(<[u8]>::is_empty)
    }

    pub(super) fn push(&mut self, piece: impl Into<Cow<'a, [u8]>>) {
        let piece = piece.into();
        if self.pieces.len() < MANY || piece.len() >= LONG {
            self.pieces.push(piece);
            return;
        }
        match self.pieces.last_mut() {
            Some(Cow::Owned(last)) => last.extend_from_slice(&piece),
            _ => self.pieces.push(Cow::Owned(piece.into_owned())),
        }
    }

    pub(super) fn push_text(&mut self, text: Cow<'a, str>) {
        self.push(match text {
            Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
            Cow::Owned(text) => Cow::Owned(text.into_bytes()),
        });
    }

    /// A picture, a sound: its place in the text is held by a hash of its bytes, or by what is no longer than that.
    pub(super) fn push_hash(&mut self, raw: Cow<'a, [u8]>) {
        if raw.len() <= 16 {
            self.push(raw);
            return;
        }
        let hash = format!("{:016x}", xxh3_64(&raw));
        self.push(hash.into_bytes());
    }

    pub(super) fn append(&mut self, other: Self) {
        if self.pieces.is_empty() {
            *self = other;
        } else {
            self.pieces.extend(other.pieces);
        }
    }
}
