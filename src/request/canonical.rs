//! One spelling for all spellings of a JSON value: keys in order, no white space, one form of each escape. Numbers stay
//! as they were sent, which serde's own writer does not do (`1e1` becomes `1e+1`).

use std::borrow::Cow;
use std::ops::Range;

use memchr::memchr2;

/// What holds deeper values stays as it was sent: the walk recurses, and may copy the output once a level.
const DEEPEST: usize = 64;
/// An object with more keys stays as it was sent too: noting a key costs many times the fewest bytes that one takes.
const MOST_KEYS: usize = 4096;

/// `raw` is one whole JSON value.
pub(super) fn canonical(raw: &str) -> Cow<'_, [u8]> {
    if !raw.starts_with(['{', '[', '"']) {
        return Cow::Borrowed(raw.as_bytes());
    }
    let mut walk = Walk {
        raw,
        at: 0,
        out: Vec::with_capacity(raw.len()),
    };
    match walk.value(0) {
        Some(()) => Cow::Owned(walk.out),
        None => Cow::Borrowed(raw.as_bytes()),
    }
}

struct Walk<'a> {
    raw: &'a str,
    at: usize,
    out: Vec<u8>,
}

/// A key, and where it and its value stand in the output.
type Entry<'a> = (Cow<'a, str>, Range<usize>);

impl<'a> Walk<'a> {
    /// The next byte that is no white space.
    fn peek(&mut self) -> Option<u8> {
        let rest = self.raw.as_bytes().get(self.at..)?;
        self.at += rest.iter().position(|byte| !byte.is_ascii_whitespace())?;
        self.raw.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, wanted: u8) -> Option<()> {
        (self.peek()? == wanted).then(|| self.at += 1)
    }

    fn value(&mut self, depth: usize) -> Option<()> {
        if depth == DEEPEST {
            return None;
        }
        match self.peek()? {
            b'{' => self.object(depth),
            b'[' => self.array(depth),
            b'"' => {
                let text = self.string()?;
                write_string(&text, &mut self.out);
                Some(())
            }
            _ => {
                let rest = self.raw.as_bytes().get(self.at..)?;
                let ends =
                    |byte: &u8| matches!(byte, b',' | b']' | b'}') || byte.is_ascii_whitespace();
                let length = rest.iter().position(ends).unwrap_or(rest.len());
                self.out.extend_from_slice(rest.get(..length)?);
                self.at += length;
                Some(())
            }
        }
    }

    fn array(&mut self, depth: usize) -> Option<()> {
        self.take(b'[')?;
        self.out.push(b'[');
        if self.take(b']').is_none() {
            loop {
                self.value(depth + 1)?;
                if self.take(b',').is_none() {
                    break;
                }
                self.out.push(b',');
            }
            self.take(b']')?;
        }
        self.out.push(b']');
        Some(())
    }

    fn object(&mut self, depth: usize) -> Option<()> {
        self.take(b'{')?;
        self.out.push(b'{');
        let start = self.out.len();
        let mut entries: Vec<Entry<'a>> = Vec::new();
        if self.take(b'}').is_none() {
            loop {
                self.peek()?;
                let key = self.string()?;
                self.take(b':')?;
                if entries.len() == MOST_KEYS {
                    return None;
                }
                if !entries.is_empty() {
                    self.out.push(b',');
                }
                let entry = self.out.len();
                write_string(&key, &mut self.out);
                self.out.push(b':');
                self.value(depth + 1)?;
                entries.push((key, entry..self.out.len()));
                if self.take(b',').is_none() {
                    break;
                }
            }
            self.take(b'}')?;
        }
        if !entries.is_sorted_by(|one, next| one.0 < next.0) {
            self.put_in_order(start, entries)?;
        }
        self.out.push(b'}');
        Some(())
    }

    fn put_in_order(&mut self, start: usize, mut entries: Vec<Entry<'a>>) -> Option<()> {
        // Stable: of a key that is given twice the last one comes last, and counts.
        entries.sort_by(|one, other| one.0.cmp(&other.0));
        let mut ordered = Vec::with_capacity(self.out.len() - start);
        for (at, (key, entry)) in entries.iter().enumerate() {
            if entries.get(at + 1).is_some_and(|next| next.0 == *key) {
                continue;
            }
            if !ordered.is_empty() {
                ordered.push(b',');
            }
            ordered.extend_from_slice(self.out.get(entry.clone())?);
        }
        self.out.truncate(start);
        self.out.append(&mut ordered);
        Some(())
    }

    fn string(&mut self) -> Option<Cow<'a, str>> {
        let start = self.at;
        let mut end = start + 1;
        loop {
            let rest = self.raw.as_bytes().get(end..)?;
            end += memchr2(b'"', b'\\', rest)?;
            if self.raw.as_bytes().get(end) == Some(&b'"') {
                break;
            }
            end += 2;
        }
        self.at = end + 1;
        super::text::string(self.raw.get(start..self.at)?)
    }
}

#[expect(clippy::ptr_arg, reason = "borrowed text is known to need no escapes")]
fn write_string(text: &Cow<'_, str>, out: &mut Vec<u8>) {
    match text {
        // Borrowed means that it stood there without escapes.
        Cow::Borrowed(plain) => {
            out.push(b'"');
            out.extend_from_slice(plain.as_bytes());
            out.push(b'"');
        }
        Cow::Owned(unescaped) => {
            // Writing a string to memory does not fail.
            let _ = serde_json::to_writer(out, unescaped);
        }
    }
}
