//! Compares balancers in front of the same engines, on this machine and in one run: the balancer on one core, load and
//! engines on another. Rounds go over all balancers in turn, so that what the machine does meanwhile meets all alike.

mod balancer;
mod bare;
mod engine;
mod load;
mod process;
mod prompt;
mod report;
mod wire;

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use balancer::{Balancer, Place};
use load::Load;
use process::Process;
use prompt::Shape;
use report::{Figures, Report};

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
    /// The core of the balancer under test.
    #[arg(long, default_value_t = 0)]
    balancer_core: usize,
    /// The core of load and engines.
    #[arg(long, default_value_t = 1)]
    load_core: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
enum Measure {
    /// Closed loop: requests a second, CPU a request, memory.
    Throughput,
    /// Open loop at a fixed rate: what the balancer adds to the time of an answer.
    Latency,
    /// 200 streams, an event each 10 ms: CPU an event.
    Relay,
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

/// One row of what is measured, over all balancers.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Test {
    measure: Measure,
    shape: Shape,
    connections: usize,
    rate: Option<f64>,
}

/// Events of a streamed answer, where the engine sends them at once.
const EVENTS: u32 = 32;
const RELAY_STREAMS: usize = 200;
const RELAY_PAUSE_MS: u32 = 10;
const RELAY_EVENTS: u32 = 100;
const WARM_UP: Duration = Duration::from_millis(600);
const LONGEST_START: Duration = Duration::from_secs(60);

/// Compares, and prints the table.
pub(crate) fn run(options: &Options) -> Result<()> {
    if options.rounds == 0 || options.connections == 0 || options.engines == 0 {
        bail!("--rounds, --connections and --engines must be at least 1");
    }
    process::pin_self(options.load_core)?;
    let folder = std::env::temp_dir().join(format!("loadtest-compare-{}", std::process::id()));
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let result = compare(options, &folder);
    // Also after an error: nothing in it is of use without the processes.
    fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    result
}

/// A balancer that runs, or what has no balancer in between.
struct Target {
    name: &'static str,
    address: SocketAddr,
    /// `None`: the engine itself.
    process: Option<Process>,
}

const DIRECT: &str = "(direct)";

