//! What was run.

use serde::Serialize;

use super::super::super::scenario::arrival::{Arrival, Open};
use super::super::super::scenario::target::Target;
use super::super::super::scenario::{Engines, Scenario};

#[derive(Debug, Serialize)]
pub(in super::super) struct Setting {
    pub(in super::super) name: String,
    pub(in super::super) about: String,
    pub(in super::super) seed: u64,
    pub(in super::super) duration_seconds: f64,
    pub(in super::super) warm_up_seconds: f64,
    pub(in super::super) strategy: Option<String>,
    pub(in super::super) models: Vec<String>,
    pub(in super::super) stream: bool,
    pub(in super::super) arrival: String,
    pub(in super::super) target: String,
    pub(in super::super) engines: Engines,
    pub(in super::super) cores: usize,
    pub(in super::super) times_count_from: &'static str,
}

const FROM: &str = "the intended start of each request, not the moment the client got round to it";

impl Setting {
    pub(super) fn new(scenario: &Scenario, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            about: scenario.about.clone(),
            seed: scenario.seed,
            duration_seconds: scenario.duration.as_secs_f64(),
            warm_up_seconds: scenario.warm_up.as_secs_f64(),
            strategy: scenario.strategy.clone(),
            models: scenario.models.clone(),
            stream: scenario.stream,
            arrival: match &scenario.arrival {
                Arrival::Closed(closed) => format!("closed loop, {} clients", closed.concurrency),
                Arrival::Open(Open::Poisson { rate }) => {
                    format!("open loop, {rate} conversations a second (Poisson)")
                }
                Arrival::Open(Open::Trace { file, speed }) => {
                    format!("open loop, times of {} at speed {speed}", file.display())
                }
            },
            target: match &scenario.target {
                Target::Running(running) => format!("http://{}", running.authority),
                Target::Started(started) => format!(
                    "a gateway of its own before {} simulated engines",
                    started.engines.count
                ),
            },
            engines: scenario.target.engines(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            times_count_from: FROM,
        }
    }
}
