//! The text of a prompt, as the pieces it stands in.

use std::borrow::Cow;

use xxhash_rust::xxh3::xxh3_64;

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
        self.pieces.push(piece.into());
    }

    pub(super) fn push_text(&mut self, text: Cow<'a, str>) {
        self.pieces.push(match text {
            Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
            Cow::Owned(text) => Cow::Owned(text.into_bytes()),
        });
    }

    /// A picture, a sound: its place in the text is held by a hash of its bytes.
    pub(super) fn push_hash(&mut self, raw: &[u8]) {
        let hash = format!("{:016x}", xxh3_64(raw));
        self.pieces.push(Cow::Owned(hash.into_bytes()));
    }

    pub(super) fn append(&mut self, mut other: Self) {
        self.pieces.append(&mut other.pieces);
    }
}
