//! The balancers that are compared: where each is found, and how it is set up to do the same work.

mod envoy;
mod haproxy;
mod nginx;
mod routers;
mod warmgate;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

pub(super) const ALL: &[Balancer] = &[
    warmgate::WARMGATE,
    warmgate::BARE_PINGORA,
    nginx::NGINX,
    haproxy::HAPROXY,
    envoy::ENVOY,
    routers::SGLANG_ROUTER,
    routers::SMG,
    routers::VLLM_ROUTER,
];

pub(super) struct Balancer {
    pub(super) name: &'static str,
    pub(super) program: Program,
    /// Writes what it needs into the folder and gives the command.
    pub(super) command: fn(&Place<'_>) -> Result<Command>,
}

#[derive(Clone, Copy)]
pub(super) enum Program {
    /// On the search path, `--path` first; with the way to get it.
    External {
        file: &'static str,
        get: &'static str,
    },
    /// Beside this program.
    Beside { file: &'static str },
}

/// What a balancer is given to start with.
pub(super) struct Place<'a> {
    pub(super) program: &'a Path,
    pub(super) folder: &'a Path,
    pub(super) listen: SocketAddr,
    /// For its operator's pages.
    pub(super) admin: SocketAddr,
    pub(super) engines: &'a [SocketAddr],
}

impl Program {
    /// The path, or how to get the program.
    pub(super) fn find(self, folders: &[PathBuf]) -> Result<PathBuf, String> {
        match self {
            Self::External { file, get } => {
                let path = std::env::var_os("PATH").unwrap_or_default();
                let usual = [PathBuf::from("/usr/sbin"), PathBuf::from("/usr/local/sbin")];
                let found = folders
                    .iter()
                    .cloned()
                    .chain(std::env::split_paths(&path))
                    .chain(usual)
                    .map(|folder| folder.join(file))
                    .find(|path| path.is_file());
                found.ok_or_else(|| format!("{file} is not installed: {get}"))
            }
            Self::Beside { file } => {
                let own = std::env::current_exe().map_err(|error| error.to_string())?;
                let path = own.with_file_name(file);
                if path.is_file() {
                    Ok(path)
                } else {
                    Err(format!(
                        "{} is not there: build it in the same profile, as ./x compare does",
                        path.display()
                    ))
                }
            }
        }
    }
}

impl Place<'_> {
    /// Writes a configuration and gives its path.
    fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.folder.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }

    fn each_engine(&self, line: impl Fn(&SocketAddr) -> String) -> String {
        self.engines.iter().map(line).collect()
    }
}
