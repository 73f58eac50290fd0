//! A client that speaks HTTP/1.1 on a raw socket: it sends exactly the bytes a test gives, and shows exactly what came.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::PATIENCE;

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// The end was as the framing says; `false` for an answer that broke off.
    pub(crate) complete: bool,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(given, _)| given == name);
        values.next().map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error} in {}", self.text()))
    }

    pub(crate) fn error_code(&self) -> Value {
        self.json()["error"]["code"].clone()
    }

    pub(crate) fn pod(&self) -> &str {
        self.header("target-pod").expect("the answer names its pod")
    }
}

pub(crate) async fn get(address: SocketAddr, path: &str) -> std::io::Result<Answer> {
    request(address, "GET", path, &[], b"").await
}

pub(crate) async fn post(
    address: SocketAddr,
    path: &str,
    content_type: &str,
    body: impl AsRef<[u8]>,
) -> std::io::Result<Answer> {
    request(
        address,
        "POST",
        path,
        &[("content-type", content_type)],
        body.as_ref(),
    )
    .await
}

pub(crate) async fn post_json(address: SocketAddr, path: &str, body: &Value) -> Answer {
    post(address, path, "application/json", body.to_string())
        .await
        .expect("an answer")
}

/// Sends a JSON request with further headers; the connection is where its answer begins.
pub(crate) async fn begin(
    address: SocketAddr,
    path: &str,
    headers: &[(&str, &str)],
    body: &Value,
) -> Connection {
    let body = body.to_string();
    let mut connection = Connection::open(address).await.expect("a connection");
    let head = head("POST", path, headers, Some(body.len()));
    connection.send(&head).await.expect("the head is sent");
    connection
        .send(body.as_bytes())
        .await
        .expect("the body is sent");
    connection
}

/// One request with a Content-Length on a connection of its own.
pub(crate) async fn request(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> std::io::Result<Answer> {
    let mut connection = Connection::open(address).await?;
    connection
        .send(&head(method, path, headers, Some(body.len())))
        .await?;
    connection.send(body).await?;
    connection.answer().await
}

/// The bytes of a request head.
pub(crate) fn head(
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    length: Option<usize>,
) -> Vec<u8> {
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: gateway.test\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if let Some(length) = length.filter(|&length| length > 0 || method == "POST") {
        head.push_str(&format!("content-length: {length}\r\n"));
    }
    head.push_str("\r\n");
    head.into_bytes()
}

/// `body` cut into chunks of a chunked request, with its end.
pub(crate) fn chunked(body: &[u8], size: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(body.len() + 32);
    for chunk in body.chunks(size) {
        out.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        out.extend_from_slice(chunk);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"0\r\n\r\n");
    out
}

pub(crate) struct Connection {
    stream: TcpStream,
    unread: Vec<u8>,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> std::io::Result<Self> {
        let stream = timeout(PATIENCE, TcpStream::connect(address)).await??;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            unread: Vec::new(),
        })
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.write_all(bytes).await
    }

    /// Reads one answer to its end; 1xx answers before it are skipped.
    pub(crate) async fn answer(&mut self) -> std::io::Result<Answer> {
        loop {
            let answer = self.any_answer().await?;
            if answer.status >= 200 {
                return Ok(answer);
            }
        }
    }

    /// Reads one answer, 1xx or final.
    pub(crate) async fn any_answer(&mut self) -> std::io::Result<Answer> {
        let mut answer = self.head().await?;
        if answer.status < 200 || answer.status == 204 || answer.status == 304 {
            return Ok(answer);
        }
        let chunked = answer
            .header("transfer-encoding")
            .is_some_and(|coding| coding.contains("chunked"));
        let length = answer
            .header("content-length")
            .and_then(|value| value.parse::<usize>().ok());
        match (chunked, length) {
            (true, _) => loop {
                match self.chunk().await? {
                    None => break answer.complete = false,
                    Some(chunk) if chunk.is_empty() => break,
                    Some(chunk) => answer.body.extend_from_slice(&chunk),
                }
            },
            (false, Some(length)) => {
                while self.unread.len() < length && self.fill().await? {}
                answer.complete = self.unread.len() >= length;
                let end = length.min(self.unread.len());
                answer.body.extend(self.unread.drain(..end));
            }
            (false, None) => {
                while self.fill().await? {}
                answer.body.append(&mut self.unread);
            }
        }
        Ok(answer)
    }

    /// Reads an answer's head alone.
    pub(crate) async fn head(&mut self) -> std::io::Result<Answer> {
        let end = loop {
            if let Some(at) = self.unread.windows(4).position(|four| four == b"\r\n\r\n") {
                break at;
            }
            if !self.fill().await? {
                return Err(std::io::Error::new(
                    std::io::ErrorKind::UnexpectedEof,
                    format!("closed after {:?}", String::from_utf8_lossy(&self.unread)),
                ));
            }
        };
        let head: Vec<u8> = self.unread.drain(..end + 4).collect();
        let head = String::from_utf8_lossy(&head);
        let mut lines = head.split("\r\n");
        let status = lines
            .next()
            .and_then(|line| line.split(' ').nth(1)?.parse().ok())
            .expect("a status");
        let headers = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        Ok(Answer {
            status,
            headers,
            body: Vec::new(),
            complete: true,
        })
    }

    /// The next chunk of a chunked answer: empty at its end, `None` when it breaks off.
    pub(crate) async fn chunk(&mut self) -> std::io::Result<Option<Vec<u8>>> {
        let line = loop {
            if let Some(at) = self.unread.windows(2).position(|two| two == b"\r\n") {
                break at;
            }
            if !self.fill().await? {
                return Ok(None);
            }
        };
        let size = String::from_utf8_lossy(&self.unread[..line]).into_owned();
        let size = usize::from_str_radix(size.trim(), 16).expect("a chunk size");
        let whole = line + 2 + size + 2;
        while self.unread.len() < whole {
            if !self.fill().await? {
                return Ok(None);
            }
        }
        let chunk = self.unread[line + 2..line + 2 + size].to_vec();
        self.unread.drain(..whole);
        Ok(Some(chunk))
    }

    /// The next bytes of a body, however framed.
    pub(crate) async fn some_bytes(&mut self) -> std::io::Result<Vec<u8>> {
        if self.unread.is_empty() {
            self.fill().await?;
        }
        Ok(std::mem::take(&mut self.unread))
    }

    /// Whether the other side has closed; waits for it to do so or to send something.
    pub(crate) async fn closed(&mut self) -> bool {
        !matches!(self.fill().await, Ok(true))
    }

    /// Closes the connection with a reset.
    pub(crate) fn reset(self) {
        // An error means that it is gone already.
        let _ = self.stream.set_zero_linger();
    }

    async fn fill(&mut self) -> std::io::Result<bool> {
        let mut buffer = vec![0; 64 * 1024];
        let read = timeout(
            PATIENCE + Duration::from_secs(60),
            self.stream.read(&mut buffer),
        )
        .await??;
        self.unread.extend_from_slice(&buffer[..read]);
        Ok(read > 0)
    }
}
