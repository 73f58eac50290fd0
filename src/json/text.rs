//! A JSON string: where it ends, and what its escapes stand for.

use std::borrow::Cow;

use memchr::memchr;

/// What stands between two quotation marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Text<'a> {
    raw: &'a [u8],
    /// Length once unescaped. Every escape is longer than what it stands for, so that equal lengths mean that there is none.
    len: usize,
}

impl<'a> Text<'a> {
    /// The string that begins at the front; whether it has bytes that are not ASCII.
    pub(super) fn before_quote(bytes: &'a [u8]) -> Option<(Self, bool)> {
        let mut at = 0;
        let mut saved = 0;
        let mut beyond_ascii = false;
        loop {
            at += plain(bytes.get(at..)?, &mut beyond_ascii)?;
            match bytes.get(at)? {
                b'"' => break,
                b'\\' => {
                    let (char, length) = escape(bytes.get(at..)?)?;
                    saved += length - char.len_utf8();
                    at += length;
                }
                _ => return None,
            }
        }
        let raw = bytes.get(..at)?;
        let len = at - saved;
        Some((Self { raw, len }, beyond_ascii))
    }

    /// As it stands, escapes and all.
    pub(crate) fn raw(&self) -> &'a [u8] {
        self.raw
    }

    /// The string itself, if it has no escapes.
    pub(crate) fn plain(&self) -> Option<&'a [u8]> {
        (self.len == self.raw.len()).then_some(self.raw)
    }

    pub(crate) fn is(&self, wanted: &str) -> bool {
        *self.unescaped() == *wanted.as_bytes()
    }

    /// Length once unescaped.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Unescaped. Half a surrogate pair stands as U+FFFD.
    pub(crate) fn unescaped(&self) -> Cow<'a, [u8]> {
        match self.plain() {
            Some(plain) => Cow::Borrowed(plain),
            None => {
                let mut out = Vec::with_capacity(self.len);
                self.each(|run| out.extend_from_slice(run));
                Cow::Owned(out)
            }
        }
    }

    pub(crate) fn to_str(self) -> Cow<'a, str> {
        match self.unescaped() {
            Cow::Borrowed(plain) => String::from_utf8_lossy(plain),
            Cow::Owned(unescaped) => Cow::Owned(
                String::from_utf8(unescaped)
                    .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()),
            ),
        }
    }

    /// Shows the unescaped string run by run.
    pub(crate) fn each(&self, mut show: impl FnMut(&[u8])) {
        let mut rest = self.raw;
        while let Some(at) = memchr(b'\\', rest) {
            let (run, escaped) = rest.split_at(at);
            show(run);
            // Escapes were read once, so that this one can be read.
            let Some((char, length)) = escape(escaped) else {
                return;
            };
            show(char.encode_utf8(&mut [0; 4]).as_bytes());
            rest = &escaped[length..];
        }
        show(rest);
    }
}

/// The length of what comes before the next quotation mark, backslash or control character.
fn plain(bytes: &[u8], beyond_ascii: &mut bool) -> Option<usize> {
    // Short strings end in the first words; the many bytes of long ones go faster in large steps.
    const WORDS: usize = 4;
    const STEP: usize = 64;
    let mut at = 0;
    for _ in 0..WORDS {
        match bytes.get(at..).and_then(<[u8]>::first_chunk) {
            Some(word) => match special(u64::from_le_bytes(*word), beyond_ascii) {
                Some(found) => return Some(at + found),
                None => at += size_of::<u64>(),
            },
            None => break,
        }
    }
    let (steps, _) = bytes.get(at..)?.as_chunks::<STEP>();
    for step in steps {
        let (mut found, mut all) = (0, 0);
        for byte in step {
            found |= u8::from(*byte == b'"') | u8::from(*byte == b'\\') | u8::from(*byte < b' ');
            all |= byte;
        }
        if found != 0 {
            break;
        }
        *beyond_ascii |= !all.is_ascii();
        at += STEP;
    }
    let (words, rest) = bytes.get(at..)?.as_chunks();
    for word in words {
        match special(u64::from_le_bytes(*word), beyond_ascii) {
            Some(found) => return Some(at + found),
            None => at += size_of::<u64>(),
        }
    }
    let found = rest
        .iter()
        .position(|byte| matches!(byte, b'"' | b'\\' | 0..b' '))?;
    *beyond_ascii |= !rest[..found].is_ascii();
    Some(at + found)
}

/// The place of the first special byte among eight, each tested in its own bits. A borrow can make a byte look special that
/// is not, but only behind one that is.
fn special(word: u64, beyond_ascii: &mut bool) -> Option<usize> {
    const ONES: u64 = u64::MAX / 255;
    const HIGH: u64 = ONES << 7;
    let below = |word: u64, limit: u8| word.wrapping_sub(ONES * u64::from(limit)) & !word;
    let is = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    let found = (below(word, b' ') | is(b'"') | is(b'\\')) & HIGH;
    let before = found.wrapping_sub(1) & !found;
    *beyond_ascii |= word & HIGH & before != 0;
    (found != 0).then(|| found.trailing_zeros() as usize / 8)
}

/// The character that the escape at the front stands for, and the escape's length. A surrogate pair is one escape.
fn escape(bytes: &[u8]) -> Option<(char, usize)> {
    let char = match bytes.get(1)? {
        b'"' => '"',
        b'\\' => '\\',
        b'/' => '/',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => return unicode(bytes),
        _ => return None,
    };
    Some((char, 2))
}

fn unicode(bytes: &[u8]) -> Option<(char, usize)> {
    let unit = unit(bytes)?;
    if let Some(char) = char::from_u32(unit) {
        return Some((char, 6));
    }
    let pair = || {
        let low = self::unit(bytes.get(6..)?)?;
        let both = matches!(unit, 0xd800..=0xdbff) && matches!(low, 0xdc00..=0xdfff);
        both.then(|| 0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00))
    };
    match pair().and_then(char::from_u32) {
        Some(char) => Some((char, 12)),
        None => Some((char::REPLACEMENT_CHARACTER, 6)),
    }
}

/// The number in `\uXXXX`.
fn unit(bytes: &[u8]) -> Option<u32> {
    let digits = bytes.strip_prefix(b"\\u")?.first_chunk::<4>()?;
    digits.iter().try_fold(0, |unit, digit| {
        Some(unit << 4 | char::from(*digit).to_digit(16)?)
    })
}
