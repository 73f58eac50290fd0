//! Connection data of a pod, the same for traffic and for the gateway's own questions.
//!
//! With [`client`](super::client) and [`connector`] the only part of the fleet that knows Pingora: what is checked of a pod's certificate must not
//! differ between the two.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pingora_core::protocols::tls::CaType;
use pingora_core::upstreams::peer::HttpPeer;
use pingora_core::utils::tls::{WrappedX509, parse_x509};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

use super::connector;
use super::settings::{PodUrl, UpstreamTls};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeerError {
    #[error("its name is not resolved")]
    Unresolved,
    #[error("cannot read the certificates in {file}: {reason}")]
    Ca { file: String, reason: String },
}

/// An idle connection is closed before the engine does it: uvicorn, under most engines, keeps one for 5 s, and a
/// request sent on a connection that is being closed cannot be sent again.
const IDLE: Duration = Duration::from_secs(4);
const STREAMS_PER_CONNECTION: usize = 128;

pub(super) fn build(
    url: &PodUrl,
    address: SocketAddr,
    connect_timeout: Option<Duration>,
) -> Result<Box<HttpPeer>, PeerError> {
    let name = url
        .tls
        .as_ref()
        .map(|tls| server_name(tls, &url.host))
        .unwrap_or_default();
    let mut peer = HttpPeer::new(address, url.tls.is_some(), name);
    let options = &mut peer.options;
    options.connection_timeout = connect_timeout;
    // The handshake gets its own share of the time.
    options.total_connection_timeout = connect_timeout.map(|limit| limit * 2);
    options.idle_timeout = Some(IDLE);
    options.max_h2_streams = STREAMS_PER_CONNECTION;
    match (&url.tls, url.http2) {
        (None, false) => options.alpn = connector::protocol(),
        (None, true) => options.set_http_version(2, 2),
        (Some(_), false) => options.set_http_version(1, 1),
        (Some(_), true) => options.set_http_version(2, 1),
    }
    if let Some(tls) = &url.tls {
        options.verify_cert = tls.verify;
        options.verify_hostname = tls.verify;
        options.ca = tls.ca.as_deref().map(read_ca).transpose()?;
    }
    Ok(Box::new(peer))
}

/// The name that is asked for and checked. Never empty: without a name Pingora checks nothing, and cannot even shake
/// hands with rustls. An address as the name is checked but not sent.
fn server_name(tls: &UpstreamTls, host: &str) -> String {
    tls.sni.as_deref().unwrap_or(host).to_owned()
}

fn read_ca(file: &Path) -> Result<Arc<CaType>, PeerError> {
    let fail = |reason: String| PeerError::Ca {
        file: file.display().to_string(),
        reason,
    };
    let certificates = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| fail(error.to_string()))?;
    if certificates.is_empty() {
        return Err(fail("it has no certificate".to_owned()));
    }
    let wrap = |der: CertificateDer<'_>| WrappedX509::new(der.to_vec(), parse_x509);
    Ok(certificates.into_iter().map(wrap).collect())
}
