//! Pingora with nothing on it: round robin over the engines, bodies streamed. What its foundation costs Warmgate.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Result;
use async_trait::async_trait;
use pingora_core::modules::http::HttpModules;
use pingora_core::server::configuration::{Opt, ServerConf};
use pingora_core::server::{RunArgs, Server};
use pingora_core::upstreams::peer::HttpPeer;
use pingora_proxy::{ProxyHttp, Session, http_proxy_service};

struct Bare {
    engines: Vec<SocketAddr>,
    next: AtomicUsize,
}

#[async_trait]
impl ProxyHttp for Bare {
    type CTX = ();

    fn new_ctx(&self) {}

    fn init_downstream_modules(&self, _modules: &mut HttpModules) {
        // As in Warmgate: no compression.
    }

    async fn upstream_peer(
        &self,
        _session: &mut Session,
        _context: &mut (),
    ) -> pingora_core::Result<Box<HttpPeer>> {
        let next = self.next.fetch_add(1, Ordering::Relaxed) % self.engines.len();
        Ok(Box::new(HttpPeer::new(
            self.engines[next],
            false,
            String::new(),
        )))
    }
}

pub(super) fn run(listen: SocketAddr, engines: &[SocketAddr]) -> Result<()> {
    anyhow::ensure!(!engines.is_empty(), "give the engines' addresses");
    let conf = ServerConf {
        threads: 1,
        ..ServerConf::default()
    };
    let mut server = Server::new_with_opt_and_conf(Opt::default(), conf);
    server.bootstrap();
    let bare = Bare {
        engines: engines.to_vec(),
        next: AtomicUsize::new(0),
    };
    let conf = Arc::clone(&server.configuration);
    let mut service = http_proxy_service(&conf, bare);
    service.add_tcp(&listen.to_string());
    server.add_service(service);
    server.run(RunArgs::default());
    Ok(())
}
