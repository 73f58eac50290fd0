//! Where the program of a balancer is, and which one it is.

use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Clone, Copy)]
pub(in super::super) enum Program {
    /// On the search path, `--path` first.
    External {
        file: &'static str,
        /// What makes it tell its version; empty where nothing does.
        version: &'static str,
        /// What its version begins with, where another program has the same name.
        says: &'static str,
        get: &'static str,
    },
    /// Beside this program.
    Beside { file: &'static str },
}

#[derive(Debug)]
pub(in super::super) struct Found {
    pub(in super::super) path: PathBuf,
    pub(in super::super) version: String,
}

impl Program {
    /// The program, or how to get it.
    pub(in super::super) fn find(self, folders: &[PathBuf]) -> Result<Found, String> {
        match self {
            Self::External {
                file,
                version,
                says,
                get,
            } => {
                let mut others = Vec::new();
                for path in places(file, folders) {
                    let version = ask(&path, version);
                    if version.starts_with(says) {
                        return Ok(Found { path, version });
                    }
                    others.push(format!("; {} is {version:?}", path.display()));
                }
                Err(format!("{file} is not installed: {get}{}", others.concat()))
            }
            Self::Beside { file } => {
                let own = std::env::current_exe().map_err(|error| error.to_string())?;
                let path = own.with_file_name(file);
                if !path.is_file() {
                    return Err(format!(
                        "{} is not there: build it in the same profile, as ./x loadtest does",
                        path.display()
                    ));
                }
                let version = ask(&path, "--version");
                Ok(Found { path, version })
            }
        }
    }
}

fn places(file: &str, folders: &[PathBuf]) -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Not on every user's path, but where Debian has servers.
    let usual = [PathBuf::from("/usr/sbin"), PathBuf::from("/usr/local/sbin")];
    folders
        .iter()
        .cloned()
        .chain(std::env::split_paths(&path))
        .chain(usual)
        .map(|folder| folder.join(file))
        .filter(|path| path.is_file())
        .collect()
}

/// The first line of what it says of its version, or nothing.
fn ask(program: &Path, argument: &str) -> String {
    if argument.is_empty() {
        return String::new();
    }
    let Ok(output) = Command::new(program).arg(argument).output() else {
        return String::new();
    };
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let line = said.lines().map(str::trim).find(|line| !line.is_empty());
    let line = line.unwrap_or_default();
    let (_, version) = line.split_once("version: ").unwrap_or(("", line));
    version.to_owned()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const ROUTER: Program = Program::External {
        file: "a-router-of-this-test",
        version: "--version",
        says: "router ",
        get: "pip install a-router, and --path to its bin folder",
    };

    fn write(folder: &Path, version: &str) {
        let path = folder.join("a-router-of-this-test");
        fs::write(&path, format!("#!/bin/sh\necho\necho '{version}' >&2\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn what_is_missing_is_told_with_the_way_to_get_it() {
        assert_eq!(
            ROUTER.find(&[]).unwrap_err(),
            "a-router-of-this-test is not installed: pip install a-router, and --path to its bin folder"
        );
        let beside = Program::Beside { file: "no-such" };
        let problem = beside.find(&[]).unwrap_err();
        assert!(
            problem.ends_with(
                "no-such is not there: build it in the same profile, as ./x loadtest does"
            ),
            "{problem}"
        );
    }

    #[test]
    fn another_program_of_the_same_name_is_passed_over() {
        let (other, right) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        write(other.path(), "gateway 0.3");
        write(right.path(), "router 1.2");
        let folders = [other.path().to_owned(), right.path().to_owned()];
        let found = ROUTER.find(&folders).unwrap();
        assert_eq!(found.version, "router 1.2");
        assert!(found.path.starts_with(right.path()));

        let problem = ROUTER.find(&folders[..1]).unwrap_err();
        assert!(problem.contains("is not installed"), "{problem}");
        assert!(
            problem.ends_with("a-router-of-this-test is \"gateway 0.3\""),
            "{problem}"
        );
    }

    #[test]
    fn versions_come_without_the_words_before_them() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "/bin/router  version: router 3/Clean");
        let found = ROUTER.find(&[folder.path().to_owned()]).unwrap();
        assert_eq!(found.version, "router 3/Clean");
    }

    #[test]
    fn the_first_folder_counts() {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        write(first.path(), "router 2");
        write(second.path(), "router 1");
        let folders = [first.path().to_owned(), second.path().to_owned()];
        assert_eq!(ROUTER.find(&folders).unwrap().version, "router 2");
    }
}
