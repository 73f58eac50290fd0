//! Starts what is to be measured: simulated engines in this process, the gateway as a process of its own.

use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_yaml_ng::{Mapping, Value};
use warmgate::sim::{self, EngineModel, SimEngine};

use super::client::page;
use super::scenario::Scenario;
use super::scenario::target::{EnginesSpec, Started, Target};

/// Whom the traffic goes to, for as long as this lives.
pub(crate) struct Running {
    pub(crate) authority: String,
    pub(crate) admin: Option<String>,
    pub(crate) gateway: Option<Gateway>,
    /// They end with it.
    _engines: Vec<SimEngine>,
}

/// A gateway that was started here and ends with this.
pub(crate) struct Gateway {
    process: Child,
    log: PathBuf,
}

const PATIENCE: Duration = Duration::from_secs(20);

impl Running {
    pub(crate) async fn start(
        scenario: &Scenario,
        binary: Option<&Path>,
        out: &Path,
    ) -> Result<Self> {
        match &scenario.target {
            Target::Running(running) => Ok(Self {
                authority: running.authority.clone(),
                admin: running.admin.clone(),
                gateway: None,
                _engines: Vec::new(),
            }),
            Target::Started(started) => start(started, &scenario.models, binary, out).await,
        }
    }
}

async fn start(
    started: &Started,
    models: &[String],
    binary: Option<&Path>,
    out: &Path,
) -> Result<Running> {
    let mut engines = Vec::with_capacity(started.engines.count);
    for _ in 0..started.engines.count {
        engines.push(engine(&started.engines, models).await?);
    }
    let (address, admin) = free_addresses()?;
    let config = configuration(started, &engines, address, admin)?;
    let file = out.join("gateway.yaml");
    std::fs::write(&file, config).with_context(|| format!("cannot write {}", file.display()))?;
    let binary = match binary {
        Some(binary) => binary.to_owned(),
        None => beside()?,
    };
    let mut gateway = Gateway::spawn(&binary, &file, out.join("gateway.log"))?;
    let admin = admin.to_string();
    gateway.until_ready(&admin).await?;
    Ok(Running {
        authority: address.to_string(),
        admin: Some(admin),
        gateway: Some(gateway),
        _engines: engines,
    })
}

async fn engine(spec: &EnginesSpec, models: &[String]) -> Result<SimEngine> {
    let options = sim::Options {
        models: models.to_vec(),
        engine: EngineModel {
            kv_blocks: spec.kv_blocks,
            max_sequences: spec.max_sequences,
            ..EngineModel::default()
        },
        time_scale: spec.time_scale,
        observe: false,
        ..sim::Options::default()
    };
    let engine = sim::start(options)
        .await
        .context("cannot start a simulated engine")?;
    engine.set_faults(spec.faults.clone());
    Ok(engine)
}

/// The scenario's settings with addresses and pods. Access lines would measure the disk.
fn configuration(
    started: &Started,
    engines: &[SimEngine],
    address: SocketAddr,
    admin: SocketAddr,
) -> Result<String> {
    let mut config = started.gateway.clone();
    section(&mut config, "server")?.insert("listen".into(), vec![address.to_string()].into());
    section(&mut config, "admin")?.insert("listen".into(), admin.to_string().into());
    let log = section(&mut config, "log")?;
    for (key, value) in [("level", Value::from("warn")), ("access", false.into())] {
        log.entry(key.into()).or_insert(value);
    }
    let pods = engines.iter().enumerate().map(|(number, engine)| {
        let mut pod = Mapping::new();
        pod.insert("url".into(), engine.url().into());
        pod.insert("name".into(), format!("engine-{number}").into());
        pod.insert("http2".into(), started.engines.http2.into());
        Value::Mapping(pod)
    });
    config.insert("pods".into(), Value::Sequence(pods.collect()));
    Ok(serde_yaml_ng::to_string(&config)?)
}

fn section<'a>(config: &'a mut Mapping, name: &str) -> Result<&'a mut Mapping> {
    let section = config
        .entry(name.into())
        .or_insert_with(|| Mapping::new().into());
    section
        .as_mapping_mut()
        .with_context(|| format!("target.gateway.{name}: is no map"))
}

fn free_addresses() -> Result<(SocketAddr, SocketAddr)> {
    // Both are held until both are known, so that they differ.
    let probes = [
        TcpListener::bind("127.0.0.1:0")?,
        TcpListener::bind("127.0.0.1:0")?,
    ];
    Ok((probes[0].local_addr()?, probes[1].local_addr()?))
}

/// The gateway's binary is built into the same folder as this one.
fn beside() -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    let binary = own.with_file_name("warmgate");
    if !binary.is_file() {
        bail!(
            "there is no {}; build it in the same profile (cargo build --bin warmgate) or name one with --warmgate",
            binary.display()
        );
    }
    Ok(binary)
}

impl Gateway {
    fn spawn(binary: &Path, config: &Path, log: PathBuf) -> Result<Self> {
        let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let process = Command::new(binary)
            .arg("serve")
            .arg("-c")
            .arg(config)
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("cannot start {}", binary.display()))?;
        Ok(Self { process, log })
    }

    async fn until_ready(&mut self, admin: &str) -> Result<()> {
        let ready = async {
            loop {
                self.check_alive()?;
                if matches!(page::get(admin, "/readyz").await, Ok((200, _))) {
                    return Ok(());
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, ready)
            .await
            .with_context(|| format!("the gateway is not ready after {PATIENCE:?}"))?
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// An error if the process has ended.
    pub(crate) fn check_alive(&mut self) -> Result<()> {
        match self.process.try_wait()? {
            None => Ok(()),
            Some(status) => {
                let log = std::fs::read_to_string(&self.log).unwrap_or_default();
                let last: Vec<&str> = log.lines().rev().take(5).collect();
                let last: Vec<&str> = last.into_iter().rev().collect();
                bail!(
                    "the gateway ended ({status}); {} ends with:\n{}",
                    self.log.display(),
                    last.join("\n")
                )
            }
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
