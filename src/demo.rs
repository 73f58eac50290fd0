//! Shows what prefix-cache routing does, on this machine, in half a minute: the real gateway in front of simulated
//! engines, the same kind of traffic under `random` and under the strategy to show, and a table of both.

mod report;
mod traffic;

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::signal::unix::{SignalKind, signal};

use crate::sim::{self, EngineModel, SimEngine};
use report::Report;
use traffic::Traffic;

#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// How many simulated engines.
    #[arg(long, default_value_t = 4)]
    engines: usize,
    /// Seconds of traffic under each strategy.
    #[arg(long, default_value_t = 8)]
    seconds: u64,
    /// The strategy to show beside `random`.
    #[arg(long, default_value = "prefix-cache")]
    strategy: String,
    /// End after the table, instead of staying up.
    #[arg(long)]
    once: bool,
}

const MODEL: &str = "sim-model";
/// Simulated engines run four times faster than the ones they stand for.
const TIME_SCALE: f64 = 0.25;
/// Small enough that one engine cannot hold all prompts, as in real life.
const KV_BLOCKS: usize = 2_000;

/// Runs the demo.
pub fn run(options: &Options) -> Result<()> {
    if options.engines == 0 || options.seconds == 0 {
        bail!("--engines and --seconds must be at least 1");
    }
    let strategy = crate::routing::check_strategy(&options.strategy);
    strategy.map_err(|error| anyhow::anyhow!("--strategy: {error}"))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(show(options))
}

async fn show(options: &Options) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    // Signals are never left to the default, which would leave the gateway running.
    let shown = tokio::select! {
        shown = table(options) => shown?,
        _ = tokio::signal::ctrl_c() => bail!("interrupted"),
        _ = terminate.recv() => bail!("terminated"),
    };
    if options.once {
        return Ok(());
    }
    say(&shown.gateway.hints());
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted?,
        _ = terminate.recv() => {}
    }
    Ok(())
}

/// What has to stay while one looks at it.
struct Shown {
    gateway: Gateway,
    #[expect(dead_code, reason = "held for its drop, which ends them")]
    engines: Vec<SimEngine>,
}

async fn table(options: &Options) -> Result<Shown> {
    say(&format!(
        "Starting {} SIMULATED engines (no model, no GPU: prefill, batching and KV cache by arithmetic) and the real gateway.",
        options.engines
    ));
    let engines = start_engines(options.engines).await?;
    let gateway = Gateway::start(&engines)?;
    gateway.until_ready().await?;
    let mut report = Report::default();
    for (salt, strategy) in ["random", options.strategy.as_str()]
        .into_iter()
        .enumerate()
    {
        say(&format!(
            "{} s of chat traffic with shared system prompts under `{strategy}` ...",
            options.seconds
        ));
        let before = totals(&engines);
        let traffic = Traffic {
            gateway: gateway.address,
            strategy: strategy.to_owned(),
            salt,
            duration: Duration::from_secs(options.seconds),
        };
        let seen = traffic.run().await?;
        let after = totals(&engines);
        report.add(strategy, &seen, after.0 - before.0, after.1 - before.1);
    }
    say(&report.table(options.engines));
    Ok(Shown { gateway, engines })
}

async fn start_engines(count: usize) -> Result<Vec<SimEngine>> {
    let mut engines = Vec::with_capacity(count);
    for _ in 0..count {
        let options = sim::Options {
            models: vec![MODEL.to_owned()],
            engine: EngineModel {
                kv_blocks: KV_BLOCKS,
                ..EngineModel::default()
            },
            time_scale: TIME_SCALE,
            observe: false,
            ..sim::Options::default()
        };
        engines.push(
            sim::start(options)
                .await
                .context("cannot start a simulated engine")?,
        );
    }
    Ok(engines)
}

/// Prompt tokens, and those of them that came out of a cache.
fn totals(engines: &[SimEngine]) -> (u64, u64) {
    engines
        .iter()
        .map(SimEngine::totals)
        .fold((0, 0), |sum, totals| {
            (sum.0 + totals.prompt_tokens, sum.1 + totals.cached_tokens)
        })
}

/// The gateway as a process of its own, as an operator runs it.
struct Gateway {
    process: Child,
    address: SocketAddr,
    admin: SocketAddr,
    config: PathBuf,
}

impl Gateway {
    fn start(engines: &[SimEngine]) -> Result<Self> {
        let (address, admin) = (free_address(8080)?, free_address(9090)?);
        let pods: String = engines
            .iter()
            .map(|engine| format!("  - {}\n", engine.url()))
            .collect();
        let config =
            std::env::temp_dir().join(format!("warmgate-demo-{}.yaml", std::process::id()));
        let text = format!(
            "server: {{listen: [\"{address}\"]}}\nadmin: {{listen: \"{admin}\"}}\nlog: {{level: warn, access: false}}\npods:\n{pods}"
        );
        std::fs::write(&config, text)
            .with_context(|| format!("cannot write {}", config.display()))?;
        let process = Command::new(std::env::current_exe()?)
            .arg("serve")
            .arg("-c")
            .arg(&config)
            .stdin(Stdio::null())
            .spawn()
            .context("cannot start the gateway")?;
        Ok(Self {
            process,
            address,
            admin,
            config,
        })
    }

    async fn until_ready(&self) -> Result<()> {
        let patience = Duration::from_secs(20);
        let ready = async {
            while traffic::status(self.admin, "/readyz").await.ok() != Some(200) {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(patience, ready)
            .await
            .with_context(|| format!("the gateway is not ready after {patience:?}"))
    }

    fn hints(&self) -> String {
        let (gateway, admin) = (self.address, self.admin);
        let body = format!(
            r#"{{"model":"{MODEL}","messages":[{{"role":"user","content":"Hello"}}],"stream":true}}"#
        );
        format!(
            "It stays up until Ctrl-C. Try:\n\
             \x20 curl -N http://{gateway}/v1/chat/completions -H 'content-type: application/json' -d '{body}'\n\
             \x20 curl -i http://{gateway}/v1/models          # the models; -i shows the gateway's headers\n\
             \x20 curl http://{admin}/pods                    # health and load of each pod\n\
             \x20 curl http://{admin}/metrics                 # for Prometheus\n"
        )
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // It may have ended with the terminal's Ctrl-C already.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_file(&self.config);
    }
}

/// The usual port if nobody has it, else any.
fn free_address(usual: u16) -> Result<SocketAddr> {
    let probe =
        TcpListener::bind(("127.0.0.1", usual)).or_else(|_| TcpListener::bind("127.0.0.1:0"))?;
    Ok(probe.local_addr()?)
}

fn say(text: &str) {
    // A reader that has gone misses the rest; the demo itself has nothing else to lose.
    let _ = writeln!(std::io::stdout(), "{text}");
}
