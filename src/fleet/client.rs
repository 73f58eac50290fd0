//! Asks a pod something, over the same kind of connection that requests use.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use http::header::{AUTHORIZATION, HOST, USER_AGENT};
use pingora_core::connectors::http::Connector;
use pingora_core::{Error, ErrorType};
use pingora_http::RequestHeader;

use super::connector::{EngineConnector, IdleConnections};
use super::peer::PeerError;
use super::pod::Pod;

#[derive(Clone)]
pub(super) struct Client {
    connector: Arc<Connector<EngineConnector>>,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum GetError {
    #[error("{0}")]
    Peer(#[from] PeerError),
    #[error("{0}")]
    Http(#[from] Box<Error>),
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    #[error("the answer has more than {LARGEST} bytes")]
    TooLarge,
}

/// More than any engine's metrics page.
const LARGEST: usize = 8 << 20;

impl GetError {
    /// No connection could be made.
    pub(super) fn is_connect(&self) -> bool {
        match self {
            Self::Peer(_) => true,
            Self::Http(error) => is_connect(error.etype()),
            Self::TimedOut(_) | Self::TooLarge => false,
        }
    }
}

/// Whether an error of this type was met before anything could be sent.
pub(crate) fn is_connect(kind: &ErrorType) -> bool {
    matches!(
        kind,
        ErrorType::ConnectRefused
            | ErrorType::ConnectTimedout
            | ErrorType::ConnectNoRoute
            | ErrorType::ConnectError
            | ErrorType::ConnectProxyFailure
            | ErrorType::BindError
            | ErrorType::SocketError
            | ErrorType::TLSHandshakeFailure
            | ErrorType::TLSHandshakeTimedout
            | ErrorType::InvalidCert
            | ErrorType::HandshakeError
    )
}

impl Default for Client {
    fn default() -> Self {
        // Pingora's own pool does for the few questions of ours.
        let idle = Arc::new(IdleConnections::new(0));
        Self {
            connector: Arc::new(Connector::new_custom(
                None,
                EngineConnector::new(None, idle),
            )),
        }
    }
}

impl Client {
    pub(super) async fn get(
        &self,
        pod: &Pod,
        path: &str,
        key: Option<&str>,
        limit: Duration,
    ) -> Result<(u16, BytesMut), GetError> {
        tokio::time::timeout(limit, self.get_unlimited(pod, path, key))
            .await
            .map_err(|_| GetError::TimedOut(limit))?
    }

    async fn get_unlimited(
        &self,
        pod: &Pod,
        path: &str,
        key: Option<&str>,
    ) -> Result<(u16, BytesMut), GetError> {
        let peer = pod.peer()?;
        let target = format!("{}{path}", pod.spec().url.base_path);
        let mut request = RequestHeader::build("GET", target.as_bytes(), Some(4))?;
        request.insert_header(HOST, pod.host_header())?;
        request.insert_header(USER_AGENT, concat!("warmgate/", env!("CARGO_PKG_VERSION")))?;
        if let Some(key) = key {
            request.insert_header(AUTHORIZATION, format!("Bearer {key}"))?;
        }
        let (mut session, _) = self.connector.get_http_session(&*peer).await?;
        session.write_request_header(Box::new(request)).await?;
        session.finish_request_body().await?;
        session.read_response_header().await?;
        let status = session
            .response_header()
            .map_or(0, |header| header.status.as_u16());
        let mut body = BytesMut::new();
        while let Some(chunk) = session.read_response_body().await? {
            if body.len() + chunk.len() > LARGEST {
                return Err(GetError::TooLarge);
            }
            body.extend_from_slice(&chunk);
        }
        let idle = peer.options.idle_timeout;
        self.connector
            .release_http_session(session, &*peer, idle)
            .await;
        Ok((status, body))
    }
}
