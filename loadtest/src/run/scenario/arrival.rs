//! When requests begin.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use super::spread::{Spread, Time};

#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "Written")]
pub(crate) enum Arrival {
    Open(Open),
    Closed(Closed),
}

/// Conversations begin by the clock, however slow the answers are.
#[derive(Clone, Debug)]
pub(crate) enum Open {
    /// So many a second on average, at times that know nothing of each other.
    Poisson { rate: f64 },
    /// At the times of a trace, `speed` times as fast.
    Trace { file: PathBuf, speed: f64 },
}

/// So many clients, each of which waits for its answer before it goes on.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Closed {
    pub(crate) concurrency: usize,
    /// The clients begin one after the other over this time.
    #[serde(default, deserialize_with = "super::duration")]
    pub(crate) ramp: Duration,
    /// Pause of a client between two conversations.
    #[serde(default = "no_pause")]
    pub(crate) think: Spread<Time>,
}

const MOST_CLIENTS: usize = 100_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    open: Option<WrittenOpen>,
    closed: Option<Closed>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenOpen {
    rate: Option<f64>,
    trace: Option<PathBuf>,
    speed: Option<f64>,
}

impl TryFrom<Written> for Arrival {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        match (written.open, written.closed) {
            (Some(open), None) => open.check().map(Self::Open),
            (None, Some(closed)) => match closed.concurrency {
                1..=MOST_CLIENTS => Ok(Self::Closed(closed)),
                other => Err(format!(
                    "arrival.closed.concurrency: {other} is out of range; allowed: 1 to {MOST_CLIENTS}"
                )),
            },
            _ => Err("arrival: needs exactly one of open and closed".to_owned()),
        }
    }
}

impl WrittenOpen {
    fn check(self) -> Result<Open, String> {
        let positive = |name: &str, value: f64| match value.is_finite() && value > 0.0 {
            true => Ok(value),
            false => Err(format!("arrival.open.{name}: {value} is not above 0")),
        };
        match (self.rate, self.trace, self.speed) {
            (Some(rate), None, None) => Ok(Open::Poisson {
                rate: positive("rate", rate)?,
            }),
            (None, Some(file), speed) => Ok(Open::Trace {
                file,
                speed: positive("speed", speed.unwrap_or(1.0))?,
            }),
            _ => Err("arrival.open: needs a rate, or a trace with or without a speed".to_owned()),
        }
    }
}

impl Arrival {
    /// Files are looked for from the scenario's folder.
    pub(super) fn resolve(&mut self, folder: &Path) {
        if let Self::Open(Open::Trace { file, .. }) = self {
            *file = folder.join(&*file);
        }
    }
}

fn no_pause() -> Spread<Time> {
    Spread::fixed(0.0)
}
