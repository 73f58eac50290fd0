//! A simulated LLM engine: what a real one looks like from outside, without a model.
//!
//! The core ([`engine`]) is pure and runs on virtual time; around it stands an OpenAI face with streams, usage, metrics under
//! vLLM's names and faults on demand. The demo, the tests and the load test use this one engine.

mod answer;
mod drive;
pub mod engine;
mod faults;
mod http;
mod pages;
mod prompt;
mod seen;
mod socket;
mod stream;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use anyhow::Context as _;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;
use tokio::task::JoinSet;

pub use engine::EngineModel;
pub use faults::{Chunk, Faults};
pub use seen::{Ended, SeenRequest};

use drive::Driver;
use http::Face;
use seen::Log;
use socket::{Socket, Switch};

#[derive(Clone, Debug)]
pub struct Options {
    pub address: SocketAddr,
    pub models: Vec<String>,
    pub engine: EngineModel,
    /// Real seconds for a simulated second; 0: answers at once.
    pub time_scale: f64,
    /// Keep a log of the requests.
    pub observe: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            models: vec!["sim-model".to_owned()],
            engine: EngineModel::default(),
            time_scale: 1.0,
            observe: true,
        }
    }
}

/// A running engine; dropping it ends it with all its connections.
pub struct SimEngine {
    address: SocketAddr,
    face: Arc<Face>,
    tasks: JoinSet<()>,
}

const MOST_TIME_SCALE: f64 = 1e6;

/// Starts an engine on the current runtime.
pub async fn start(options: Options) -> io::Result<SimEngine> {
    if !(0.0..=MOST_TIME_SCALE).contains(&options.time_scale) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "time scale {} is not between 0 and {MOST_TIME_SCALE}",
                options.time_scale
            ),
        ));
    }
    let listener = listen(options.address)?;
    let address = listener.local_addr()?;
    let face = Arc::new(Face {
        models: options.models,
        driver: Driver::new(options.engine, options.time_scale),
        log: Arc::new(Log::new(options.observe)),
        faults: Default::default(),
        released: watch::Sender::new(0),
        health_checks: Default::default(),
        connections: Default::default(),
    });
    let mut tasks = JoinSet::new();
    tasks.spawn(face.driver.run());
    tasks.spawn(accept(listener, Arc::clone(&face)));
    Ok(SimEngine {
        address,
        face,
        tasks,
    })
}

impl SimEngine {
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn set_faults(&self, faults: Faults) {
        self.face.set_faults(faults);
    }

    /// Lets the held requests go on.
    pub fn release(&self) {
        self.face.release();
    }

    pub fn requests(&self) -> Vec<SeenRequest> {
        self.face.log.all()
    }

    pub fn clear_requests(&self) {
        self.face.log.clear();
    }

    /// Health checks so far.
    pub fn health_checks(&self) -> u64 {
        self.face.health_checks.load(Ordering::Relaxed)
    }

    /// Open connections, those of health checks included.
    pub fn connections(&self) -> u64 {
        self.face.connections.load(Ordering::Relaxed)
    }

    /// Ends it; when this returns the address is free.
    pub async fn stop(mut self) {
        self.tasks.shutdown().await;
    }

    /// Prompt tokens so far, and how many of them came out of the cache.
    pub fn totals(&self) -> engine::Totals {
        self.face.driver.with(engine::Engine::totals)
    }
}

/// An address that was in use a moment ago can be used again.
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv6() {
        TcpSocket::new_v6()?
    } else {
        TcpSocket::new_v4()?
    };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(4096)
}

async fn accept(listener: TcpListener, face: Arc<Face>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                // A connection that failed before it was accepted concerns nobody.
                let Ok((stream, _)) = accepted else { continue };
                if face.faults().close_on_accept {
                    continue;
                }
                // Without it events wait for the client's acknowledgement; if it fails the connection is gone.
                let _ = stream.set_nodelay(true);
                let switch = Switch::default();
                connections.spawn(serve(Socket::new(stream, switch.clone()), switch, Arc::clone(&face)));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(socket: Socket, switch: Switch, face: Arc<Face>) {
    face.connections.fetch_add(1, Ordering::Relaxed);
    let service = service_fn(|request| Arc::clone(&face).answer(request, switch.clone()));
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().keep_alive(true);
    // How a connection ends is told by the log of requests.
    let _ = builder
        .serve_connection(TokioIo::new(socket), service)
        .await;
    face.connections.fetch_sub(1, Ordering::Relaxed);
}

/// The command `warmgate sim`.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.1:8001")]
    listen: SocketAddr,
    /// A model to serve; may be repeated.
    #[arg(long = "model", value_name = "NAME", default_values_t = ["sim-model".to_owned()])]
    models: Vec<String>,
    /// Real seconds for a simulated second; 0 answers at once.
    #[arg(long, default_value_t = 1.0)]
    time_scale: f64,
    /// KV cache of the engine in blocks of 16 tokens.
    #[arg(long, default_value_t = EngineModel::default().kv_blocks)]
    kv_blocks: usize,
    /// Keep no log of the requests: for load tests.
    #[arg(long)]
    unobserved: bool,
}

/// Runs one engine until it is told to end.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let options = Options {
        address: arguments.listen,
        models: arguments.models.clone(),
        engine: EngineModel {
            kv_blocks: arguments.kv_blocks,
            ..EngineModel::default()
        },
        time_scale: arguments.time_scale,
        observe: !arguments.unobserved,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let engine = start(options)
            .await
            .with_context(|| format!("no engine at {}", arguments.listen))?;
        announce(&engine);
        let mut terminate =
            tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        tokio::select! {
            interrupted = tokio::signal::ctrl_c() => interrupted?,
            _ = terminate.recv() => {}
        }
        Ok(())
    })
}

#[expect(
    clippy::print_stderr,
    reason = "a command line tool tells its user that this is no real engine"
)]
fn announce(engine: &SimEngine) {
    eprintln!("simulated engine (no model) at {}", engine.url());
}

#[cfg(test)]
mod tests;
