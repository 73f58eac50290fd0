//! HTTP/1.1 over blocking sockets, as little as load and engine need: what they cost is not what is measured.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use memchr::memmem;

use super::engine::EVENT;

const MOST_HEADERS: usize = 64;
const LEAST_READ: usize = 16 << 10;
/// No answer takes so long here: a balancer that hangs is an error, not a wait without end.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A connection with what has been read from it.
pub(super) struct Connection {
    pub(super) stream: TcpStream,
    buffer: Vec<u8>,
    filled: usize,
}

pub(super) struct RequestHead {
    pub(super) is_get: bool,
    pub(super) path: String,
    pub(super) expects_continue: bool,
    /// Of the head, in the buffer; the body follows.
    length: usize,
    body: usize,
}

impl Connection {
    pub(super) fn accepted(stream: TcpStream) -> Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            buffer: vec![0; LEAST_READ],
            filled: 0,
        })
    }

    pub(super) fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).with_context(|| format!("connect {address}"))?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        Self::accepted(stream)
    }

    fn data(&self) -> &[u8] {
        &self.buffer[..self.filled]
    }

    fn drop_front(&mut self, count: usize) {
        self.buffer.copy_within(count..self.filled, 0);
        self.filled -= count;
    }

    fn fill(&mut self) -> Result<usize> {
        if self.buffer.len() - self.filled < LEAST_READ {
            self.buffer.resize(2 * self.buffer.len(), 0);
        }
        loop {
            match self.stream.read(&mut self.buffer[self.filled..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => {
                    let read = read?;
                    self.filled += read;
                    return Ok(read);
                }
            }
        }
    }

    fn fill_or(&mut self, place: &str) -> Result<()> {
        if self.fill()? == 0 {
            bail!("the connection ended {place}");
        }
        Ok(())
    }

    /// `None` when the other side has closed the connection between two requests.
    pub(super) fn read_request(&mut self) -> Result<Option<RequestHead>> {
        loop {
            let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
            let mut request = httparse::Request::new(&mut headers);
            if let httparse::Status::Complete(length) = request.parse(self.data())? {
                let Some(body) = body_length(request.headers)? else {
                    bail!("a request in chunks, which this engine does not read");
                };
                return Ok(Some(RequestHead {
                    is_get: request.method == Some("GET"),
                    path: request.path.unwrap_or("/").to_owned(),
                    expects_continue: find(request.headers, "expect").is_some(),
                    length,
                    body,
                }));
            }
            if self.fill()? == 0 {
                if self.filled == 0 {
                    return Ok(None);
                }
                bail!("the connection ended inside a request head");
            }
        }
    }

    /// Waits until the whole body is in.
    pub(super) fn read_body(&mut self, head: &RequestHead) -> Result<()> {
        while self.filled < head.length + head.body {
            self.fill_or("inside a request body")?;
        }
        Ok(())
    }

    pub(super) fn body(&self, head: &RequestHead) -> &[u8] {
        &self.data()[head.length..head.length + head.body]
    }

    pub(super) fn request_done(&mut self, head: &RequestHead) {
        self.drop_front(head.length + head.body);
    }

    /// Sends a request and reads the whole answer; `arrived` is called with how many events have just come, and once
    /// with 0 when an answer that is not streamed is whole.
    /// An answer that is not the engine's, whole and unchanged, is an error.
    pub(super) fn exchange(
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
            return self.read_events(events, arrived);
        };
        while self.filled < head + body {
            self.fill_or("inside an answer")?;
        }
        arrived(0);
        if events != 0 || memmem::find(&self.data()[head..], b"A short answer").is_none() {
            bail!("an answer that is not the engine's");
        }
        Ok(())
    }

    /// Counts events to the end of a chunked answer, wherever the chunks' bounds are.
    fn read_events(&mut self, events: u64, mut arrived: impl FnMut(u64)) -> Result<()> {
        let mark = EVENT.trim_end().as_bytes();
        let finder = memmem::Finder::new(mark);
        let mut text = Vec::with_capacity(LEAST_READ);
        let mut seen = 0;
        loop {
            let ended = self.take_chunks(&mut text)?;
            let mut new = 0;
            let mut end = 0;
            for place in finder.find_iter(&text) {
                new += 1;
                end = place + mark.len();
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
        if seen != events || memmem::find(&text, b"data: [DONE]").is_none() {
            let rest = String::from_utf8_lossy(&text);
            bail!("{seen} of {events} events came, then: {rest}");
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

fn find<'a>(headers: &[httparse::Header<'a>], name: &str) -> Option<&'a [u8]> {
    let mut named = headers
        .iter()
        .filter(|header| header.name.eq_ignore_ascii_case(name));
    named.next().map(|header| header.value)
}

/// `None` for a message that is sent in chunks.
fn body_length(headers: &[httparse::Header<'_>]) -> Result<Option<usize>> {
    if find(headers, "transfer-encoding").is_some() {
        return Ok(None);
    }
    let Some(value) = find(headers, "content-length") else {
        return Ok(Some(0));
    };
    let text = std::str::from_utf8(value)?;
    let length = text.parse();
    Ok(Some(
        length.with_context(|| format!("Content-Length {text}"))?,
    ))
}
