//! Builds every part, hands each what it needs, runs them as Pingora services, and ends the process in order.
//!
//! This is the only file that knows all the others.

mod reload;
mod shutdown;
mod tasks;

use std::collections::HashSet;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use pingora_core::apps::http_app::HttpServer;
use pingora_core::listeners::tls::TlsSettings;
use pingora_core::server::configuration::{Opt, ServerConf};
use pingora_core::server::{RunArgs, Server};
use pingora_core::services::background::background_service;
use pingora_core::services::listening::Service;
use pingora_proxy::http_proxy;

use crate::admin::Admin;
use crate::config::{Config, Listener};
use crate::fleet::Fleet;
use crate::metrics::Metrics;
use crate::proxy::{Front, Gateway, Live, State};
use crate::routing::Router;
use crate::telemetry::AccessLog;

pub use reload::Source;
use reload::Reloader;
use shutdown::{Drain, Signals};

/// Runs the gateway until it is told to end. `upgrade`: take the listening sockets over from the running process.
pub fn serve(config: &Config, source: Source, upgrade: bool) -> Result<()> {
    let state = build_state(config)?;
    let reloader = Arc::new(Reloader::new(Arc::clone(&state), source, config));
    let server_conf = Arc::new(server_conf(config));
    let options = Opt {
        upgrade,
        ..Opt::default()
    };
    let mut server = Server::new_with_opt_and_conf(options, (*server_conf).clone());
    server.bootstrap();
    let models = server.add_service(background_service("pods", tasks::Pods::new(&state, config)));
    server.add_service(background_service("engine metrics", tasks::EngineStats::new(&state)));
    server.add_service(background_service("reload", reload::OnSignal(Arc::clone(&reloader))));
    server.add_service(background_service(
        "end",
        Drain {
            state: Arc::clone(&state),
            grace: config.server.shutdown_grace,
        },
    ));
    let admin = HttpServer::new_app(Admin::new(Arc::clone(&state), reloader));
    let mut admin = Service::new("admin".to_owned(), admin);
    admin.add_tcp(&config.admin.listen.to_string());
    admin.threads = Some(1);
    server.add_service(admin);
    let front = server.add_service(front(config, &state, &server_conf)?);
    front.add_dependency(&models);
    announce(config);
    server.run(RunArgs {
        shutdown_signal: Box::new(Signals { state: Arc::clone(&state) }),
    });
    state.flush_logs();
    Ok(())
}
