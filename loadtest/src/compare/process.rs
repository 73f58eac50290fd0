//! Processes on a core of their own, and what they use.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::cores;

/// A process and those it started; ended when dropped.
pub(super) struct Process {
    child: Child,
    log: PathBuf,
}

/// Starts a command on one core, its output in a file.
pub(super) fn start(command: &Command, core: usize, log: &Path) -> Result<Process> {
    let output = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    let mut pinned = Command::new("taskset");
    pinned.arg("-c").arg(core.to_string());
    pinned.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            pinned.env(name, value);
        }
    }
    let child = pinned
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .spawn()
        .with_context(|| format!("cannot start {}", command.get_program().display()))?;
    Ok(Process {
        child,
        log: log.to_owned(),
    })
}

/// Puts this process, with all its threads, on one core.
pub(super) fn pin_self(core: usize) -> Result<()> {
    let own = std::process::id().to_string();
    let done = Command::new("taskset")
        .args(["-a", "-p", "-c", &core.to_string(), &own])
        .stdout(Stdio::null())
        .status()
        .context("cannot run taskset; it is in util-linux")?;
    if !done.success() {
        bail!("taskset cannot put this process on core {core}: {done}");
    }
    Ok(())
}

/// Holds an address that is free; it is free again when the socket is dropped.
pub(super) fn hold_address() -> Result<TcpListener> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?)
}

impl Process {
    /// CPU time of all its threads and children so far.
    pub(super) fn cpu(&self) -> Result<Duration> {
        let mut nanoseconds = 0;
        for id in self.tree() {
            for task in fs::read_dir(format!("/proc/{id}/task"))?.flatten() {
                // A thread that has ended meanwhile used its time before; it is of no matter here.
                let Ok(text) = fs::read_to_string(task.path().join("schedstat")) else {
                    continue;
                };
                let spent = text.split_whitespace().next().unwrap_or_default();
                nanoseconds += spent.parse::<u64>().context("/proc schedstat")?;
            }
        }
        Ok(Duration::from_nanos(nanoseconds))
    }

    /// Memory of it and its children in bytes, what they share counted once.
    pub(super) fn memory(&self) -> Result<u64> {
        let mut kilobytes = 0;
        for id in self.tree() {
            let text = fs::read_to_string(format!("/proc/{id}/smaps_rollup"))?;
            let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
            let value = line.and_then(|line| line.split_whitespace().next());
            kilobytes += value
                .context("/proc smaps_rollup has no Pss")?
                .parse::<u64>()?;
        }
        Ok(kilobytes << 10)
    }

    /// A program may choose cores for its threads itself; then it is not what is to be measured.
    pub(super) fn check_pinned(&self, core: usize) -> Result<()> {
        for id in self.tree() {
            for task in fs::read_dir(format!("/proc/{id}/task"))?.flatten() {
                let allowed = cores::allowed(&task.path().join("status"))?;
                if allowed != [core] {
                    let name = fs::read_to_string(task.path().join("comm")).unwrap_or_default();
                    bail!(
                        "its thread {} may use the cores {allowed:?}, not only {core}",
                        name.trim()
                    );
                }
            }
        }
        Ok(())
    }

    fn tree(&self) -> Vec<u32> {
        let mut all = vec![self.child.id()];
        let mut next = 0;
        while let Some(&id) = all.get(next) {
            next += 1;
            let Ok(tasks) = fs::read_dir(format!("/proc/{id}/task")) else {
                continue;
            };
            for task in tasks.flatten() {
                let children = fs::read_to_string(task.path().join("children"));
                let children = children.unwrap_or_default();
                all.extend(
                    children
                        .split_whitespace()
                        .filter_map(|id| id.parse::<u32>().ok()),
                );
            }
        }
        all
    }

    /// Whether it still runs; else the end of what it wrote.
    pub(super) fn check(&mut self) -> Result<()> {
        let Some(status) = self.child.try_wait()? else {
            return Ok(());
        };
        bail!("ended with {status}:\n{}", self.last_output())
    }

    pub(super) fn last_output(&self) -> String {
        const LINES: usize = 8;
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LINES)..].join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Children first told by their parent would need a handshake of each kind of balancer; all are ours to end.
        let ids: Vec<String> = self.tree().iter().map(u32::to_string).collect();
        let _ = Command::new("kill").arg("-KILL").args(&ids).status();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests;
