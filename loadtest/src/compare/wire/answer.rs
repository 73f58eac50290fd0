//! The client's side: an answer is read to its end and must be the engine's.

use std::io::{Read, Write};

use anyhow::{Result, anyhow, bail};
use memchr::memmem;

use super::super::engine::{END, TEXT, TOKEN};
use super::{Connection, LEAST_READ, MOST_HEADERS, body_length};

impl<S: Read + Write> Connection<S> {
    /// Sends a request and reads the whole answer; `arrived` is called with how many events have just come, and once
    /// with 0 when an answer that is not streamed is whole.
    /// An answer that lacks anything of the engine's, or has more, is an error.
    pub(in super::super) fn exchange(
        &mut self,
        request: &[u8],
        events: u64,
        mut arrived: impl FnMut(u64),
    ) -> Result<()> {
        self.filled = 0;
        self.stream.write_all(request)?;
        let (head, body) = loop {
            self.fill_or("before the answer")?;
            let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
            let mut response = httparse::Response::new(&mut headers);
            if let httparse::Status::Complete(length) = response.parse(self.data())? {
                if response.code != Some(200) {
                    let text = String::from_utf8_lossy(&self.data()[length..]);
                    bail!("status {}: {text}", response.code.unwrap_or(0));
                }
                break (length, body_length(response.headers)?);
            }
        };
        let Some(body) = body else {
            self.drop_front(head);
            return match events {
                0 => self.read_whole(arrived),
                _ => self.read_events(events, arrived),
            };
        };
        while self.filled < head + body {
            self.fill_or("inside an answer")?;
        }
        arrived(0);
        check_whole(&self.data()[head..], events)
    }

    /// An answer that is not streamed, in chunks.
    fn read_whole(&mut self, mut arrived: impl FnMut(u64)) -> Result<()> {
        let mut text = Vec::with_capacity(LEAST_READ);
        while !self.take_chunks(&mut text)? {
            self.fill_or("inside an answer")?;
        }
        arrived(0);
        check_whole(&text, 0)
    }

    /// Counts the engine's tokens to the end of a chunked answer. Routers write events anew, cut them otherwise or join
    /// them; the text of each token must come through, once.
    fn read_events(&mut self, events: u64, mut arrived: impl FnMut(u64)) -> Result<()> {
        let finder = memmem::Finder::new(TOKEN);
        let mut text = Vec::with_capacity(LEAST_READ);
        let mut seen = 0;
        loop {
            let ended = self.take_chunks(&mut text)?;
            let mut new = 0;
            let mut end = 0;
            for place in finder.find_iter(&text) {
                new += 1;
                end = place + TOKEN.len();
            }
            text.drain(..end);
            if new > 0 {
                seen += new;
                arrived(new);
            }
            if ended {
                break;
            }
            self.fill_or("inside a stream")?;
        }
        let rest = || String::from_utf8_lossy(&text);
        if seen != events {
            bail!("{seen} of {events} events came, then: {}", rest());
        }
        if memmem::find(&text, END.as_bytes()).is_none() {
            bail!("the stream ended without {END:?}, with: {}", rest());
        }
        Ok(())
    }

    /// Moves the data of all whole chunks to `text`; true when the last one was among them.
    fn take_chunks(&mut self, text: &mut Vec<u8>) -> Result<bool> {
        let mut start = 0;
        let ended = loop {
            let rest = &self.buffer[start..self.filled];
            let size = httparse::parse_chunk_size(rest).map_err(|_| anyhow!("a bad chunk size"))?;
            let httparse::Status::Complete((line, size)) = size else {
                break false;
            };
            let size = usize::try_from(size)?;
            let Some(data) = rest.get(line..line + size + 2) else {
                break false;
            };
            text.extend_from_slice(&data[..size]);
            start += line + size + 2;
            if size == 0 {
                break true;
            }
        };
        self.drop_front(start);
        Ok(ended)
    }
}

fn check_whole(body: &[u8], events: u64) -> Result<()> {
    if events != 0 {
        bail!("a stream was asked for, one answer came");
    }
    if memmem::find(body, TEXT.as_bytes()).is_none() {
        bail!(
            "an answer that is not the engine's: {}",
            String::from_utf8_lossy(body)
        );
    }
    Ok(())
}
