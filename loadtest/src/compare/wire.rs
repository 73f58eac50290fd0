//! HTTP/1.1 over blocking sockets, as little as load and engine need: what they cost is not what is measured.

mod answer;

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail};

const MOST_HEADERS: usize = 64;
const LEAST_READ: usize = 16 << 10;
/// No answer takes so long here: a balancer that hangs is an error, not a wait without end.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A connection with what has been read from it.
pub(super) struct Connection<S = TcpStream> {
    pub(super) stream: S,
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
        Ok(Self::over(stream))
    }

    pub(super) fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).with_context(|| format!("connect {address}"))?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        Self::accepted(stream)
    }
}

impl<S: Read + Write> Connection<S> {
    fn over(stream: S) -> Self {
        Self {
            stream,
            buffer: vec![0; LEAST_READ],
            filled: 0,
        }
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

#[cfg(test)]
mod tests;
