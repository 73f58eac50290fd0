//! One spelling for all spellings of a JSON value: keys in order, no white space, one form of each escape. Numbers stay
//! as they were sent, which serde's own writer does not do (`1e1` becomes `1e+1`).

use std::borrow::Cow;
use std::ops::Range;

use crate::json::{Raw, Text, Walk};

/// What holds deeper values stays as it was sent: the walk recurses, and may copy the output once a level.
const DEEPEST: usize = 64;
/// An object with more keys stays as it was sent too: noting a key costs many times the fewest bytes that one takes.
const MOST_KEYS: usize = 4096;

pub(super) fn canonical(raw: Raw<'_>) -> Cow<'_, [u8]> {
    if raw.text().is_none() && !raw.is_object() && !raw.is_array() {
        return Cow::Borrowed(raw.bytes);
    }
    let mut out = Vec::with_capacity(raw.bytes.len());
    match write(&mut Walk::new(raw.bytes), 0, &mut out) {
        Some(()) => Cow::Owned(out),
        None => Cow::Borrowed(raw.bytes),
    }
}

/// A key, and where it and its value stand in the output.
type Entry<'a> = (Cow<'a, [u8]>, Range<usize>);

fn write(walk: &mut Walk<'_>, depth: usize, out: &mut Vec<u8>) -> Option<()> {
    if depth == DEEPEST {
        return None;
    }
    match walk.peek()? {
        b'{' => write_object(walk, depth, out),
        b'[' => write_array(walk, depth, out),
        _ => {
            let value = walk.value()?;
            match value.text() {
                Some(text) => write_string(&text, out),
                None => out.extend_from_slice(value.bytes),
            }
            Some(())
        }
    }
}

fn write_array(walk: &mut Walk<'_>, depth: usize, out: &mut Vec<u8>) -> Option<()> {
    let mut first = true;
    out.push(b'[');
    walk.array(|walk| {
        if !first {
            out.push(b',');
        }
        first = false;
        write(walk, depth + 1, out)
    })?;
    out.push(b']');
    Some(())
}

fn write_object(walk: &mut Walk<'_>, depth: usize, out: &mut Vec<u8>) -> Option<()> {
    let mut entries: Vec<Entry<'_>> = Vec::new();
    out.push(b'{');
    let start = out.len();
    walk.object(|walk, key| {
        if entries.len() == MOST_KEYS {
            return None;
        }
        if !entries.is_empty() {
            out.push(b',');
        }
        let entry = out.len();
        write_string(&key, out);
        out.push(b':');
        write(walk, depth + 1, out)?;
        entries.push((key.unescaped(), entry..out.len()));
        Some(())
    })?;
    if !entries.is_sorted_by(|one, next| one.0 < next.0) {
        put_in_order(start, entries, out)?;
    }
    out.push(b'}');
    Some(())
}

fn put_in_order(start: usize, mut entries: Vec<Entry<'_>>, out: &mut Vec<u8>) -> Option<()> {
    // Stable: of a key that is given twice the last one comes last, and counts.
    entries.sort_by(|one, other| one.0.cmp(&other.0));
    let mut ordered = Vec::with_capacity(out.len() - start);
    for (at, (key, entry)) in entries.iter().enumerate() {
        if entries.get(at + 1).is_some_and(|next| next.0 == *key) {
            continue;
        }
        if !ordered.is_empty() {
            ordered.push(b',');
        }
        ordered.extend_from_slice(out.get(entry.clone())?);
    }
    out.truncate(start);
    out.append(&mut ordered);
    Some(())
}

fn write_string(text: &Text<'_>, out: &mut Vec<u8>) {
    match text.plain() {
        Some(plain) => {
            out.push(b'"');
            out.extend_from_slice(plain);
            out.push(b'"');
        }
        None => {
            // Writing a string to memory does not fail.
            let _ = serde_json::to_writer(out, &text.to_str());
        }
    }
}
