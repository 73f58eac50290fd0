//! Connections to the gateway, kept while it keeps them.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::Context as _;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::failure::{Failure, Kind, chain};

pub(super) struct Pool {
    address: SocketAddr,
    /// The one used last is taken first, so that those beyond need grow old and are closed.
    idle: Mutex<Vec<Connection>>,
    opened: AtomicU64,
}

pub(super) struct Connection {
    sender: SendRequest<Full<Bytes>>,
}

/// Thousands of connections are open at a time; an event is short.
const BUFFER: usize = 16 << 10;

impl Pool {
    pub(super) async fn new(authority: &str) -> anyhow::Result<Self> {
        let mut addresses = tokio::net::lookup_host(authority)
            .await
            .with_context(|| format!("cannot look up {authority}"))?;
        Ok(Self {
            address: addresses
                .next()
                .with_context(|| format!("{authority} has no address"))?,
            idle: Mutex::default(),
            opened: AtomicU64::new(0),
        })
    }

    pub(super) fn opened(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }

    pub(super) fn take(&self) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(connection) = idle.pop() {
            if !connection.sender.is_closed() {
                return Some(connection);
            }
        }
        None
    }

    pub(super) fn put(&self, connection: Connection) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(connection);
    }

    pub(super) async fn open(&self) -> Result<Connection, Failure> {
        let no_connection =
            |error: &dyn std::error::Error| Failure::new(Kind::Connect, chain(error));
        let stream = TcpStream::connect(self.address)
            .await
            .map_err(|error| no_connection(&error))?;
        // A request must not wait for the acknowledgement of the one before.
        stream
            .set_nodelay(true)
            .map_err(|error| no_connection(&error))?;
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(BUFFER)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| no_connection(&error))?;
        self.opened.fetch_add(1, Ordering::Relaxed);
        // How it ends is told to the request on it; without one it concerns nobody.
        tokio::spawn(connection);
        Ok(Connection { sender })
    }
}

type Unsent = Option<Request<Full<Bytes>>>;

impl Connection {
    /// On failure gives the request back if nothing of it has been sent.
    pub(super) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, (Failure, Unsent)> {
        self.sender
            .try_send_request(request)
            .await
            .map_err(|mut error| {
                let unsent = error.take_message();
                (Failure::new(Kind::NoAnswer, chain(error.error())), unsent)
            })
    }

    /// Whether the gateway takes another request on it, once the answer has been read to its end.
    pub(super) async fn is_reusable(&mut self) -> bool {
        self.sender.ready().await.is_ok()
    }
}
