//! `warmgate check`: what it says, and by which status it ends.

use std::process::Command;

/// The status and what was printed.
fn check(config: &str, options: &[&str]) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("warmgate.yaml");
    std::fs::write(&file, config).expect("the configuration");
    let output = Command::new(env!("CARGO_BIN_EXE_warmgate"))
        .arg("check")
        .arg("-c")
        .arg(&file)
        .args(options)
        .output()
        .expect("the check runs");
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8(text).expect("text");
    (output.status.code(), text)
}

#[test]
fn warnings_are_errors_only_when_that_is_asked_for() {
    let doubtful = "pods: [http://127.0.0.1:1]\nhealth: {interval: 1s}\n";
    let (status, text) = check(doubtful, &[]);
    assert_eq!(status, Some(0), "{text}");
    assert!(text.contains("warning: health.timeout: 3s"), "{text}");
    let (status, text) = check(doubtful, &["--strict"]);
    assert_eq!(status, Some(64), "{text}");
    assert!(text.contains("--strict"), "{text}");
}

#[test]
fn a_good_file_passes_and_a_wrong_one_does_not_strict_or_not() {
    for options in [&[][..], &["--strict"]] {
        let (status, text) = check("pods: [http://127.0.0.1:1]\n", options);
        assert_eq!(status, Some(0), "{text}");
        assert!(!text.contains("warning"), "{text}");
        let (status, text) = check("pods: [nowhere]\n", options);
        assert_eq!(status, Some(64), "{text}");
    }
}
