//! Builds every part, hands each what it needs, runs them as Pingora services, and ends the process in order.
//!
//! This is the only file that knows all the others.

mod reload;
mod shutdown;
mod tasks;

use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use pingora_core::apps::http_app::HttpServer;
use pingora_core::listeners::tls::TlsSettings;
use pingora_core::listeners::{L4BufferSettings, ListenerConfig};
use pingora_core::server::configuration::{Opt, ServerConf};
use pingora_core::server::{RunArgs, Server};
use pingora_core::services::background::background_service;
use pingora_core::services::listening::Service;

use crate::admin::Admin;
use crate::capture::Capture;
use crate::config::{Config, Listener, ListenerTls};
use crate::fleet::Fleet;
use crate::metrics::Metrics;
use crate::proxy::{self, Front, FrontService, Gateway, Live, State};
use crate::routing::Router;
use crate::telemetry::{self, AccessLog};

use reload::Reloader;
pub use reload::Source;
use shutdown::{Drain, Signals};

/// Runs the gateway until it is told to end. `upgrade`: take the listening sockets over from the running process.
pub fn serve(config: &Config, source: Source, upgrade: bool) -> Result<()> {
    telemetry::start(&config.log).map_err(|error| anyhow!("cannot start the log: {error}"))?;
    if !upgrade {
        check_addresses(config)?;
    }
    announce(config);
    let state = build_state(config)?;
    let reloader = Arc::new(Reloader::new(Arc::clone(&state), source, config));
    let server_conf = Arc::new(server_conf(config));
    let options = Opt {
        upgrade,
        ..Opt::default()
    };
    let mut server = Server::new_with_opt_and_conf(options, self::server_conf(config));
    server.bootstrap();
    let pods = server.add_service(background_service("pods", tasks::Pods(Arc::clone(&state))));
    server.add_service(background_service(
        "engine metrics",
        tasks::EngineStats(Arc::clone(&state)),
    ));
    server.add_service(background_service(
        "reload",
        reload::OnSignal(Arc::clone(&reloader)),
    ));
    let drain = Drain {
        state: Arc::clone(&state),
        grace: config.server.shutdown_grace,
    };
    server.add_service(background_service("end", drain));
    server.add_service(admin(config, &state, reloader));
    let front = server.add_service(front(config, &state, &server_conf)?);
    // Nobody is served before each pod was asked once how it is and what it serves.
    front.add_dependency(&pods);
    server.run(RunArgs {
        shutdown_signal: Box::new(Signals {
            state: Arc::clone(&state),
        }),
    });
    state.flush_logs();
    Ok(())
}

/// Says what a configuration that holds amounts to; how many warnings it has.
#[expect(clippy::print_stdout, reason = "the answer of a command line tool")]
pub fn report_check(config: &Config) -> usize {
    for note in &config.notes {
        println!("note: {note}");
    }
    let warnings = config.warnings();
    for warning in &warnings {
        println!("warning: {warning}");
    }
    println!(
        "the configuration is good: {} pods, strategy {}",
        config.pods.len(),
        config.routing.strategy
    );
    warnings.len()
}

/// Slots of the prefix index: room for a fleet that changes while removed pods still end their requests.
fn pod_capacity(config: &Config) -> usize {
    (config.pods.len() * 2).next_multiple_of(64)
}

fn build_state(config: &Config) -> Result<Arc<State>> {
    let router = Router::new(config.routing.clone(), pod_capacity(config), random_seed());
    let live = Live::new(config, Arc::new(router));
    let metrics = Metrics::new(false).context("cannot register the metrics")?;
    let access = config
        .log
        .access
        .then(|| AccessLog::start(config.log.format))
        .transpose()
        .context("cannot start the access log")?;
    let capture = config.capture.as_deref().map(start_capture).transpose()?;
    let fleet = Fleet::new(config);
    Ok(Arc::new(State::new(
        live,
        Arc::new(fleet),
        Arc::new(metrics),
        access,
        capture,
        random_seed(),
    )))
}

fn start_capture(path: &Path) -> Result<Capture> {
    let capture = Capture::start(path)
        .with_context(|| format!("capture: cannot write {}", path.display()))?;
    log::info!(
        "the traffic's hashes, sizes and times are written to {}",
        path.display()
    );
    Ok(capture)
}

/// For the block hashes, unless the configuration gives a seed: a client that cannot guess it cannot make prompts collide.
fn random_seed() -> u64 {
    use std::hash::BuildHasher;
    std::hash::RandomState::new().hash_one(std::process::id())
}

