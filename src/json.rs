//! Reads JSON that is mostly passed over: a walk that builds nothing, borrows what is asked for and does not recurse.
//!
//! Accepts what `serde_json` accepts. Bytes that are no UTF-8 are an error where a value is asked for, and are passed over
//! elsewhere. `None` means that the text is not JSON; the walk is over then.

mod text;

#[cfg(test)]
mod tests;

pub(crate) use text::Text;

/// A value as it stands in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Raw<'a> {
    pub(crate) bytes: &'a [u8],
    text: Option<Text<'a>>,
}

impl<'a> Raw<'a> {
    pub(crate) fn text(&self) -> Option<Text<'a>> {
        self.text
    }

    pub(crate) fn is_array(&self) -> bool {
        self.bytes.starts_with(b"[")
    }

    pub(crate) fn is_object(&self) -> bool {
        self.bytes.starts_with(b"{")
    }

    /// The value as a whole number.
    pub(crate) fn count(&self) -> Option<u64> {
        std::str::from_utf8(self.bytes).ok()?.parse().ok()
    }
}

/// A walk over one text, from its front to its back.
pub(crate) struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Whether a byte that is not ASCII was passed since this was last cleared.
    beyond_ascii: bool,
    /// Where a value ended that was asked for and is no UTF-8.
    no_utf8: Option<usize>,
    /// Working memory: what closes each open bracket.
    open: Vec<u8>,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            at: 0,
            beyond_ascii: false,
            no_utf8: None,
            open: Vec::new(),
        }
    }

    /// Where a value ended that was asked for and is no UTF-8.
    pub(crate) fn no_utf8(&self) -> Option<usize> {
        self.no_utf8
    }

    /// The next byte that is no white space.
    pub(crate) fn peek(&mut self) -> Option<u8> {
        loop {
            match self.bytes.get(self.at)? {
                b' ' | b'\n' | b'\t' | b'\r' => self.at += 1,
                byte => return Some(*byte),
            }
        }
    }

    /// Nothing but white space is left.
    pub(crate) fn end(&mut self) -> Option<()> {
        self.peek().is_none().then_some(())
    }

    fn take(&mut self, wanted: u8) -> Option<()> {
        (self.peek()? == wanted).then(|| self.at += 1)
    }

    /// Goes over an object. `visit` is told each key, and has to go over its value.
    pub(crate) fn object(
        &mut self,
        mut visit: impl FnMut(&mut Self, Text<'a>) -> Option<()>,
    ) -> Option<()> {
        self.take(b'{')?;
        if self.take(b'}').is_some() {
            return Some(());
        }
        loop {
            let key = self.key()?;
            visit(self, key)?;
            if self.take(b',').is_none() {
                return self.take(b'}');
            }
        }
    }

    /// Goes over an array. `visit` has to go over one element each time.
    pub(crate) fn array(&mut self, mut visit: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.take(b'[')?;
        if self.take(b']').is_some() {
            return Some(());
        }
        loop {
            visit(self)?;
            if self.take(b',').is_none() {
                return self.take(b']');
            }
        }
    }

    /// The next value.
    pub(crate) fn value(&mut self) -> Option<Raw<'a>> {
        self.peek()?;
        let start = self.at;
        self.beyond_ascii = false;
        let text = self.pass()?;
        let bytes = self.bytes.get(start..self.at)?;
        if self.beyond_ascii && std::str::from_utf8(bytes).is_err() {
            self.no_utf8 = Some(self.at);
            return None;
        }
        Some(Raw { bytes, text })
    }

    /// Passes over the next value; its text, if it is a string.
    pub(crate) fn pass(&mut self) -> Option<Option<Text<'a>>> {
        match self.peek()? {
            b'"' => self.string().map(Some),
            b'{' | b'[' => self.nested().map(|()| None),
            _ => self.scalar().map(|()| None),
        }
    }

    fn nested(&mut self) -> Option<()> {
        self.open.clear();
        loop {
            match self.peek()? {
                b'"' => _ = self.string()?,
                opening @ (b'{' | b'[') => {
                    self.at += 1;
                    // The closing ones stand two places behind.
                    let closing = opening + 2;
                    self.open.push(closing);
                    if self.peek()? != closing {
                        if closing == b'}' {
                            self.key()?;
                        }
                        continue;
                    }
                }
                _ => self.scalar()?,
            }
            loop {
                let Some(&closing) = self.open.last() else {
                    return Some(());
                };
                let byte = self.peek()?;
                self.at += 1;
                if byte == closing {
                    self.open.pop();
                } else if byte == b',' {
                    if closing == b'}' {
                        self.key()?;
                    }
                    break;
                } else {
                    return None;
                }
            }
        }
    }

    /// A key and its colon.
    fn key(&mut self) -> Option<Text<'a>> {
        self.peek()?;
        let key = self.string()?;
        self.take(b':')?;
        Some(key)
    }

    fn string(&mut self) -> Option<Text<'a>> {
        let rest = self.bytes.get(self.at..)?.strip_prefix(b"\"")?;
        let (text, beyond_ascii) = Text::before_quote(rest)?;
        self.beyond_ascii |= beyond_ascii;
        self.at += text.raw().len() + 2;
        Some(text)
    }

    fn scalar(&mut self) -> Option<()> {
        let rest = self.bytes.get(self.at..)?;
        self.at += match rest.first()? {
            b't' => rest.starts_with(b"true").then_some(4)?,
            b'f' => rest.starts_with(b"false").then_some(5)?,
            b'n' => rest.starts_with(b"null").then_some(4)?,
            _ => number(rest)?,
        };
        Some(())
    }
}

/// The length of the number at the front.
fn number(bytes: &[u8]) -> Option<usize> {
    let digits = |from: usize| {
        let rest = bytes.get(from..)?;
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        (count > 0).then_some(from + count)
    };
    let mut at = usize::from(bytes.starts_with(b"-"));
    at = match bytes.get(at)? {
        b'0' => at + 1,
        _ => digits(at)?,
    };
    if bytes.get(at) == Some(&b'.') {
        at = digits(at + 1)?;
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        let signed = matches!(bytes.get(at + 1), Some(b'+' | b'-'));
        at = digits(at + 1 + usize::from(signed))?;
    }
    Some(at)
}