fn compare(options: &Options, folder: &Path) -> Result<()> {
    let addresses = addresses(options.engines)?;
    let mut engines = Command::new(std::env::current_exe()?);
    engines.arg("engine");
    engines.args(addresses.iter().map(ToString::to_string));
    let mut engines = process::start(&engines, options.load_core, &folder.join("engines.log"))?;
    until_ready(addresses[0], &mut engines).context("the engines")?;

    let mut targets = vec![Target {
        name: DIRECT,
        address: addresses[0],
        process: None,
    }];
    let mut report = Report::default();
    for balancer in wanted(&options.balancers)? {
        match start(balancer, options, folder, &addresses) {
            Ok(target) => targets.push(target),
            Err(problem) => {
                say(&format!("without {}: {problem:#}", balancer.name));
                report.skipped(balancer.name, format!("{problem:#}"));
            }
        }
    }
    for test in tests(options) {
        for round in 0..options.rounds {
            for target in &targets {
                say(&format!(
                    "{:?} {} KiB{} round {}: {}",
                    test.measure,
                    test.shape.body >> 10,
                    test.shape.stream.map_or("", |_| " streamed"),
                    round + 1,
                    target.name
                ));
                match measure(&test, target, options) {
                    Ok(figures) => report.add(test, target.name, figures),
                    Err(problem) => {
                        say(&format!("{}: {problem:#}", target.name));
                        report.failed(test, target.name, format!("{problem:#}"));
                    }
                }
            }
        }
    }
    print(&report.markdown());
    if let Some(out) = &options.out {
        fs::create_dir_all(out).with_context(|| format!("cannot create {}", out.display()))?;
        let json = serde_json::to_string_pretty(&report.json())?;
        for (name, text) in [("report.md", report.markdown()), ("report.json", json)] {
            let path = out.join(name);
            fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    Ok(())
}

fn addresses(count: usize) -> Result<Vec<SocketAddr>> {
    // Held together, so that no two are the same.
    let held: Result<Vec<_>> = (0..count).map(|_| process::hold_address()).collect();
    held?
        .iter()
        .map(|socket| Ok(socket.local_addr()?))
        .collect()
}

fn wanted(names: &[String]) -> Result<Vec<&'static Balancer>> {
    let known: BTreeMap<&str, &Balancer> = balancer::ALL
        .iter()
        .map(|balancer| (balancer.name, balancer))
        .collect();
    if names.is_empty() {
        return Ok(balancer::ALL.iter().collect());
    }
    let find = |name: &String| {
        let all = || known.keys().copied().collect::<Vec<_>>().join(", ");
        known
            .get(name.as_str())
            .copied()
            .with_context(|| format!("--balancers: no balancer {name:?}; there are {}", all()))
    };
    names.iter().map(find).collect()
}

fn start(
    balancer: &Balancer,
    options: &Options,
    folder: &Path,
    engines: &[SocketAddr],
) -> Result<Target> {
    let program = balancer.program.find(&options.path);
    let program = program.map_err(|how| anyhow::anyhow!(how))?;
    let own = folder.join(balancer.name.replace(' ', "-"));
    fs::create_dir_all(&own)?;
    let free = addresses(2)?;
    let place = Place {
        program: &program,
        folder: &own,
        listen: free[0],
        admin: free[1],
        engines,
    };
    let command = (balancer.command)(&place)?;
    let mut process = process::start(&command, options.balancer_core, &own.join("log"))?;
    until_ready(place.listen, &mut process)?;
    Ok(Target {
        name: balancer.name,
        address: place.listen,
        process: Some(process),
    })
}

/// Waits for the first right answer.
fn until_ready(address: SocketAddr, process: &mut Process) -> Result<()> {
    let shape = Shape {
        body: 1 << 10,
        stream: None,
        pause_ms: 0,
    };
    let mut prompts = prompt::Prompts::new(shape, 0);
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

fn tests(options: &Options) -> Vec<Test> {
    let mut tests = Vec::new();
    for &measure in &options.measure {
        if measure == Measure::Relay {
            tests.push(Test {
                measure,
                shape: Shape {
                    body: 1 << 10,
                    stream: Some(RELAY_EVENTS),
                    pause_ms: RELAY_PAUSE_MS,
                },
                connections: RELAY_STREAMS,
                rate: None,
            });
            continue;
        }
        for &kibibytes in &options.bodies {
            for stream in [None, Some(EVENTS)] {
                let shape = Shape {
                    body: kibibytes << 10,
                    stream,
                    pause_ms: 0,
                };
                tests.push(Test {
                    measure,
                    shape,
                    connections: options.connections,
                    rate: (measure == Measure::Latency).then(|| moderate_rate(shape)),
                });
            }
        }
    }
    tests
}

/// Requests a second that every balancer can serve with time to spare.
fn moderate_rate(shape: Shape) -> f64 {
    let rate = match shape.body >> 10 {
        0..=4 => 3000.0,
        5..=64 => 2000.0,
        65..=1024 => 300.0,
        _ => 20.0,
    };
    match shape.stream {
        None => rate,
        Some(_) => f64::min(rate, 300.0),
    }
}

fn measure(test: &Test, target: &Target, options: &Options) -> Result<Figures> {
    let load = Load {
        connections: test.connections,
        shape: test.shape,
        rate: test.rate,
        warm_up: WARM_UP,
        measured: Duration::from_secs_f64(options.seconds),
    };
    let mut used = Vec::with_capacity(2);
    let seen = load::run(target.address, &load, || {
        used.push(target.process.as_ref().map(Process::cpu).transpose());
    })?;
    let mut used = used.into_iter();
    let (Some(before), Some(after)) = (used.next(), used.next()) else {
        bail!("the load did not run to its end");
    };
    let cpu = match (before?, after?) {
        (Some(before), Some(after)) => Some(after.saturating_sub(before)),
        _ => None,
    };
    let memory = target.process.as_ref().map(Process::memory).transpose()?;
    Ok(Figures::new(&seen, cpu, memory))
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
