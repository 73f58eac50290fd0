//! The gateway under test: the real binary with a configuration file of its own.

use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::client::{self, Answer};
use super::{eventually, free_address};

pub(crate) struct Gateway {
    process: Child,
    pub(crate) address: SocketAddr,
    pub(crate) admin: SocketAddr,
    folder: tempfile::TempDir,
}

impl Gateway {
    /// Starts on free ports with `config`, which names everything but the addresses; returns when a pod is ready.
    pub(crate) async fn start(config: &str) -> Self {
        let gateway = Self::start_unready(config).await;
        gateway.until_ready().await;
        gateway
    }

    /// Returns as soon as the process lives and listens.
    pub(crate) async fn start_unready(config: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (address, admin) = (free_address(), free_address());
        let upgrade = folder.path().join("upgrade");
        let file = folder.path().join("warmgate.yaml");
        std::fs::write(&file, complete(config, address, admin, &upgrade))
            .expect("the configuration");
        let log = |name: &str| File::create(folder.path().join(name)).expect("a log file");
        let process = Command::new(env!("CARGO_BIN_EXE_warmgate"))
            .arg("serve")
            .arg("-c")
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(log("access.log"))
            .stderr(log("error.log"))
            .spawn()
            .expect("the gateway starts");
        let gateway = Self {
            process,
            address,
            admin,
            folder,
        };
        eventually("the gateway listens", async || {
            let live = client::get(gateway.admin, "/livez").await.ok()?;
            let open = tokio::net::TcpStream::connect(gateway.address)
                .await
                .is_ok();
            (live.status == 200 && open).then_some(())
        })
        .await;
        gateway
    }

    pub(crate) async fn until_ready(&self) {
        eventually("a pod is ready", async || {
            (client::get(self.admin, "/readyz").await.ok()?.status == 200).then_some(())
        })
        .await;
    }

    /// Until each of these is served by a pod that is ready.
    pub(crate) async fn until_models(&self, names: &[&str]) {
        eventually("the models are served", async || {
            let page = client::get(self.admin, "/models").await.ok()?.json();
            let ready = |name: &&str| {
                let mut models = page.as_array()?.iter();
                let model = models.find(|model| model["name"] == **name)?;
                (model["ready"].as_u64()? > 0).then_some(())
            };
            names.iter().all(|name| ready(name).is_some()).then_some(())
        })
        .await;
    }

    /// Replaces the configuration and has it read; the answer of `/reload`.
    pub(crate) async fn reload(&self, config: &str) -> Answer {
        self.write(config);
        client::post(self.admin, "/reload", "text/plain", "")
            .await
            .expect("an answer")
    }

    /// Replaces the configuration file.
    pub(crate) fn write(&self, config: &str) {
        let upgrade = self.folder.path().join("upgrade");
        let text = complete(config, self.address, self.admin, &upgrade);
        std::fs::write(self.folder.path().join("warmgate.yaml"), text).expect("the configuration");
    }

    pub(crate) async fn pods(&self) -> Vec<Value> {
        let page = client::get(self.admin, "/pods")
            .await
            .expect("the pods page");
        page.json().as_array().expect("a list").clone()
    }

    /// Open requests by pod, in the order of the configuration.
    pub(crate) async fn in_flight(&self) -> Vec<u64> {
        let pods = self.pods().await;
        pods.iter()
            .map(|pod| pod["in_flight"].as_u64().expect("a count"))
            .collect()
    }

    pub(crate) async fn until_idle(&self) {
        eventually("no request is in flight", async || {
            self.in_flight()
                .await
                .iter()
                .all(|&count| count == 0)
                .then_some(())
        })
        .await;
    }

    pub(crate) async fn metrics(&self) -> String {
        client::get(self.admin, "/metrics")
            .await
            .expect("the metrics page")
            .text()
    }

    /// The sum of all series of a family whose labels contain each of `labels`.
    pub(crate) async fn metric(&self, family: &str, labels: &[&str]) -> f64 {
        sum(&self.metrics().await, family, labels)
    }

    pub(crate) fn access_log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("access.log")).expect("the access log")
    }

    pub(crate) fn error_log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("error.log")).expect("the log")
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.process.id().to_string();
        let sent = Command::new("kill")
            .args(["-s", name, &pid])
            .status()
            .expect("kill");
        assert!(sent.success(), "signal {name}");
    }

    /// The exit status, once the process has ended.
    pub(crate) async fn ended(&mut self) -> Option<i32> {
        let process = &mut self.process;
        let ended = eventually("the gateway ends", async || {
            process.try_wait().expect("its status")
        });
        ended.await.code()
    }

    /// Resident memory in KiB.
    pub(crate) fn memory_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id()))
            .expect("its status");
        let line = status
            .lines()
            .find(|line| line.starts_with("VmRSS:"))
            .expect("VmRSS");
        line.split_whitespace()
            .nth(1)
            .and_then(|kib| kib.parse().ok())
            .expect("a number")
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // Already ended is as good.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub(crate) fn sum(page: &str, family: &str, labels: &[&str]) -> f64 {
    page.lines()
        .filter(|line| {
            let rest = line.strip_prefix(family);
            rest.is_some_and(|rest| rest.starts_with(['{', ' ']))
                && labels.iter().all(|label| line.contains(label))
        })
        .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
        .sum()
}

fn complete(config: &str, address: SocketAddr, admin: SocketAddr, upgrade: &Path) -> String {
    let server = if config.contains("server:") {
        String::new()
    } else {
        format!(
            "server: {{listen: [\"{address}\"], threads: 2, shutdown_grace: 30s, upgrade_socket: {}}}\n",
            upgrade.display()
        )
    };
    let text = format!("{server}admin: {{listen: \"{admin}\"}}\n{config}");
    text.replace("$ADDRESS", &address.to_string())
        .replace("$UPGRADE", &upgrade.display().to_string())
}
