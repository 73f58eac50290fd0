//! `loadtest run`: the traffic of a scenario against a gateway, and what the clients saw of it.
//!
//! Nothing that goes wrong is passed over: a request either has the right answer or is counted under its kind of failure.

mod client;
mod drive;
mod expect;
mod files;
mod record;
mod report;
mod scenario;
mod target;
mod traffic;
mod watch;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use tokio::signal::unix::{SignalKind, signal};

use client::Client;
use drive::Drive;
use report::Summary;
use scenario::Scenario;
use target::Running;
use watch::Sample;

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// The scenario, a YAML file.
    scenario: PathBuf,
    /// Folder for the reports [default: loadtest-out/NAME OF THE SCENARIO].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Gateway to start, instead of the one beside this binary.
    #[arg(long, value_name = "PATH")]
    warmgate: Option<PathBuf>,
    /// Another value for a key of the scenario, as in duration=5s; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// Threads of the clients and the simulated engines together.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: u16,
}

/// Exit status for a scenario that does not hold.
const BAD_SCENARIO: u8 = 64;
/// How long a gateway may take to count the last requests as ended.
const SETTLING: Duration = Duration::from_secs(5);

pub(crate) fn run(options: &Options) -> ExitCode {
    let scenario = match Scenario::load(&options.scenario, &options.settings) {
        Ok(scenario) => scenario,
        Err(error) => {
            complain(&error);
            return ExitCode::from(BAD_SCENARIO);
        }
    };
    match measure(options, &scenario) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            complain(&error);
            ExitCode::FAILURE
        }
    }
}

/// Whether all went well and all limits were kept.
fn measure(options: &Options, scenario: &Scenario) -> Result<bool> {
    files::make_room(scenario)?;
    let name = options.scenario.file_stem().unwrap_or_default();
    let out = match &options.out {
        Some(out) => out.clone(),
        None => Path::new("loadtest-out").join(name),
    };
    std::fs::create_dir_all(&out).with_context(|| format!("cannot make {}", out.display()))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(options.threads.into())
        .enable_all()
        .build()?;
    let name = name.to_string_lossy();
    let summary = runtime.block_on(traffic(options, scenario, &name, &out))?;
    report::write(&summary, &out)?;
    // A reader that has gone misses the summary; the reports are there.
    let _ = writeln!(
        std::io::stdout(),
        "{}\nreports: {}",
        report::text(&summary),
        out.display()
    );
    Ok(summary.passed)
}

async fn traffic(
    options: &Options,
    scenario: &Scenario,
    name: &str,
    out: &Path,
) -> Result<Summary> {
    let mut target = Running::start(scenario, options.warmgate.as_deref(), out).await?;
    let client = Client::new(
        &target.authority,
        scenario.strategy.as_deref(),
        scenario.request_timeout,
        scenario.target.engines(),
    )
    .await?;
    let drive = Drive::new(scenario, Arc::clone(&client))?;
    let mut samples = vec![watch::look(&mut target, &drive).await?];
    let progress = progress(scenario);
    // A task of its own: what is looked at here must not hold up an arrival.
    let mut run = tokio::spawn({
        let drive = Arc::clone(&drive);
        async move { drive.run().await }
    });
    let mut ticks = tokio::time::interval(watch::INTERVAL);
    let mut terminate = signal(SignalKind::terminate())?;
    loop {
        tokio::select! {
            ended = &mut run => {
                ended.context("the traffic failed")??;
                break;
            }
            // Not left to the default, which would leave the gateway running.
            _ = tokio::signal::ctrl_c() => bail!("interrupted"),
            _ = terminate.recv() => bail!("terminated"),
            _ = ticks.tick() => {
                let sample = watch::look(&mut target, &drive).await?;
                show(&progress, &drive, &sample);
                samples.push(sample);
            }
        }
    }
    progress.finish_and_clear();
    settle(&mut target, &drive, &mut samples).await?;
    Ok(report::summarize(
        scenario,
        name,
        &drive,
        &samples,
        client.connections(),
    ))
}

/// Waits until the gateway has counted the last request as ended, for a while.
async fn settle(target: &mut Running, drive: &Drive, samples: &mut Vec<Sample>) -> Result<()> {
    let patience = tokio::time::Instant::now() + SETTLING;
    loop {
        let sample = watch::look(target, drive).await?;
        let settled = sample.in_flight.unwrap_or(0.0) == 0.0;
        samples.push(sample);
        if settled || tokio::time::Instant::now() >= patience {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// On stderr, and only where somebody looks.
fn progress(scenario: &Scenario) -> ProgressBar {
    let bar = ProgressBar::new(scenario.duration.as_secs());
    // The template is right, else the bar is only plainer.
    if let Ok(style) = ProgressStyle::with_template("{elapsed} [{bar:40}] {pos}/{len} s  {msg}") {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}

fn show(progress: &ProgressBar, drive: &Drive, sample: &Sample) {
    progress.set_position(sample.at.as_secs());
    let memory = sample
        .rss_mib
        .map(|mib| format!(", gateway {mib:.0} MiB"))
        .unwrap_or_default();
    progress.set_message(format!(
        "{} sent, {} open, {} failed{memory}",
        drive.sent(),
        drive.open(),
        drive.record().errors()
    ));
}

#[expect(
    clippy::print_stderr,
    reason = "a command line tool tells its user why it ends"
)]
fn complain(error: &anyhow::Error) {
    eprintln!("loadtest: {error:#}");
}
