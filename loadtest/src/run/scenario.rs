//! What a run does, as its YAML file says. Everything is checked here, so that what runs later needs no second look.

pub(crate) mod arrival;
mod overlay;
pub(crate) mod spread;
pub(crate) mod target;
#[cfg(test)]
mod tests;
pub(crate) mod workload;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Deserializer, Serialize};

use super::expect::Expect;
use arrival::Arrival;
use spread::{Spread, Time};
use target::Target;
use workload::Class;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scenario {
    /// What the scenario is to show, for the report.
    #[serde(default)]
    pub(crate) about: String,
    #[serde(default)]
    pub(crate) seed: u64,
    /// No request begins later than this.
    #[serde(deserialize_with = "duration")]
    pub(crate) duration: Duration,
    /// Requests that begin earlier are checked, but are in no figure.
    #[serde(default, deserialize_with = "duration")]
    pub(crate) warm_up: Duration,
    /// How long the requests that are open at the end may go on.
    #[serde(default = "half_a_minute", deserialize_with = "duration")]
    pub(crate) drain: Duration,
    #[serde(default = "ten_minutes", deserialize_with = "duration")]
    pub(crate) request_timeout: Duration,
    /// Sent as the header `routing-strategy`.
    #[serde(default)]
    pub(crate) strategy: Option<String>,
    #[serde(default = "simulated_model")]
    pub(crate) models: Vec<String>,
    #[serde(default = "yes")]
    pub(crate) stream: bool,
    pub(crate) target: Target,
    pub(crate) arrival: Arrival,
    pub(crate) workload: Vec<Class>,
    #[serde(default)]
    pub(crate) expect: Expect,
}

impl Scenario {
    /// Reads a file; each of `settings` is `path.to.key=VALUE` and replaces what the file says.
    pub(crate) fn load(file: &Path, settings: &[String]) -> Result<Self> {
        let text = std::fs::read_to_string(file)
            .with_context(|| format!("cannot read {}", file.display()))?;
        Self::parse(&text, settings, file.parent()).with_context(|| file.display().to_string())
    }

    /// `folder` is where the files are that the scenario names.
    fn parse(text: &str, settings: &[String], folder: Option<&Path>) -> Result<Self> {
        let overlaid;
        let text = match settings {
            [] => text,
            _ => {
                overlaid = overlay::apply(text, settings)?;
                &overlaid
            }
        };
        let mut scenario: Self = serde_yaml_ng::from_str(text)?;
        scenario.check()?;
        if let Some(folder) = folder {
            scenario.arrival.resolve(folder);
        }
        Ok(scenario)
    }

    fn check(&self) -> Result<()> {
        if self.duration.is_zero() {
            bail!("duration: 0 is too short; allowed: more than 0, as in 20s");
        }
        if self.warm_up >= self.duration {
            bail!(
                "warm_up: {:?} leaves nothing to measure; allowed: less than the duration, {:?}",
                self.warm_up,
                self.duration
            );
        }
        if self.models.is_empty() {
            bail!("models: the list is empty; allowed: at least one name");
        }
        if self.workload.is_empty() {
            bail!(
                "workload: the list is empty; allowed: at least one of {}",
                workload::KINDS
            );
        }
        if !self.workload.iter().any(|class| class.weight > 0.0) {
            bail!("workload: no class has a weight above 0");
        }
        self.expect.check(&self.target)
    }

    /// The most requests that the scenario itself lets be open at a time, if it says so.
    pub(crate) fn most_open(&self) -> Option<usize> {
        match &self.arrival {
            Arrival::Closed(closed) => Some(closed.concurrency),
            Arrival::Open(_) => None,
        }
    }
}

/// `250ms`, `1m30s`, or a number of seconds, as in the gateway's configuration.
pub(crate) fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    // Read by the spread's visitor, which knows the key.
    let spread = Spread::<Time>::deserialize(deserializer)?;
    spread
        .only()
        .map(Duration::from_secs_f64)
        .ok_or_else(|| serde::de::Error::custom("a duration that varies is not allowed here"))
}

fn half_a_minute() -> Duration {
    Duration::from_secs(30)
}

fn ten_minutes() -> Duration {
    Duration::from_secs(600)
}

fn simulated_model() -> Vec<String> {
    vec!["sim-model".to_owned()]
}

fn yes() -> bool {
    true
}

/// Whether answers are checked against what simulated engines must say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Engines {
    Simulated,
    Unknown,
}
