//! Who may use whom: the border around the parts that think, read off their source.

use std::fs;
use std::path::{Path, PathBuf};

/// A module and what none of its lines may name, with the reason.
const RULES: &[(&str, &[&str])] = &[
    ("routing", PURE),
    ("request", PURE),
    ("usage", PURE),
    ("answer", PURE),
    ("sim/engine.rs", PURE),
    ("config", &["pingora", "tokio::"]),
    ("metrics", &["pingora", "tokio::"]),
    ("telemetry", &["pingora", "tokio::"]),
    ("fleet", &["crate::proxy", "crate::admin", "crate::app"]),
    ("proxy", &["crate::admin", "crate::app"]),
];

/// Values in, values out: no I/O, no clock, no tasks, no randomness of its own, no logging.
const PURE: &[&str] = &[
    "pingora",
    "tokio",
    "std::net",
    "std::fs",
    "std::env",
    "async fn",
    "Instant::now",
    "SystemTime::now",
    "rand::",
    "log::",
    "crate::fleet",
    "crate::proxy",
    "crate::config",
];

#[test]
fn modules_keep_within_their_borders() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut broken = Vec::new();
    for (module, forbidden) in RULES {
        let files = files_of(&source, module);
        assert!(!files.is_empty(), "no such module: {module}");
        for file in files {
            let text = fs::read_to_string(&file).expect("a source file");
            for (number, line) in (1..)
                .zip(text.lines())
                .take_while(|(_, line)| !line.contains("#[cfg(test)]"))
            {
                let code = line.split("//").next().unwrap_or_default();
                if let Some(word) = forbidden.iter().find(|word| code.contains(**word)) {
                    broken.push(format!("{}:{number} names {word}", file.display()));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// `routing` is `routing.rs` and all under `routing/`, but for tests.
fn files_of(source: &Path, module: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut open = vec![source.join(module), source.join(format!("{module}.rs"))];
    while let Some(path) = open.pop() {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if path.is_dir() && name != "tests" {
            open.extend(
                fs::read_dir(&path)
                    .expect("a folder")
                    .map(|entry| entry.expect("an entry").path()),
            );
        } else if path.is_file() && name != "tests.rs" {
            files.push(path);
        }
    }
    files
}
