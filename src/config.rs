//! The whole configuration: what the file, the command line and the environment say, checked.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::fleet::settings::{HealthSettings, PodSpec};
use crate::routing::settings::RoutingSettings;

#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub server: Server,
    pub admin: Admin,
    pub limits: Limits,
    pub timeouts: Timeouts,
    pub retry: Retry,
    pub health: HealthSettings,
    pub log: Log,
    pub auth: Auth,
    pub pods: Vec<PodSpec>,
    pub models: BTreeMap<String, Model>,
    pub routing: RoutingSettings,
    /// How often the engines' metrics are read.
    pub metrics_poll: Duration,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    pub listen: Vec<Listener>,
    /// Worker threads, already resolved: at least 1.
    pub threads: usize,
    pub shutdown_grace: Duration,
    pub upgrade_socket: PathBuf,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Listener {
    pub address: SocketAddr,
    pub tls: Option<ListenerTls>,
    /// HTTP/2 without TLS (prior knowledge), beside HTTP/1.1.
    pub h2c: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ListenerTls {
    pub cert: PathBuf,
    pub key: PathBuf,
    pub client_ca: Option<PathBuf>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Admin {
    pub listen: SocketAddr,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    pub body: usize,
    pub header_size: usize,
    pub headers: usize,
    pub header_timeout: Option<Duration>,
    pub body_idle: Option<Duration>,
}

/// `None`: no limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Timeouts {
    pub connect: Option<Duration>,
    pub first_byte: Option<Duration>,
    pub idle: Option<Duration>,
    pub request: Option<Duration>,
    pub client_write: Option<Duration>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Retry {
    /// Further pods tried after the first.
    pub attempts: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Log {
    pub level: log::LevelFilter,
    pub format: LogFormat,
    pub access: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    Json,
}

/// Keys are never shown: `Debug` hides them.
#[derive(Clone, PartialEq, Default)]
pub struct Auth {
    pub client_keys: Vec<String>,
    pub engine_key: Option<String>,
}

/// A model as configured; a model that pods serve needs no entry.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Model {
    pub aliases: Vec<String>,
    /// `None`: the file's `routing.strategy`.
    pub strategy: Option<String>,
    pub default_profile: Option<String>,
    pub profiles: BTreeMap<String, Profile>,
}

/// One profile: the reference's JSON keys.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Profile {
    pub routing_strategy: Option<String>,
    pub standard_deviation_factor: Option<f64>,
}

impl std::fmt::Debug for Auth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Auth")
            .field("client_keys", &self.client_keys.len())
            .field("engine_key", &self.engine_key.as_ref().map(|_| "set"))
            .finish()
    }
}
