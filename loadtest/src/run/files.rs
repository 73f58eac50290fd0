//! Open files: each connection is one at either end, and systems are stingy with them.

use anyhow::{Result, bail};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::scenario::Scenario;
use super::scenario::target::Target;

/// What a process needs beside its connections.
const OTHERS: u64 = 200;

/// Raises this process's limit, which the gateway inherits, and says what to do if that is not enough.
pub(crate) fn make_room(scenario: &Scenario) -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        },
    )?;
    let Some(most_open) = scenario.most_open() else {
        return Ok(());
    };
    match limit.maximum {
        Some(maximum) if maximum < needed(scenario, most_open as u64) => {
            let needed = needed(scenario, most_open as u64);
            let spare = match &scenario.target {
                Target::Started(started) if !started.engines.http2 => {
                    ", or --set target.engines.http2=true, which halves the need"
                }
                _ => "",
            };
            bail!(
                "{most_open} requests at a time need {needed} open files in a process, and the hard limit is {maximum}; raise it (ulimit -Hn {needed} as root; docker run --ulimit nofile={needed}:{needed}; LimitNOFILE={needed} in systemd), or use fewer with --set arrival.closed.concurrency=N{spare}"
            )
        }
        _ => Ok(()),
    }
}

/// With engines in this process, it and the gateway have both a connection to either side of each request.
fn needed(scenario: &Scenario, most_open: u64) -> u64 {
    let sides = match &scenario.target {
        Target::Started(started) if !started.engines.http2 => 2,
        _ => 1,
    };
    most_open * sides + OTHERS
}
