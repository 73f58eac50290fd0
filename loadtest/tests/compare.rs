//! `loadtest compare` as a user calls it, with the balancers of this project only. No times are asserted.
#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

const LOADTEST: &str = env!("CARGO_BIN_EXE_loadtest");

/// The core, as options for both sides, where there is but one.
fn cores() -> Vec<String> {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let list = list.unwrap().trim();
    if list.contains([',', '-']) {
        return Vec::new();
    }
    let options = ["--balancer-core", list, "--load-core", list];
    options.map(str::to_owned).to_vec()
}

fn compare(program: &Path, arguments: &[&str]) -> Output {
    Command::new(program)
        .arg("compare")
        .args(cores())
        .args(arguments)
        // Without what a developer has installed; taskset and kill are here.
        .env("PATH", "/usr/bin:/bin")
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn a_small_comparison_reports_every_test_of_every_balancer() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    // Built beside it in a workspace build; a build of this package alone has none.
    let mut balancers = vec!["bare"];
    if Path::new(LOADTEST).with_file_name("warmgate").is_file() {
        balancers.push("warmgate");
    }
    let output = compare(
        Path::new(LOADTEST),
        &[
            "--balancers",
            &format!("{},smg", balancers.join(",")),
            "--measure",
            "throughput,latency",
            "--bodies",
            "1",
            "--seconds",
            "0.3",
            "--rounds",
            "2",
            "--connections",
            "2",
            "--out",
            out.to_str().unwrap(),
        ],
    );
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{stdout}{stderr}");
    assert_eq!(
        fs::read_to_string(out.join("report.md")).unwrap(),
        stdout.strip_suffix('\n').unwrap()
    );
    assert!(
        stdout.contains("Not compared: smg: smg is not installed: pip install smg"),
        "{stdout}"
    );
    assert!(!stdout.contains("Failed:"), "{stdout}");

    let report: Value =
        serde_json::from_slice(&fs::read(out.join("report.json")).unwrap()).unwrap();
    let rows = report["measurements"].as_array().unwrap();
    // Each streamed and not; the direct call is among the rows.
    assert_eq!(rows.len(), 4 * (balancers.len() + 1));
    for row in rows {
        assert_eq!(row["rounds"].as_array().unwrap().len(), 2);
        for round in row["rounds"].as_array().unwrap() {
            let at = |name: &str| round[name].as_f64();
            let events = at("events_per_second").unwrap();
            assert_eq!(events > 0.0, row["streamed"] == true, "{row}");
            assert!(
                at("p50_us") <= at("p99_us") && at("p99_us") <= at("p999_us"),
                "{row}"
            );
            if row["balancer"] == "(direct)" {
                assert_eq!(at("memory_mib"), None);
            } else {
                assert!(at("memory_mib").unwrap() > 1.0, "{row}");
                assert!(at("busy").unwrap() > 0.0, "{row}");
            }
        }
    }
    let ratios = report["ratios"].as_array().unwrap();
    let against_bare =
        |ratio: &&Value| ratio["figure"] == "CPU a request" && ratio["body_kib"] == 1;
    let ratio = ratios.iter().find(against_bare).unwrap();
    assert_eq!(ratio["ratio"].is_number(), balancers.len() == 2, "{ratio}");
}

#[test]
fn streams_are_relayed_to_their_end() {
    let output = compare(
        Path::new(LOADTEST),
        &[
            "--balancers",
            "bare",
            "--measure",
            "relay",
            "--seconds",
            "0.3",
            "--rounds",
            "1",
        ],
    );
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{stdout}{stderr}");
    let relay = "### Relay, 200 streams, an event each 10 ms";
    assert!(
        stdout.contains(relay) && stdout.contains("\n| bare |"),
        "{stdout}"
    );
}

#[test]
fn a_gateway_that_does_not_start_fails_the_run_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("loadtest");
    fs::copy(LOADTEST, &program).unwrap();
    let gateway = folder.path().join("warmgate");
    fs::write(&gateway, "#!/bin/sh\necho no port is free >&2\nexit 7\n").unwrap();
    fs::set_permissions(&gateway, fs::Permissions::from_mode(0o755)).unwrap();
    let output = compare(
        &program,
        &[
            "--balancers",
            "warmgate,bare",
            "--measure",
            "throughput",
            "--bodies",
            "1",
            "--seconds",
            "0.1",
            "--rounds",
            "1",
            "--connections",
            "1",
        ],
    );
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{stdout}{stderr}");
    assert!(
        stderr
            .ends_with("the comparison is not whole: warmgate failed, see the end of the report\n"),
        "{stderr}"
    );
    let why = "Not compared: warmgate: ended with exit status: 7:\nno port is free\n";
    assert!(stdout.contains(why), "{stdout}");
    assert!(
        stdout.contains("| bare |"),
        "the others are measured: {stdout}"
    );
}

#[test]
fn options_that_do_not_hold_are_told_with_what_does() {
    let refused = |arguments: &[&str], message: &str| {
        let output = compare(Path::new(LOADTEST), arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let stderr = text(&output.stderr);
        assert_eq!(stderr, format!("loadtest: {message}\n"));
    };
    refused(
        &["--balancers", "bare,traefik"],
        "--balancers: no balancer \"traefik\"; there are warmgate, bare, nginx, haproxy, envoy, sglang-router, smg, vllm-router",
    );
    refused(
        &["--balancers", "bare,bare"],
        "--balancers: bare is named twice",
    );
    refused(
        &["--rounds", "0"],
        "--rounds, --connections and --engines must be at least 1",
    );
    refused(
        &["--seconds", "NaN"],
        "--seconds NaN: must be from 0.1 to 3600",
    );
    refused(
        &["--bodies", "1,99999999"],
        "--bodies 99999999: must be from 1 to 32768 KiB",
    );
}
