//! Reads a piece of an answer whose beginning or end may be missing.
//!
//! Where a piece begins inside a JSON string nobody can tell strings from the rest, except at a
//! key: in text a quotation mark always has a backslash before it, so `"usage"` without one is
//! outside a string. Depth is counted from whichever end of the document is there.

use std::sync::LazyLock;

use memchr::memmem;

use super::Usage;
use super::told::Told;

const KEY: &[u8] = b"\"usage\"";
static FINDER: LazyLock<memmem::Finder<'static>> = LazyLock::new(|| memmem::Finder::new(KEY));

pub(super) struct Segment<'a> {
    pub(super) bytes: &'a [u8],
    /// The first byte begins the answer.
    pub(super) starts_clean: bool,
    /// The last byte ends the answer.
    pub(super) ends_clean: bool,
}

impl Segment<'_> {
    /// `document`: one JSON document; otherwise server-sent events, a document a line.
    pub(super) fn scan(&self, document: bool, found: &mut Found) {
        if document {
            scan_document(self.bytes, self.starts_clean, self.ends_clean, found);
            return;
        }
        let mut lines = self
            .bytes
            .split(|byte| matches!(byte, b'\n' | b'\r'))
            .peekable();
        let mut starts_clean = self.starts_clean;
        while let Some(line) = lines.next() {
            let ends_clean = self.ends_clean || lines.peek().is_some();
            if !starts_clean {
                scan_document(line, false, ends_clean, found);
            } else if let Some(data) = line.strip_prefix(b"data:") {
                scan_document(data, true, ends_clean, found);
            }
            starts_clean = true;
        }
    }
}

/// Counts found so far. Those of `usage` at the top win over those one level below.
#[derive(Default)]
pub(super) struct Found {
    top: Counts,
    nested: Counts,
}

impl Found {
    pub(super) fn usage(&self) -> Option<Usage> {
        let prompt = self.top.prompt.or(self.nested.prompt);
        let completion = self.top.completion.or(self.nested.completion);
        (prompt.is_some() || completion.is_some()).then(|| Usage {
            prompt: prompt.unwrap_or(0),
            completion: completion.unwrap_or(0),
            cached: self.top.cached.or(self.nested.cached).unwrap_or(0),
        })
    }

    fn add(&mut self, depth: i32, value: &[u8]) {
        let counts = match depth {
            1 => &mut self.top,
            2 => &mut self.nested,
            _ => return,
        };
        if let Some(told) = Told::read(value) {
            counts.update(&told);
        }
    }
}

#[derive(Default)]
struct Counts {
    prompt: Option<u64>,
    completion: Option<u64>,
    cached: Option<u64>,
}

impl Counts {
    /// A later event's number replaces an earlier one; one that it leaves out stays.
    fn update(&mut self, told: &Told) {
        self.prompt = told.prompt.or(self.prompt);
        self.completion = told.completion.or(self.completion);
        self.cached = told.cached.or(self.cached);
    }
}

/// One JSON document, or what is there of it.
fn scan_document(bytes: &[u8], starts_clean: bool, ends_clean: bool, found: &mut Found) {
    let Some(first) = keys(bytes).next() else {
        return;
    };
    // Counts stand near the end of a document: where that is there, nothing before them needs to be looked at.
    if ends_clean {
        let text = &bytes[first..];
        let (candidates, end_depth) = walk(text);
        let complete = end_depth < 0;
        if complete || !starts_clean {
            for candidate in candidates {
                found.add(candidate.depth - end_depth, &text[candidate.value]);
            }
            return;
        }
    }
    if starts_clean {
        for candidate in walk(bytes).0 {
            found.add(candidate.depth, &bytes[candidate.value]);
        }
    }
}

/// Where a key `usage` stands for sure: no backslash before its first quotation mark.
fn keys(bytes: &[u8]) -> impl Iterator<Item = usize> + '_ {
    FINDER.find_iter(bytes).filter(|at| {
        let outside_text = at
            .checked_sub(1)
            .is_some_and(|before| bytes[before] != b'\\');
        outside_text && is_key(&bytes[at + KEY.len()..])
    })
}

/// Whether what follows a string makes it the key of an object.
fn is_key(rest: &[u8]) -> bool {
    let Some(value) = rest.trim_ascii_start().strip_prefix(b":") else {
        return false;
    };
    value.trim_ascii_start().starts_with(b"{")
}

struct Candidate {
    /// Open brackets around the key, counted from the beginning of the walked text.
    depth: i32,
    /// The object, braces included.
    value: std::ops::Range<usize>,
}

/// Goes once over text that begins outside of a string. Returns the complete objects under a key
/// `usage` and how many brackets are open at the end (negative: closed more than opened).
fn walk(text: &[u8]) -> (Vec<Candidate>, i32) {
    let mut candidates = Vec::new();
    let mut open: Option<(i32, usize)> = None;
    let mut depth = 0;
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => {
                let end = string_end(text, at);
                if open.is_none() && text[at..end] == *KEY && is_key(&text[end..]) {
                    open = Some((depth, end));
                }
                at = end;
                continue;
            }
            b'{' | b'[' => {
                if let Some((key_depth, value)) = &mut open
                    && *key_depth == depth
                {
                    *value = at;
                }
                depth += 1;
            }
            b'}' | b']' => {
                depth -= 1;
                if let Some((key_depth, value)) = open
                    && key_depth == depth
                {
                    candidates.push(Candidate {
                        depth,
                        value: value..at + 1,
                    });
                    open = None;
                }
            }
            _ => {}
        }
        at += 1;
    }
    (candidates, depth)
}

/// Position after the closing quotation mark of the string that begins at `start`.
fn string_end(text: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(found) = memchr::memchr2(b'"', b'\\', &text[at.min(text.len())..]) {
        if text[at + found] == b'"' {
            return at + found + 1;
        }
        at += found + 2;
    }
    text.len()
}
