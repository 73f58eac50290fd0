//! JSON values to the text they contribute to a prompt.

use std::borrow::Cow;
use std::fmt;

use memchr::memchr;
use serde::Deserializer as _;
use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::canonical::canonical;
use super::prompt::Prompt;

/// The text of a JSON string; `None` for any other value. Borrowed unless it has escapes.
pub(super) fn string(raw: &str) -> Option<Cow<'_, str>> {
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    if memchr(b'\\', inner.as_bytes()).is_none() {
        return Some(Cow::Borrowed(inner));
    }
    let unescaped = serde_json::from_str(raw).unwrap_or_else(|_| unescape_lossy(inner));
    Some(Cow::Owned(unescaped))
}

/// The content of a message. A string and an array of text parts with the same text give the same; parts that are not
/// text stand as a hash of their canonical form; anything else stands in that form.
pub(super) fn push_content<'a>(raw: &'a str, prompt: &mut Prompt<'a>) {
    if let Some(text) = string(raw) {
        prompt.push_text(text);
        return;
    }
    let listed = each(raw, |at, part| {
        if at > 0 {
            prompt.push(&b" "[..]);
        }
        match part_text(part) {
            Some(text) => prompt.push_text(text),
            None => prompt.push_hash(canonical(part)),
        }
        Some(())
    });
    if listed.is_none() {
        prompt.push(canonical(raw));
    }
}

/// A prompt that is a string, a list of strings, or token ids. Ids stand in canonical form.
pub(super) fn push_prompt<'a>(raw: &'a str, prompt: &mut Prompt<'a>) {
    if let Some(text) = string(raw) {
        prompt.push_text(text);
        return;
    }
    let mut texts = Prompt::default();
    let listed = each(raw, |at, item| {
        let text = string(item)?;
        if at > 0 {
            texts.push(&b" "[..]);
        }
        texts.push_text(text);
        Some(())
    });
    match listed {
        Some(_) => prompt.append(texts),
        None => prompt.push(canonical(raw)),
    }
}

/// Shows the elements of an array one after another, since a list of them could be many times as large as the array; how
/// many there were. `None` for what is no array, and as soon as `visit` gives up.
pub(super) fn each<'a>(
    raw: &'a str,
    visit: impl FnMut(usize, &'a str) -> Option<()>,
) -> Option<usize> {
    if !raw.starts_with('[') {
        return None;
    }
    let mut json = serde_json::Deserializer::from_str(raw);
    json.deserialize_seq(Each(visit)).ok()
}

struct Each<V>(V);

impl<'a, V: FnMut(usize, &'a str) -> Option<()>> Visitor<'a> for Each<V> {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'a>>(mut self, mut seq: A) -> Result<usize, A::Error> {
        let mut count = 0;
        while let Some(item) = seq.next_element::<&'a RawValue>()? {
            (self.0)(count, item.get()).ok_or_else(|| A::Error::custom("not wanted"))?;
            count += 1;
        }
        Ok(count)
    }
}

/// Adds a further field's text, after a blank if there is text before it; an empty one leaves no trace.
pub(super) fn push_field<'a>(prompt: &mut Prompt<'a>, field: Prompt<'a>) {
    if field.is_empty() {
        return;
    }
    if !prompt.is_empty() {
        prompt.push(&b" "[..]);
    }
    prompt.append(field);
}

/// `true` for the one key that is looked for.
pub(super) struct IsKey(pub(super) &'static str);

impl<'de> DeserializeSeed<'de> for IsKey {
    type Value = bool;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        // As bytes, since half a surrogate pair in a key that nobody looks for is no error.
        deserializer.deserialize_bytes(self)
    }
}

impl Visitor<'_> for IsKey {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: serde::de::Error>(self, key: &str) -> Result<bool, E> {
        self.visit_bytes(key.as_bytes())
    }

    fn visit_bytes<E>(self, key: &[u8]) -> Result<bool, E> {
        Ok(key == self.0.as_bytes())
    }
}

/// The values of these keys of an object; of a key that is given twice the last one. `None` for what is no object.
pub(super) fn fields<'a, const N: usize>(
    json: &'a [u8],
    names: [&'static str; N],
) -> Option<[Option<&'a RawValue>; N]> {
    let mut json = serde_json::Deserializer::from_slice(json);
    let fields = json.deserialize_map(FieldsOf(names)).ok()?;
    json.end().ok()?;
    Some(fields)
}

struct FieldsOf<const N: usize>([&'static str; N]);

impl<'a, const N: usize> Visitor<'a> for FieldsOf<N> {
    type Value = [Option<&'a RawValue>; N];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut values = [None; N];
        while let Some(at) = map.next_key_seed(KeyAmong(self.0))? {
            match at.and_then(|at| values.get_mut(at)) {
                Some(value) => *value = Some(map.next_value()?),
                None => _ = map.next_value::<IgnoredAny>()?,
            }
        }
        Ok(values)
    }
}

struct KeyAmong<const N: usize>([&'static str; N]);

impl<'de, const N: usize> DeserializeSeed<'de> for KeyAmong<N> {
    type Value = Option<usize>;

    fn deserialize<D: serde::Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_bytes(self)
    }
}

impl<const N: usize> Visitor<'_> for KeyAmong<N> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: serde::de::Error>(self, key: &str) -> Result<Self::Value, E> {
        self.visit_bytes(key.as_bytes())
    }

    fn visit_bytes<E>(self, key: &[u8]) -> Result<Self::Value, E> {
        Ok(self.0.iter().position(|name| name.as_bytes() == key))
    }
}

fn part_text(raw: &str) -> Option<Cow<'_, str>> {
    if let Some(text) = string(raw) {
        return Some(text);
    }
    if !raw.starts_with('{') {
        return None;
    }
    let [kind, text] = fields(raw.as_bytes(), ["type", "text"])?;
    match string(kind?.get())?.as_ref() {
        "text" | "input_text" | "output_text" => string(text?.get()),
        _ => None,
    }
}

/// For strings that are no Unicode: half a surrogate pair stands as U+FFFD. Never fails, since only skipped-over JSON comes here.
fn unescape_lossy(inner: &str) -> String {
    let mut units: Vec<u16> = Vec::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(char) = chars.next() {
        if char != '\\' {
            units.extend_from_slice(char.encode_utf16(&mut [0; 2]));
            continue;
        }
        let unit = match chars.next() {
            Some('u') => {
                let digits: String = chars.by_ref().take(4).collect();
                u16::from_str_radix(&digits, 16).unwrap_or(0xFFFD)
            }
            Some('n') => u16::from(b'\n'),
            Some('t') => u16::from(b'\t'),
            Some('r') => u16::from(b'\r'),
            Some('b') => 8,
            Some('f') => 12,
            Some(other) => other as u16,
            None => break,
        };
        units.push(unit);
    }
    String::from_utf16_lossy(&units)
}
