//! The text of a prompt, as the pieces it stands in.

use std::borrow::Cow;

use xxhash_rust::xxh3::xxh3_64;

use crate::json::Text;

/// A piece costs more than its bytes where it is short. Past this many pieces short ones are therefore put together, so
/// that a body of nothing but tiny parts takes no more than a few times its own size. Honest requests stay below.
const MANY: usize = 4096;
/// The length from which a piece is worth its own place.
const LONG: usize = 64;
/// Unescaped text is shown in runs of up to this length, long enough to hold some blocks.
const RUN: usize = 1024;

/// Pieces of a prompt's text, in order, joined by single blanks where the parts of a request meet.
#[derive(Debug, Default, PartialEq)]
pub struct Prompt<'a> {
    pieces: Vec<Piece<'a>>,
    len: usize,
}

#[derive(Debug, PartialEq)]
enum Piece<'a> {
    Plain(Cow<'a, [u8]>),
    /// Unescaped each time it is shown, which takes no memory.
    Escaped(Text<'a>),
}

impl<'a> Prompt<'a> {
    /// Shows the text piece by piece.
    pub fn each(&self, mut show: impl FnMut(&[u8])) {
        for piece in &self.pieces {
            match piece {
                Piece::Plain(text) => show(text),
                Piece::Escaped(text) => show_escaped(text, &mut show),
            }
        }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn push(&mut self, piece: impl Into<Cow<'a, [u8]>>) {
        let piece = piece.into();
        if self.has_room(piece.len()) {
            self.len += piece.len();
            self.pieces.push(Piece::Plain(piece));
        } else {
            self.merge(&piece);
        }
    }

    pub(super) fn push_text(&mut self, text: Text<'a>) {
        match text.plain() {
            Some(plain) => self.push(plain),
            None if self.has_room(text.len()) => {
                self.len += text.len();
                self.pieces.push(Piece::Escaped(text));
            }
            None => self.merge(&text.unescaped()),
        }
    }

    fn has_room(&self, len: usize) -> bool {
        self.pieces.len() < MANY || len >= LONG
    }

    fn merge(&mut self, piece: &[u8]) {
        self.len += piece.len();
        match self.pieces.last_mut() {
            Some(Piece::Plain(Cow::Owned(last))) => last.extend_from_slice(piece),
            _ => self.pieces.push(Piece::Plain(Cow::Owned(piece.to_vec()))),
        }
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
            self.len += other.len;
            self.pieces.extend(other.pieces);
        }
    }
}

/// Puts the many short runs between escapes together.
fn show_escaped(text: &Text<'_>, mut show: impl FnMut(&[u8])) {
    let mut gathered = [0; RUN];
    let mut filled = 0;
    text.each(|run| {
        let end = filled + run.len();
        if let Some(place) = gathered.get_mut(filled..end) {
            place.copy_from_slice(run);
            filled = end;
            return;
        }
        show(&gathered[..filled]);
        filled = 0;
        match gathered.get_mut(..run.len()) {
            Some(place) => {
                place.copy_from_slice(run);
                filled = run.len();
            }
            None => show(run),
        }
    });
    show(&gathered[..filled]);
}