/// Pingora ends a service whose address is taken, but not the process; so that is found out first.
fn check_addresses(config: &Config) -> Result<()> {
    let listeners = config
        .server
        .listen
        .iter()
        .map(|listener| ("server.listen", listener.address));
    for (key, address) in listeners.chain([("admin.listen", config.admin.listen)]) {
        TcpListener::bind(address).with_context(|| format!("{key}: cannot listen on {address}"))?;
    }
    Ok(())
}

fn server_conf(config: &Config) -> ServerConf {
    ServerConf {
        threads: config.server.threads,
        upgrade_sock: config.server.upgrade_socket.display().to_string(),
        // The request itself counts its tries; this only must not be the lower bound.
        max_retries: MOST_TRIES,
        // `Drain` ends the process before; this is the net below it.
        grace_period_seconds: Some(config.server.shutdown_grace.as_secs() + 5),
        graceful_shutdown_timeout_seconds: Some(1),
        upstream_keepalive_pool_size: IDLE_CONNECTIONS,
        ..ServerConf::default()
    }
}

const MOST_TRIES: usize = 32;
/// Idle connections to engines kept by each thread.
const IDLE_CONNECTIONS: usize = 4096;

fn admin(
    config: &Config,
    state: &Arc<State>,
    reloader: Arc<Reloader>,
) -> Service<HttpServer<Admin>> {
    let app = HttpServer::new_app(Admin::new(Arc::clone(state), reloader));
    let mut service = Service::new("admin".to_owned(), app);
    service.add_tcp(&config.admin.listen.to_string());
    service.threads = Some(1);
    service
}

fn front(
    config: &Config,
    state: &Arc<State>,
    server_conf: &Arc<ServerConf>,
) -> Result<FrontService> {
    let listeners = &config.server.listen;
    let front = |listener: &Listener| {
        let tls = listener.tls.as_ref().map(tls_settings).transpose();
        Ok(Front {
            address: listener.address,
            h2c: listener.h2c,
            tls: tls
                .with_context(|| format!("server.listen: TLS of {}", listener.address))?
                .map(TlsSettings::build),
        })
    };
    let fronts: Result<Vec<_>> = listeners.iter().map(front).collect();
    let gateway = Gateway::new(Arc::clone(state));
    let mut service = proxy::front_service(server_conf, gateway, fronts?, state.header_timeout());
    for listener in listeners {
        // Heads and bodies have buffers of their own, which are read into at once.
        let unbuffered = L4BufferSettings::default().read(0);
        let address = listener.address.to_string();
        service.add_listener(ListenerConfig::tcp(address).l4_buffer(unbuffered));
    }
    Ok(service)
}

fn tls_settings(tls: &ListenerTls) -> Result<TlsSettings> {
    let path = |path: &Path| {
        path.to_str()
            .map(str::to_owned)
            .context("a path that is not UTF-8")
    };
    let mut settings = TlsSettings::intermediate(&path(&tls.cert)?, &path(&tls.key)?)?;
    settings.enable_h2();
    if let Some(file) = &tls.client_ca {
        settings.set_client_cert_verifier(client_verifier(file)?);
    }
    Ok(settings)
}

fn client_verifier(file: &Path) -> Result<Arc<dyn rustls::server::danger::ClientCertVerifier>> {
    use rustls_pki_types::CertificateDer;
    use rustls_pki_types::pem::PemObject;
    let mut roots = rustls::RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(file)
        .with_context(|| format!("client_ca {}", file.display()))?;
    for certificate in certificates {
        roots.add(certificate?)?;
    }
    Ok(rustls::server::WebPkiClientVerifier::builder(Arc::new(roots)).build()?)
}

/// What an operator looks for first in the log.
fn announce(config: &Config) {
    log::info!("warmgate {} starts", env!("CARGO_PKG_VERSION"));
    for note in &config.notes {
        log::info!("{note}");
    }
    for warning in config.warnings() {
        log::warn!("{warning}");
    }
    for listener in &config.server.listen {
        let scheme = if listener.tls.is_some() {
            "https"
        } else {
            "http"
        };
        log::info!("listening on {scheme}://{}", listener.address);
    }
    log::info!("operator's pages on http://{}", config.admin.listen);
    let prefix = &config.routing.prefix_cache;
    log::info!(
        "{} pods, strategy {}, blocks of {} bytes, at most {} of them",
        config.pods.len(),
        config.routing.strategy,
        prefix.block_size,
        prefix.max_blocks
    );
}
