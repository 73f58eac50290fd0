//! Starts the real binary in front of simulated engines, and speaks to both.
//!
//! Nothing here sleeps to be safe: every wait is for a condition, with a deadline after which the test fails.

pub(crate) mod client;
pub(crate) mod gateway;

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use tokio::time::Instant;
use warmgate::sim::{self, Faults, SeenRequest, SimEngine};

/// Long enough for a loaded machine; nothing waits so long unless it has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// An address that nobody listens on now.
pub(crate) fn free_address() -> SocketAddr {
    let probe = TcpListener::bind("127.0.0.1:0").expect("a free port");
    probe.local_addr().expect("its address")
}

/// Asks again until `check` gives a value.
pub(crate) async fn eventually<T>(what: &str, check: impl AsyncFnMut() -> Option<T>) -> T {
    within(PATIENCE, what, check).await
}

pub(crate) async fn within<T>(
    patience: Duration,
    what: &str,
    mut check: impl AsyncFnMut() -> Option<T>,
) -> T {
    let end = Instant::now() + patience;
    let mut again = tokio::time::interval(Duration::from_millis(10));
    loop {
        again.tick().await;
        if let Some(value) = check().await {
            return value;
        }
        assert!(Instant::now() < end, "not within {patience:?}: {what}");
    }
}

/// Simulated engines that answer at once.
pub(crate) struct Engines(pub(crate) Vec<SimEngine>);

/// `count` engines that serve `models`.
pub(crate) async fn engines(count: usize, models: &[&str]) -> Engines {
    let mut engines = Vec::with_capacity(count);
    for _ in 0..count {
        engines.push(engine_at("127.0.0.1:0".parse().expect("an address"), models).await);
    }
    Engines(engines)
}

pub(crate) async fn engine_at(address: SocketAddr, models: &[&str]) -> SimEngine {
    let options = sim::Options {
        address,
        models: models.iter().map(|&model| model.to_owned()).collect(),
        time_scale: 0.0,
        ..sim::Options::default()
    };
    sim::start(options).await.expect("an engine starts")
}

impl Engines {
    /// The `pods:` section for them, named e1, e2, ... , with quick health checks.
    pub(crate) fn pods(&self) -> String {
        let pods: String = (1..)
            .zip(&self.0)
            .map(|(number, engine)| format!("  - {{url: \"{}\", name: e{number}}}\n", engine.url()))
            .collect();
        format!(
            "health: {{interval: 200ms, timeout: 1s, unhealthy_after: 2}}\nmetrics_poll: 200ms\npods:\n{pods}"
        )
    }

    /// What reached any of them, in the order of the engines.
    pub(crate) fn all_requests(&self) -> Vec<SeenRequest> {
        self.0.iter().flat_map(SimEngine::requests).collect()
    }

    pub(crate) fn set_faults(&self, faults: &Faults) {
        for engine in &self.0 {
            engine.set_faults(faults.clone());
        }
    }
}
