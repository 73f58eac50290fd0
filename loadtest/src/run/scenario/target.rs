//! Who gets the traffic: a gateway that runs somewhere, or one of our own before simulated engines.

use serde::Deserialize;
use serde_yaml_ng::Mapping;
use warmgate::sim::{EngineModel, Faults};

use super::Engines;

#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "Written")]
pub(crate) enum Target {
    Running(Running),
    Started(Box<Started>),
}

#[derive(Clone, Debug)]
pub(crate) struct Running {
    /// `HOST:PORT`.
    pub(crate) authority: String,
    /// Where its metrics are, if it is a Warmgate.
    pub(crate) admin: Option<String>,
    pub(crate) engines: Engines,
}

#[derive(Clone, Debug)]
pub(crate) struct Started {
    /// The gateway's configuration, without addresses and pods.
    pub(crate) gateway: Mapping,
    pub(crate) engines: EnginesSpec,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct EnginesSpec {
    pub(crate) count: usize,
    /// Real seconds for a simulated second; 0 answers at once.
    pub(crate) time_scale: f64,
    pub(crate) kv_blocks: usize,
    pub(crate) max_sequences: usize,
    /// The gateway speaks HTTP/2 to them: one connection for many requests.
    pub(crate) http2: bool,
    pub(crate) faults: Faults,
}

impl Default for EnginesSpec {
    fn default() -> Self {
        let model = EngineModel::default();
        Self {
            count: 4,
            time_scale: 1.0,
            kv_blocks: model.kv_blocks,
            max_sequences: model.max_sequences,
            http2: false,
            faults: Faults::default(),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    url: Option<String>,
    admin: Option<String>,
    /// Behind `url` stand simulated engines.
    #[serde(default)]
    simulated: bool,
    gateway: Option<Mapping>,
    engines: Option<EnginesSpec>,
}

const MOST_ENGINES: usize = 1024;
const OWN_KEYS: [&str; 3] = ["server.listen", "admin", "pods"];

impl TryFrom<Written> for Target {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        if let Some(url) = written.url {
            if written.gateway.is_some() || written.engines.is_some() {
                return Err("target: has url and gateway or engines; allowed: either".to_owned());
            }
            return Ok(Self::Running(Running {
                authority: authority("target.url", &url)?,
                admin: written
                    .admin
                    .map(|admin| authority("target.admin", &admin))
                    .transpose()?,
                engines: match written.simulated {
                    true => Engines::Simulated,
                    false => Engines::Unknown,
                },
            }));
        }
        if written.admin.is_some() || written.simulated {
            return Err("target: admin and simulated go with url, which is missing".to_owned());
        }
        let engines = written.engines.unwrap_or_default();
        if !(1..=MOST_ENGINES).contains(&engines.count) {
            return Err(format!(
                "target.engines.count: {} is out of range; allowed: 1 to {MOST_ENGINES}",
                engines.count
            ));
        }
        let gateway = written.gateway.unwrap_or_default();
        let has_listen = gateway
            .get("server")
            .is_some_and(|server| server.get("listen").is_some());
        let present = [
            has_listen,
            gateway.contains_key("admin"),
            gateway.contains_key("pods"),
        ];
        if let Some(at) = present.iter().position(|&present| present) {
            return Err(format!(
                "target.gateway.{}: is set by the load test itself; leave it out",
                OWN_KEYS[at]
            ));
        }
        Ok(Self::Started(Box::new(Started { gateway, engines })))
    }
}

/// `HOST:PORT` of an `http` URL without a path.
pub(crate) fn authority(name: &str, url: &str) -> Result<String, String> {
    let allowed = "allowed: http://HOST:PORT";
    let parsed: http::Uri = url
        .parse()
        .map_err(|error| format!("{name}: {url}: {error}; {allowed}"))?;
    let plain = parsed.scheme_str() == Some("http") && matches!(parsed.path(), "" | "/");
    match parsed.authority() {
        Some(authority) if plain && parsed.query().is_none() => Ok(match authority.port() {
            Some(_) => authority.to_string(),
            None => format!("{authority}:80"),
        }),
        _ => Err(format!("{name}: {url} is not such a URL; {allowed}")),
    }
}

impl Target {
    pub(crate) fn engines(&self) -> Engines {
        match self {
            Self::Running(running) => running.engines,
            Self::Started(_) => Engines::Simulated,
        }
    }
}
