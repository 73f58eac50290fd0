//! The balancers that are compared: where each is found, and how it is set up to do the same work.

mod envoy;
mod haproxy;
mod nginx;
mod program;
mod routers;
mod warmgate;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use program::Program;

/// The two of ours, without which nothing is compared.
pub(super) const WARMGATE: &str = "warmgate";
pub(super) const BARE: &str = "bare";

pub(super) const ALL: &[Balancer] = &[
    warmgate::WARMGATE,
    warmgate::BARE,
    nginx::NGINX,
    haproxy::HAPROXY,
    envoy::ENVOY,
    routers::SGLANG_ROUTER,
    routers::SMG,
    routers::VLLM_ROUTER,
];

pub(super) struct Balancer {
    pub(super) name: &'static str,
    /// How it is set up, for the report.
    pub(super) about: &'static str,
    pub(super) program: Program,
    /// Writes what it needs into the folder and gives the command.
    pub(super) command: fn(&Place<'_>) -> Result<Command>,
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_is_told_of_every_engine_and_where_to_listen() {
        let engines: Vec<SocketAddr> = (1..=4)
            .map(|port| SocketAddr::from(([127, 0, 0, 1], 20_000 + port)))
            .collect();
        for balancer in ALL {
            let folder = tempfile::tempdir().unwrap();
            let place = Place {
                program: Path::new("program"),
                folder: folder.path(),
                listen: ([127, 0, 0, 1], 20_010).into(),
                admin: ([127, 0, 0, 1], 20_011).into(),
                engines: &engines,
            };
            let command = (balancer.command)(&place).unwrap();
            let mut told = format!("{command:?}");
            for file in std::fs::read_dir(folder.path()).unwrap() {
                told += &std::fs::read_to_string(file.unwrap().path()).unwrap();
            }
            for port in (20_001..=20_004).chain([20_010]) {
                let name = balancer.name;
                assert!(told.contains(&port.to_string()), "{name}, {port}: {told}");
            }
        }
    }

    #[test]
    fn names_are_of_one_word_and_differ() {
        let names: BTreeSet<&str> = ALL.iter().map(|balancer| balancer.name).collect();
        assert_eq!(names.len(), ALL.len());
        assert!(names.iter().all(|name| !name.contains([' ', ','])));
    }
}
