//! A balancer that runs, and how it is measured.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::balancer::{Balancer, Place};
use super::load::{self, Load};
use super::plan::Test;
use super::process::{self, Process};
use super::prompt::{Prompts, Shape};
use super::report::Figures;
use super::wire;

/// After all streams have begun; shorter before what is measured for a shorter time.
const LONGEST_WARM_UP: Duration = Duration::from_millis(600);
const LONGEST_START: Duration = Duration::from_secs(60);

/// A balancer that runs, or what has no balancer in between.
pub(super) struct Target {
    pub(super) name: &'static str,
    address: SocketAddr,
    /// `None`: the engine itself.
    process: Option<Process>,
}

pub(super) const DIRECT: &str = "(direct)";

/// Engines that run, on their addresses.
pub(super) fn start_engines(
    addresses: &[SocketAddr],
    core: usize,
    folder: &Path,
) -> Result<Process> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("engine");
    command.args(addresses.iter().map(ToString::to_string));
    let mut engines = process::start(&command, core, &folder.join("engines.log"))?;
    for address in addresses {
        until_ready(*address, &mut engines).context("the engines")?;
    }
    Ok(engines)
}

pub(super) fn addresses(count: usize) -> Result<Vec<SocketAddr>> {
    // Held together, so that no two are the same.
    let held: Result<Vec<_>> = (0..count).map(|_| process::hold_address()).collect();
    held?
        .iter()
        .map(|socket| Ok(socket.local_addr()?))
        .collect()
}

/// Waits for the first right answer.
fn until_ready(address: SocketAddr, process: &mut Process) -> Result<()> {
    let shape = Shape {
        body: 1 << 10,
        stream: None,
        pause_ms: 0,
    };
    let mut prompts = Prompts::new(shape, 0);
    let begun = Instant::now();
    loop {
        process.check()?;
        let tried = wire::Connection::open(address)
            .and_then(|mut connection| connection.exchange(prompts.next(), 0, |_| {}));
        match tried {
            Ok(()) => return Ok(()),
            Err(error) if begun.elapsed() > LONGEST_START => {
                let output = process.last_output();
                return Err(
                    error.context(format!("no right answer in a minute; it said:\n{output}"))
                );
            }
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

impl Target {
    pub(super) fn direct(engine: SocketAddr) -> Self {
        Self {
            name: DIRECT,
            address: engine,
            process: None,
        }
    }

    pub(super) fn start(
        balancer: &Balancer,
        program: &Path,
        core: usize,
        folder: &Path,
        engines: &[SocketAddr],
    ) -> Result<Self> {
        let own = folder.join(balancer.name);
        fs::create_dir_all(&own)?;
        let free = addresses(2)?;
        let place = Place {
            program,
            folder: &own,
            listen: free[0],
            admin: free[1],
            engines,
        };
        let command = (balancer.command)(&place)?;
        let mut process = process::start(&command, core, &own.join("log"))?;
        until_ready(place.listen, &mut process)?;
        process.check_pinned(core)?;
        Ok(Self {
            name: balancer.name,
            address: place.listen,
            process: Some(process),
        })
    }

    /// An error that it has ended, if it has.
    pub(super) fn check(&mut self) -> Result<()> {
        self.process.as_mut().map_or(Ok(()), Process::check)
    }

    pub(super) fn measure(&self, test: &Test, measured: Duration) -> Result<Figures> {
        let load = Load {
            connections: test.connections,
            shape: test.shape,
            rate: test.rate,
            warm_up: test.shape.stream_time() + LONGEST_WARM_UP.min(measured / 2),
            measured,
        };
        let mut used = Vec::with_capacity(2);
        let seen = load::run(self.address, &load, || {
            used.push(self.process.as_ref().map(Process::cpu).transpose());
        })?;
        let mut used = used.into_iter();
        let (Some(before), Some(after)) = (used.next(), used.next()) else {
            bail!("the load did not run to its end");
        };
        let cpu = match (before?, after?) {
            (Some(before), Some(after)) => Some(after.saturating_sub(before)),
            _ => None,
        };
        let memory = self.process.as_ref().map(Process::memory).transpose()?;
        Ok(Figures::new(&seen, cpu, memory))
    }
}
