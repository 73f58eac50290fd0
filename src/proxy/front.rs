//! The way in: what Pingora accepts on the client listeners, up to the HTTP layer.
//!
//! Pingora gives a proxy with a connector of one's own only as a service, and to what it accepts there one's own hand only as
//! a "custom session". So all connections are taken as such: here they get their TLS, are watched as a [`Connection`], and
//! go on to Pingora's HTTP/1.1 and HTTP/2.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use async_trait::async_trait;
use pingora_core::apps::{HttpServerApp, HttpServerOptions, ReusedHttpStream, ServerApp};
use pingora_core::connectors::ConnectorOptions;
use pingora_core::listeners::tls::Acceptor;
use pingora_core::protocols::Stream;
use pingora_core::protocols::http::ServerSession;
use pingora_core::protocols::http::v2::server::H2Options;
use pingora_core::protocols::l4::stream::Stream as TcpStream;
use pingora_core::server::ShutdownWatch;
use pingora_core::server::configuration::ServerConf;
use pingora_core::services::listening::Service;
use pingora_proxy::{HttpProxy, ProxyServiceBuilder};

use super::Gateway;
use super::connection::Connection;
use crate::fleet::EngineConnector;

/// The service behind every client listener.
pub type FrontService = Service<HttpProxy<Gateway, EngineConnector>>;

/// What a listener's connections are.
pub struct Front {
    pub address: SocketAddr,
    /// HTTP/2 without TLS, too.
    pub h2c: bool,
    pub tls: Option<Acceptor>,
}

/// The service, its listeners still to be added: all of them without TLS.
pub fn service(
    server_conf: &Arc<ServerConf>,
    gateway: Gateway,
    fronts: Vec<Front>,
    header_timeout: Arc<ArcSwapOption<Duration>>,
) -> FrontService {
    let idle = Arc::clone(gateway.state.fleet.idle_connections());
    let options = ConnectorOptions::from_server_conf(server_conf);
    let connector = EngineConnector::new(Some(options), idle);
    let fronts: Arc<[Front]> = fronts.into();
    let mut options = HttpServerOptions::default();
    options.force_custom = true;
    ProxyServiceBuilder::new(server_conf, gateway)
        .name("gateway")
        .server_options(options)
        .custom(
            connector,
            Arc::new(move |proxy, stream, shutdown| {
                let header_limit = header_timeout.load_full().map(|limit| *limit);
                let (fronts, shutdown) = (Arc::clone(&fronts), shutdown.clone());
                Box::pin(async move {
                    let (stream, h2c) = opened(stream, &fronts, header_limit).await?;
                    let connection = Box::new(Connection::new(stream, header_limit));
                    Http::new(proxy, h2c)
                        .process_new(connection, &shutdown)
                        .await
                })
            }),
        )
        .build()
}

/// The time for a TLS handshake where the time for a head is not limited.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(60);

/// The stream with its TLS done, and whether it may be HTTP/2 without TLS.
async fn opened(
    stream: Stream,
    fronts: &[Front],
    header_limit: Option<Duration>,
) -> Option<(Stream, bool)> {
    if fronts.iter().all(|front| front.tls.is_none() && !front.h2c) {
        return Some((stream, false));
    }
    let ends = Ends::of(&stream);
    let Some(front) = ends.front(fronts) else {
        log::error!("{ends}: closed, as the address it came to is none of server.listen");
        return None;
    };
    let Some(acceptor) = &front.tls else {
        return Some((stream, front.h2c));
    };
    let Ok(tcp) = stream.into_any().downcast::<TcpStream>() else {
        log::error!("{ends}: closed, as TLS is done over TCP only");
        return None;
    };
    let limit = header_limit.unwrap_or(HANDSHAKE_TIMEOUT);
    // Scanners and health checks of a port end like this, too, so it is no warning.
    match tokio::time::timeout(limit, acceptor.tls_handshake(*tcp)).await {
        Ok(Ok(tls)) => Some((Box::new(tls), false)),
        Ok(Err(error)) => {
            log::info!("{ends}: TLS handshake failed: {error}");
            None
        }
        Err(_) => {
            log::info!("{ends}: no TLS handshake within {limit:?}");
            None
        }
    }
}

/// Both ends of a connection.
struct Ends {
    client: Option<SocketAddr>,
    local: Option<SocketAddr>,
}

impl Ends {
    fn of(stream: &Stream) -> Self {
        let digest = stream.get_socket_digest();
        let digest = digest.as_deref();
        Self {
            client: digest.and_then(|digest| digest.peer_addr()?.as_inet().copied()),
            local: digest.and_then(|digest| digest.local_addr()?.as_inet().copied()),
        }
    }

    /// The listener that the connection came by: the one of its very address, else the one of all addresses.
    fn front<'a>(&self, fronts: &'a [Front]) -> Option<&'a Front> {
        let local = self.local?;
        let exact = fronts.iter().find(|front| front.address == local);
        exact.or_else(|| {
            fronts.iter().find(|front| {
                front.address.port() == local.port()
                    && front.address.ip().is_unspecified()
                    && front.address.is_ipv4() == local.is_ipv4()
            })
        })
    }
}

impl fmt::Display for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |end: Option<SocketAddr>| end.map_or("?".to_owned(), |end| end.to_string());
        let (client, local) = (shown(self.client), shown(self.local));
        write!(f, "connection from {client} to {local}")
    }
}

/// What an HTTP/2 client may send ahead of what was read, on one stream and on all of a connection. With the protocol's own
/// 64 KiB a long prompt takes a round trip for each of them.
const H2_STREAM_WINDOW: u32 = 1 << 20;
const H2_CONNECTION_WINDOW: u32 = 4 << 20;

/// A connection without a stream on it is closed after this long.
const H2_IDLE: Duration = Duration::from_secs(600);

/// The HTTP layer of a connection: Pingora's proxy with the listener's own options.
struct Http {
    proxy: Arc<HttpProxy<Gateway, EngineConnector>>,
    options: HttpServerOptions,
}

impl Http {
    fn new(proxy: Arc<HttpProxy<Gateway, EngineConnector>>, h2c: bool) -> Arc<Self> {
        let mut options = HttpServerOptions::default();
        options.h2c = h2c;
        options.h2_idle_timeout = Some(H2_IDLE);
        Arc::new(Self { proxy, options })
    }
}

#[async_trait]
impl HttpServerApp for Http {
    async fn process_new_http(
        self: &Arc<Self>,
        session: ServerSession,
        shutdown: &ShutdownWatch,
    ) -> Option<ReusedHttpStream> {
        self.proxy.process_new_http(session, shutdown).await
    }

    fn server_options(&self) -> Option<&HttpServerOptions> {
        Some(&self.options)
    }

    fn h2_options(&self) -> Option<H2Options> {
        let mut options = H2Options::new();
        options
            .initial_window_size(H2_STREAM_WINDOW)
            .initial_connection_window_size(H2_CONNECTION_WINDOW);
        Some(options)
    }
}
