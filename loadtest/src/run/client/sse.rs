//! Server-sent events out of an answer's chunks, wherever these are cut.

#[derive(Default)]
pub(super) struct Events {
    /// A line whose end has not come.
    line: Vec<u8>,
    /// The data of an event whose end has not come.
    data: Vec<u8>,
}

/// Whoever sends a longer event sends no events.
pub(super) const LONGEST: usize = 16 << 20;

impl Events {
    /// Hands the data of each event that is complete to `event`. Stops at its first error.
    pub(super) fn feed<E>(
        &mut self,
        mut chunk: &[u8],
        mut event: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Some(end) = chunk.iter().position(|&byte| byte == b'\n') {
            let (head, rest) = (&chunk[..end], &chunk[end + 1..]);
            if self.line.is_empty() {
                take(&mut self.data, head, &mut event)?;
            } else {
                self.line.extend_from_slice(head);
                let line = std::mem::take(&mut self.line);
                take(&mut self.data, &line, &mut event)?;
            }
            chunk = rest;
        }
        self.line.extend_from_slice(chunk);
        Ok(())
    }

    /// Whether what came so far ends with an event.
    pub(super) fn is_between(&self) -> bool {
        self.line.is_empty() && self.data.is_empty()
    }

    pub(super) fn is_too_long(&self) -> bool {
        self.line.len() + self.data.len() > LONGEST
    }
}

fn take<E>(
    data: &mut Vec<u8>,
    line: &[u8],
    event: &mut impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.is_empty() {
        let whole = std::mem::take(data);
        return match whole.as_slice() {
            [] => Ok(()),
            whole => event(whole),
        };
    }
    // Comments and other fields mean nothing to a client of these engines.
    if let Some(value) = line.strip_prefix(b"data:") {
        if !data.is_empty() {
            data.push(b'\n');
        }
        data.extend_from_slice(value.strip_prefix(b" ").unwrap_or(value));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn events(chunks: &[&[u8]]) -> (Vec<String>, bool) {
        let mut events = Events::default();
        let mut found = Vec::new();
        for chunk in chunks {
            let fed = events.feed(chunk, |data| {
                found.push(String::from_utf8(data.to_vec()).unwrap());
                Ok::<_, Infallible>(())
            });
            fed.unwrap();
        }
        (found, events.is_between())
    }

    #[test]
    fn events_are_the_same_wherever_the_chunks_are_cut() {
        let stream =
            b": hello\ndata: one\n\nevent: x\r\ndata:two\r\ndata: more\r\n\r\ndata: [DONE]\n\n";
        let wanted = vec!["one", "two\nmore", "[DONE]"];
        for cut in 0..stream.len() {
            let (found, between) = events(&[&stream[..cut], &stream[cut..]]);
            assert_eq!(found, wanted, "cut at {cut}");
            assert!(between);
        }
    }

    #[test]
    fn a_stream_that_ends_within_an_event_is_known() {
        assert!(!events(&[b"data: one\n\ndata: tw"]).1);
        assert!(!events(&[b"data: one\n\ndata: two\n"]).1);
    }
}
