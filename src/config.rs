//! The whole configuration: what the file, the command line and the environment say, checked.
//!
//! [`Config::load`] reads all three and reports every problem at once. The command line wins over the
//! environment, the environment over the file, the file over the defaults. Nothing here reads the
//! process: file text, variables and arguments come in as values, so that loading is a function (only
//! the files that the configuration names, such as certificates, are looked at). What is known but not
//! built yet is refused when it is switched on, never passed over.

mod checks;
mod defaults;
mod environment;
mod files;
mod models;
mod pods;
mod problem;
mod reader;
mod routing;
mod rule;
mod sections;
#[cfg(test)]
mod tests;
mod unbuilt;
mod url;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_yaml_ng::Value;

pub use self::environment::Environment;
pub use self::problem::ConfigErrors;
use self::problem::{Problems, Wrong};
use self::reader::{Context, Node};
pub use self::rule::parse_duration;
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
    pub tokenizer: TokenizerService,
    /// File to write the traffic down in, see [`crate::capture`].
    pub capture: Option<PathBuf>,
    /// Lines for the log at start: what overrides the file, and what is likely a mistake.
    pub notes: Vec<String>,
}

/// Where a configuration comes from.
#[derive(Clone, Copy)]
pub struct Sources<'a> {
    pub file: Option<SourceFile<'a>>,
    /// `--pod URL`: these replace the pods of the file.
    pub pods: &'a [String],
    pub environment: &'a Environment,
    pub strategy: StrategyCheck<'a>,
}

#[derive(Clone, Copy)]
pub struct SourceFile<'a> {
    /// For messages only: the file is not read again.
    pub path: &'a Path,
    pub text: &'a str,
}

/// Says whether the router takes a strategy or weighted list, and if not, why and what it takes.
pub type StrategyCheck<'a> = &'a dyn Fn(&str) -> Result<(), String>;

impl Config {
    /// The checked configuration, or every problem that it has.
    pub fn load(sources: Sources<'_>) -> Result<Self, ConfigErrors> {
        let problems = Problems::default();
        let mut config = Self::default();
        let mut pods_read = false;
        if let Some(file) = sources.file {
            match parse(file) {
                Ok(tree) => {
                    let context = Context {
                        problems: &problems,
                        environment: sources.environment,
                    };
                    pods_read = config.read(&Node::root(&tree, context), sources.strategy);
                }
                Err(wrong) => {
                    // Which pods there are is not known then.
                    pods_read = true;
                    problems.add(file.path.display().to_string(), wrong);
                }
            }
        }
        sources
            .environment
            .override_file(&mut config, sources.strategy, &problems);
        checks::take_command_line(&mut config, sources.pods, &problems);
        if sources.pods.is_empty() && !pods_read {
            problems.add(
                "pods",
                Wrong::new(
                    "none given; list at least one URL here or give --pod URL",
                    "",
                ),
            );
        }
        checks::check(&mut config, &problems);
        problems.into_result(config)
    }

    /// Reads the file's tree; whether it lists pods, be they good or not.
    fn read(&mut self, root: &Node<'_>, strategy: StrategyCheck<'_>) -> bool {
        root.map(|map| {
            map.with("server", |node| sections::server(node, &mut self.server));
            map.with("admin", |node| sections::admin(node, &mut self.admin));
            map.with("limits", |node| sections::limits(node, &mut self.limits));
            map.with("timeouts", |node| {
                sections::timeouts(node, &mut self.timeouts)
            });
            map.with("retry", |node| sections::retry(node, &mut self.retry));
            map.with("health", |node| sections::health(node, &mut self.health));
            map.with("log", |node| sections::log(node, &mut self.log));
            map.with("auth", |node| sections::auth(node, &mut self.auth));
            let pods = map.take("pods");
            self.pods = pods.as_ref().map(pods::pods).unwrap_or_default();
            map.with("discovery", unbuilt::discovery);
            map.with("models", |node| {
                self.models = models::models(node, strategy)
            });
            map.with("routing", |node| {
                routing::routing(node, &mut self.routing, strategy)
            });
            map.scalar(&mut self.metrics_poll, "metrics_poll", rule::duration);
            map.with("tokenizer", |node| {
                sections::tokenizer(node, &mut self.tokenizer)
            });
            map.text(
                &mut self.capture,
                "capture",
                rule::or_none(files::appendable),
            );
            map.with("state_sync", unbuilt::state_sync);
            pods.is_some_and(|pods| !pods.is_empty())
        })
        .unwrap_or_default()
    }
}

/// The file as a tree. A syntax error comes with line and column, a key given twice with its name.
fn parse(file: SourceFile<'_>) -> Result<Value, Wrong> {
    serde_yaml_ng::from_str::<Value>(file.text)
        .and_then(|mut tree| {
            tree.apply_merge()?;
            Ok(tree)
        })
        .map_err(|error| Wrong::new(format!("is not readable as YAML: {error}"), ""))
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
    /// Lowest rate of a body in bytes a second, once it has taken `body_idle`; 0: no such rate.
    pub body_rate: usize,
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

/// The tokenizer that runs outside the gateway.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenizerService {
    pub timeout: Duration,
    /// How long a result is kept.
    pub ttl: Duration,
    /// Results kept at most.
    pub cache: usize,
    /// `tokenizer.json`, for the tokenizer of Hugging Face.
    pub file: Option<PathBuf>,
}

impl std::fmt::Debug for Auth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Auth")
            .field("client_keys", &self.client_keys.len())
            .field("engine_key", &self.engine_key.as_ref().map(|_| "set"))
            .finish()
    }
}
