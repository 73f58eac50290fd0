//! JSON values to the text they contribute to a prompt.

use crate::json::{Raw, Text, Walk};

use super::canonical::canonical;
use super::prompt::Prompt;

/// The content of a message. A string and an array of text parts with the same text give the same; parts that are not
/// text stand as a hash of their canonical form; anything else stands in that form.
pub(super) fn push_content<'a>(raw: Raw<'a>, prompt: &mut Prompt<'a>) {
    if let Some(text) = raw.text() {
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
pub(super) fn push_prompt<'a>(raw: Raw<'a>, prompt: &mut Prompt<'a>) {
    if let Some(text) = raw.text() {
        prompt.push_text(text);
        return;
    }
    let mut texts = Prompt::default();
    let listed = each(raw, |at, item| {
        let text = item.text()?;
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
    raw: Raw<'a>,
    mut visit: impl FnMut(usize, Raw<'a>) -> Option<()>,
) -> Option<usize> {
    let mut count = 0;
    Walk::new(raw.bytes).array(|walk| {
        visit(count, walk.value()?)?;
        count += 1;
        Some(())
    })?;
    Some(count)
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

/// The values of these keys of an object; of a key that is given twice the last one. `None` for what is no object.
pub(super) fn fields<'a, const N: usize>(
    json: &'a [u8],
    names: [&'static str; N],
) -> Option<[Option<Raw<'a>>; N]> {
    let mut values = [None; N];
    let mut walk = Walk::new(json);
    walk.object(|walk, key| {
        let key = key.unescaped();
        let at = names.iter().position(|name| name.as_bytes() == &*key);
        match at.and_then(|at| values.get_mut(at)) {
            Some(value) => *value = Some(walk.value()?),
            None => _ = walk.pass()?,
        }
        Some(())
    })?;
    walk.end()?;
    Some(values)
}

fn part_text(raw: Raw<'_>) -> Option<Text<'_>> {
    if let Some(text) = raw.text() {
        return Some(text);
    }
    let [kind, text] = fields(raw.bytes, ["type", "text"])?;
    match &*kind?.text()?.unescaped() {
        b"text" | b"input_text" | b"output_text" => text?.text(),
        _ => None,
    }
}
