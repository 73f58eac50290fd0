//! Reads the configuration, at the start and again on SIGHUP or `POST /reload`.
//!
//! A broken file changes nothing. What a running process cannot change (listeners, threads, paths of sockets, logs) is
//! kept as it was, and the answer says so.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use pingora_core::server::ShutdownWatch;
use pingora_core::services::background::BackgroundService;
use tokio::signal::unix::SignalKind;

use super::shutdown::listen;
use crate::admin::Reload;
use crate::config::{Config, Environment, SourceFile, Sources};
use crate::proxy::{Live, State};
use crate::routing::check_strategy;

/// Where the configuration comes from; the same for every reload.
#[derive(Clone, Debug, Default)]
pub struct Source {
    pub file: Option<PathBuf>,
    pub pods: Vec<String>,
    pub listen: Option<String>,
    pub admin: Option<String>,
}

impl Source {
    /// The error has one problem a line.
    pub fn load(&self) -> Result<Config, String> {
        let text = match &self.file {
            None => None,
            Some(path) => {
                let text = std::fs::read_to_string(path)
                    .map_err(|error| format!("{}: {error}", path.display()))?;
                Some((path, text))
            }
        };
        let environment = std::env::vars_os().collect::<Environment>();
        let strategy = |text: &str| check_strategy(text).map_err(|error| error.to_string());
        let mut config = Config::load(Sources {
            file: text.as_ref().map(|(path, text)| SourceFile { path, text }),
            pods: &self.pods,
            environment: &environment,
            strategy: &strategy,
        })
        .map_err(|errors| errors.to_string())?;
        self.override_addresses(&mut config)?;
        Ok(config)
    }

    fn override_addresses(&self, config: &mut Config) -> Result<(), String> {
        if let Some(listen) = &self.listen {
            let address = address("--listen", listen)?;
            config.server.listen = vec![crate::config::Listener {
                address,
                tls: None,
                h2c: false,
            }];
        }
        if let Some(admin) = &self.admin {
            config.admin.listen = address("--admin", admin)?;
        }
        Ok(())
    }
}

fn address(option: &str, value: &str) -> Result<std::net::SocketAddr, String> {
    value
        .parse()
        .map_err(|_| format!("{option}: `{value}` is not an address; allowed: ADDRESS:PORT such as 127.0.0.1:8080 or [::]:8080"))
}

pub(super) struct Reloader {
    state: Arc<State>,
    source: Source,
    /// The configuration in force. Held during a reload, so that two never mix.
    current: Mutex<Config>,
}

impl Reloader {
    pub(super) fn new(state: Arc<State>, source: Source, config: &Config) -> Self {
        Self {
            state,
            source,
            current: Mutex::new(config.clone()),
        }
    }
}

impl Reload for Reloader {
    fn reload(&self) -> Result<String, String> {
        let mut current = self.current.lock();
        let loaded = self.source.load();
        let config = match loaded {
            Ok(config) => config,
            Err(problems) => {
                self.state.metrics.config_reloaded(false);
                log::error!("reload: nothing changed: {}", problems.replace('\n', "; "));
                return Err(problems);
            }
        };
        let router = self
            .state
            .live()
            .router
            .with_settings(config.routing.clone(), super::pod_capacity(&config));
        self.state.replace(Live::new(&config, Arc::new(router)));
        self.state.fleet.apply(&config);
        self.state.metrics.config_reloaded(true);
        let kept = unchangeable(&current, &config);
        *current = config;
        let done = if kept.is_empty() {
            "reloaded".to_owned()
        } else {
            format!(
                "reloaded; changes of {} take effect at the next start",
                kept.join(", ")
            )
        };
        log::info!("{done}");
        Ok(done)
    }
}

/// Sections that differ but cannot change in a running process.
fn unchangeable(old: &Config, new: &Config) -> Vec<&'static str> {
    [
        ("server", old.server != new.server),
        ("admin", old.admin != new.admin),
        ("log", old.log != new.log),
        ("capture", old.capture != new.capture),
        ("metrics_poll", old.metrics_poll != new.metrics_poll),
    ]
    .into_iter()
    .filter_map(|(name, differs)| differs.then_some(name))
    .collect()
}

/// SIGHUP.
pub(super) struct OnSignal(pub(super) Arc<Reloader>);

#[async_trait]
impl BackgroundService for OnSignal {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        let Ok(mut hangup) = listen(SignalKind::hangup()) else {
            return;
        };
        loop {
            tokio::select! {
                _ = hangup.recv() => {
                    // The outcome is in the log.
                    let _ = self.0.reload();
                }
                _ = shutdown.changed() => return,
            }
        }
    }
}
