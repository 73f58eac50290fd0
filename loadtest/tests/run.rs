//! `loadtest run` as a user calls it, against simulated engines in this process.
#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::path::Path;
use std::process::Output;

use serde_json::Value;
use warmgate::sim::{self, Faults, SimEngine};

async fn engine() -> SimEngine {
    let options = sim::Options {
        time_scale: 0.01,
        ..sim::Options::default()
    };
    sim::start(options).await.unwrap()
}

const SCENARIO: &str = "
about: all four classes & more
seed: 7
warm_up: 200ms
workload:
  - system_prompts: {system: {count: 3, tokens: 300}, answer_tokens: 4}
  - documents: {document: {count: 2, tokens: 500}, questions: 2, answer_tokens: 4}
  - sessions: {turns: 3, answer_tokens: 4, think: 5ms}
  - agents: {system: {count: 2, tokens: 100}, tools: 2, steps: 2, result_tokens: 50, answer_tokens: 4}
";

/// Writes the scenario into the folder and runs it; the reports go there as well.
async fn run(folder: &Path, engine: &SimEngine, rest: &str) -> Output {
    let file = folder.join("scenario.yaml");
    let target = format!("target: {{url: '{}', simulated: true}}\n", engine.url());
    std::fs::write(&file, format!("{SCENARIO}{target}{rest}")).unwrap();
    tokio::process::Command::new(env!("CARGO_BIN_EXE_loadtest"))
        .arg("run")
        .arg(&file)
        .arg("--out")
        .arg(folder)
        .output()
        .await
        .unwrap()
}

fn report(folder: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(folder.join("report.json")).unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_writes_reports_with_figures_that_agree() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine().await;
    let output = run(
        folder.path(),
        &engine,
        "duration: 2s\narrival: {closed: {concurrency: 4, think: 2ms}}\nexpect: {min_requests: 20, min_hit_rate: 0.2}\n",
    )
    .await;
    let stdout = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stdout}{stderr}");
    assert!(stdout.contains("all limits kept"), "{stdout}");
    // No progress bar where no terminal is.
    assert_eq!(stderr, "");

    let report = report(folder.path());
    let requests = report["requests"].as_u64().unwrap();
    let sent = requests + report["warm_up_requests"].as_u64().unwrap();
    assert_eq!(sent, engine.requests().len() as u64);
    assert_eq!(report["errors"], 0);
    assert_eq!(report["milliseconds"]["total"]["count"], requests);
    assert_eq!(
        report["milliseconds"]["between_tokens"]["count"],
        requests * 3
    );
    let times = &report["milliseconds"]["first_token"];
    let at = |name: &str| times[name].as_f64().unwrap();
    assert!(0.0 < at("p50") && at("p50") <= at("p99") && at("p99.9") <= at("max"));
    let classes = report["classes"].as_array().unwrap();
    let by_class = classes
        .iter()
        .map(|class| class["requests"].as_u64().unwrap());
    assert_eq!(by_class.sum::<u64>(), requests);
    // Engines of their own name no pod.
    assert_eq!(report["pods"][0]["requests"], requests);
    assert!(report["hit_rate"].as_f64().unwrap() > 0.2);
    assert!(report["series"]["hit_rate"].as_array().unwrap().len() >= 2);

    let html = std::fs::read_to_string(folder.path().join("report.html")).unwrap();
    assert_eq!(
        html.matches("<svg").count(),
        5,
        "two distributions, three series"
    );
    assert!(
        html.contains("all four classes &amp; more"),
        "text is escaped"
    );
    assert!(
        !html.contains("src=") && !html.contains("href="),
        "one file"
    );
    let markdown = std::fs::read_to_string(folder.path().join("report.md")).unwrap();
    for text in ["intended start", "| first token |", "| agents |"] {
        assert!(markdown.contains(text), "no {text} in {markdown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_are_counted_by_kind_and_end_the_run_with_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let check = async |faults: Faults, kind: &str| {
        let engine = engine().await;
        engine.set_faults(faults);
        let rest = "duration: 400ms\ndrain: 300ms\narrival: {closed: {concurrency: 2}}\n";
        let output = run(folder.path(), &engine, rest).await;
        assert_eq!(output.status.code(), Some(1), "{kind}");
        let report = report(folder.path());
        let failures = report["failures"].as_array().unwrap();
        assert_eq!(failures.len(), 1, "{kind}: {failures:?}");
        assert_eq!(failures[0]["kind"], kind);
        assert_eq!(failures[0]["count"], report["errors"]);
        // What never ended had its turn all the same.
        assert_eq!(report["errors"], engine.requests().len() as u64, "{kind}");
    };
    let none = Faults::default;
    let status = Some(500);
    check(Faults { status, ..none() }, "status 500").await;
    let die_after_events = Some(2);
    let dies = Faults {
        die_after_events,
        ..none()
    };
    check(dies, "broken within the answer").await;
    let gone = Faults {
        close_on_head: true,
        ..none()
    };
    check(gone, "broken before the answer").await;
    // A stream that ends in good order but is not what was asked for.
    let events = Some(2);
    check(Faults { events, ..none() }, "wrong answer").await;
    let never_answer = true;
    check(
        Faults {
            never_answer,
            ..none()
        },
        "unfinished at the end",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_loop_counts_what_a_slow_engine_holds_up_from_the_intended_start() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine().await;
    // Each answer takes far longer than the time to the next arrival.
    engine.set_faults(Faults {
        head_delay_ms: 300,
        ..Faults::default()
    });
    let rest = "duration: 1s\narrival: {open: {rate: 100}}\n";
    let output = run(folder.path(), &engine, rest).await;
    assert!(output.status.success(), "{output:?}");
    let report = report(folder.path());
    // The clock went on: far more were open than a client that waits would have had.
    assert!(
        report["client_most_open"].as_u64().unwrap() > 10,
        "{report}"
    );
    assert!(
        report["milliseconds"]["first_token"]["p50"]
            .as_f64()
            .unwrap()
            >= 300.0
    );
}

#[tokio::test]
async fn a_wrong_scenario_has_an_exit_status_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine().await;
    let output = run(folder.path(), &engine, "duration: 0\narrival: {}\n").await;
    assert_eq!(output.status.code(), Some(64));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("scenario.yaml"), "{message}");
    assert!(message.contains("arrival"), "{message}");
}
