//! Compares balancers in front of the same engines, on this machine and in one run: the balancer on one core, load and
//! engines on another. Rounds go over all balancers in turn, so that what the machine does meanwhile meets all alike.

mod balancer;
mod bare;
mod cores;
mod engine;
mod load;
mod plan;
mod process;
mod prompt;
mod report;
mod target;
mod wire;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use balancer::Balancer;
use cores::Cores;
use plan::{Measure, Test};
use report::{Report, Setting};
use target::Target;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Balancers to compare, by name and separated by commas [default: all].
    #[arg(long, value_delimiter = ',')]
    balancers: Vec<String>,
    /// Sizes of the request bodies in KiB.
    #[arg(long, value_delimiter = ',', default_value = "1,16,256,4096")]
    bodies: Vec<usize>,
    /// What to measure.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "throughput,latency,relay"
    )]
    measure: Vec<Measure>,
    /// Seconds of each single measurement.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// How often each is made; the median counts.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Keep-alive connections of the load.
    #[arg(long, default_value_t = 32)]
    connections: usize,
    /// Engines behind the balancers.
    #[arg(long, default_value_t = 4)]
    engines: usize,
    /// A folder to look for balancers in, before the search path; may be repeated.
    #[arg(long)]
    path: Vec<PathBuf>,
    /// Where to write report.md and report.json.
    #[arg(long)]
    out: Option<PathBuf>,
    /// The core of the balancer under test [default: the first this process may use].
    #[arg(long)]
    balancer_core: Option<usize>,
    /// The core of load and engines [default: the next].
    #[arg(long)]
    load_core: Option<usize>,
}

/// The engine's own command, for `compare` to start.
#[derive(clap::Args)]
pub(crate) struct EngineOptions {
    listen: Vec<SocketAddr>,
}

/// The bare proxy's own command, for `compare` to start.
#[derive(clap::Args)]
pub(crate) struct BareOptions {
    listen: SocketAddr,
    engines: Vec<SocketAddr>,
}

pub(crate) fn engine(options: &EngineOptions) -> Result<()> {
    engine::run(&options.listen)
}

pub(crate) fn bare(options: &BareOptions) -> Result<()> {
    bare::run(options.listen, &options.engines)
}

const LARGEST_BODY_KIB: usize = 32 << 10;

/// Compares, and prints the tables.
pub(crate) fn run(options: &Options) -> Result<()> {
    check(options)?;
    let balancers = wanted(&options.balancers)?;
    let cores = Cores::choose(options.balancer_core, options.load_core)?;
    process::pin_self(cores.load)?;
    let folder = std::env::temp_dir().join(format!("loadtest-compare-{}", std::process::id()));
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let result = compare(options, &balancers, cores, &folder);
    // Also after an error: nothing in it is of use without the processes.
    fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    let report = result?;
    print(&report.markdown());
    if let Some(out) = &options.out {
        write(&report, out)?;
    }
    let missing = report.missing_own();
    if !missing.is_empty() {
        bail!(
            "the comparison is not whole: {} failed, see the end of the report",
            missing.join(", ")
        );
    }
    Ok(())
}

fn check(options: &Options) -> Result<()> {
    if options.rounds == 0 || options.connections == 0 || options.engines == 0 {
        bail!("--rounds, --connections and --engines must be at least 1");
    }
    if !(0.1..=3600.0).contains(&options.seconds) {
        bail!("--seconds {}: must be from 0.1 to 3600", options.seconds);
    }
    let wrong = |kibibytes: &&usize| !(1..=LARGEST_BODY_KIB).contains(*kibibytes);
    if let Some(wrong) = options.bodies.iter().find(wrong) {
        bail!("--bodies {wrong}: must be from 1 to {LARGEST_BODY_KIB} KiB");
    }
    Ok(())
}

fn wanted(names: &[String]) -> Result<Vec<&'static Balancer>> {
    if names.is_empty() {
        return Ok(balancer::ALL.iter().collect());
    }
    let mut wanted: Vec<&Balancer> = Vec::new();
    for name in names {
        let Some(found) = balancer::ALL.iter().find(|known| known.name == name) else {
            let all: Vec<&str> = balancer::ALL.iter().map(|known| known.name).collect();
            bail!(
                "--balancers: no balancer {name:?}; there are {}",
                all.join(", ")
            );
        };
        if wanted.iter().any(|known| known.name == found.name) {
            bail!("--balancers: {name} is named twice");
        }
        wanted.push(found);
    }
    Ok(wanted)
}

fn compare(
    options: &Options,
    balancers: &[&Balancer],
    cores: Cores,
    folder: &Path,
) -> Result<Report> {
    let mut report = Report::new(Setting {
        seconds: options.seconds,
        rounds: options.rounds,
        engines: options.engines,
        cores,
    });
    let addresses = target::addresses(options.engines)?;
    let _engines = target::start_engines(&addresses, cores.load, folder)?;
    let mut targets = vec![Target::direct(addresses[0])];
    for balancer in balancers {
        let started = balancer
            .program
            .find(&options.path)
            .map_err(anyhow::Error::msg)
            .and_then(|found| {
                let path = &found.path;
                let target = Target::start(balancer, path, cores.balancer, folder, &addresses)?;
                Ok((target, found.version))
            });
        match started {
            Ok((target, version)) => {
                report.compared(balancer.name, version, balancer.about);
                targets.push(target);
            }
            Err(problem) => {
                say(&format!("without {}: {problem:#}", balancer.name));
                report.skipped(balancer.name, format!("{problem:#}"));
            }
        }
    }
    for test in plan::tests(&options.measure, &options.bodies, options.connections) {
        for round in 0..options.rounds {
            say(&format!("{}, round {}", test.title(), round + 1));
            measure(&test, round, &mut targets, options, &mut report);
        }
    }
    Ok(report)
}

/// One round: all once. Those that have ended are left out from then on.
fn measure(
    test: &Test,
    round: usize,
    targets: &mut Vec<Target>,
    options: &Options,
    report: &mut Report,
) {
    let measured = Duration::from_secs_f64(options.seconds);
    let mut ended = Vec::new();
    for place in plan::order(targets.len(), round) {
        let target = &mut targets[place];
        let problem = match target.measure(test, measured) {
            Ok(figures) => {
                report.add(test, target.name, round, figures);
                continue;
            }
            Err(problem) => problem,
        };
        let mut why = format!("{problem:#}");
        if let Err(end) = target.check() {
            why = format!("{end:#}; it is left out from here on");
            ended.push(target.name);
        }
        if report.failed(test, target.name, &why) {
            say(&format!("{}: {why}", target.name));
        }
    }
    targets.retain(|target| !ended.contains(&target.name));
}

fn write(report: &Report, out: &Path) -> Result<()> {
    fs::create_dir_all(out).with_context(|| format!("cannot create {}", out.display()))?;
    let json = serde_json::to_string_pretty(&report.json())?;
    for (name, text) in [("report.md", report.markdown()), ("report.json", json)] {
        let path = out.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

#[expect(
    clippy::print_stderr,
    reason = "a command line tool tells how far it is"
)]
fn say(line: &str) {
    eprintln!("{line}");
}

#[expect(clippy::print_stdout, reason = "the answer of a command line tool")]
fn print(text: &str) {
    println!("{text}");
}
