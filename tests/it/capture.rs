//! The capture: what it holds, what it must not, and that it waits for nobody.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::client::{self, Answer};
use crate::support::gateway::Gateway;
use crate::support::{Engines, engines, eventually};

const SAMPLE: &str = include_str!("../data/capture.jsonl");

async fn start(engines: &Engines, folder: &Path, more: &str) -> (Gateway, PathBuf) {
    let file = folder.join("capture.jsonl");
    let config = format!("capture: {}\n{more}{}", file.display(), engines.pods());
    (Gateway::start(&config).await, file)
}

async fn chat(gateway: &Gateway, content: &str, stream: bool, session: &str) -> Answer {
    let body = json!({
        "model": "m-a", "max_tokens": 7, "stream": stream, "messages": [{"role": "user", "content": content}],
    });
    let headers = [("x-session-id", session), ("x-api-key", "sk-0001")];
    let body = body.to_string();
    let path = "/v1/chat/completions?key=QUERYSECRET";
    client::request(gateway.address, "POST", path, &headers, body.as_bytes())
        .await
        .unwrap()
}

async fn lines(file: &Path, count: usize) -> Vec<Value> {
    let text = eventually("all lines are written", async || {
        let text = std::fs::read_to_string(file).ok()?;
        (text.lines().count() >= count).then_some(text)
    })
    .await;
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn hashes(line: &Value) -> Vec<&str> {
    let blocks = line["blocks"].as_array().unwrap().iter();
    blocks.map(|hash| hash.as_str().unwrap()).collect()
}

fn keys(line: &Value) -> BTreeSet<&String> {
    line.as_object().unwrap().keys().collect()
}

#[tokio::test]
async fn a_capture_holds_hashes_sizes_and_times_and_no_text() {
    let engines = engines(2, &["m-a"]).await;
    let folder = tempfile::tempdir().unwrap();
    let keys_of_clients = "auth: {client_keys: [sk-0001]}\n";
    let (gateway, file) = start(&engines, folder.path(), keys_of_clients).await;
    let start = "HUSHHUSH ".repeat(200);
    for (content, stream) in [(start.clone(), false), (start + "MOREHUSH", true)] {
        assert_eq!(
            chat(&gateway, &content, stream, "SESSION-7").await.status,
            200
        );
    }
    let lines = lines(&file, 2).await;
    let [first, second] = &lines[..] else {
        panic!("{lines:?}")
    };
    assert_eq!(
        (&first["path"], &first["model"]),
        (&json!("chat_completions"), &json!("m-a"))
    );
    assert_eq!(
        (&first["status"], &first["output_tokens"]),
        (&json!(200), &json!(7))
    );
    assert_eq!(
        (&first["stream"], &second["stream"]),
        (&json!(false), &json!(true))
    );
    assert_eq!(first["block_bytes"], 512);
    let prompt_bytes = first["prompt_bytes"].as_u64().unwrap();
    assert!((1800..2000).contains(&prompt_bytes), "{first}");
    assert!(
        first["duration_ms"].is_u64() && first["ttft_ms"].is_u64(),
        "{first}"
    );
    assert_eq!(hashes(first).len(), 3, "{first}");
    assert_eq!(hashes(second)[..3], hashes(first), "{second}");
    assert_eq!(
        (&first["session"], &first["pod"]),
        (&second["session"], &second["pod"])
    );

    let text = std::fs::read_to_string(&file).unwrap();
    for secret in ["HUSH", "SESSION", "sk-0001", "QUERYSECRET", "user"] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let sample: Value = serde_json::from_str(SAMPLE.lines().next().unwrap()).unwrap();
    assert_eq!(
        keys(first),
        keys(&sample),
        "the load test's sample is another format"
    );
}

#[tokio::test]
async fn strategies_that_look_at_no_prompt_leave_its_blocks_too() {
    let engines = engines(1, &["m-a"]).await;
    let folder = tempfile::tempdir().unwrap();
    let (gateway, file) = start(&engines, folder.path(), "routing: {strategy: random}\n").await;
    chat(&gateway, &"text ".repeat(300), false, "s").await;
    assert_eq!(hashes(&lines(&file, 1).await[0]).len(), 2);
    assert_eq!(gateway.metric("warmgate_index_blocks", &[]).await, 0.0);
}

#[tokio::test]
async fn the_last_lines_are_there_when_the_gateway_has_ended() {
    let engines = engines(1, &["m-a"]).await;
    let folder = tempfile::tempdir().unwrap();
    let (mut gateway, file) = start(&engines, folder.path(), "").await;
    for _ in 0..20 {
        chat(&gateway, &"text ".repeat(300), false, "s").await;
    }
    gateway.until_idle().await;
    gateway.signal("TERM");
    assert_eq!(gateway.ended().await, Some(0));
    assert_eq!(std::fs::read_to_string(&file).unwrap().lines().count(), 20);
}

#[tokio::test]
async fn a_disk_that_is_full_costs_lines_and_no_request() {
    let engines = engines(1, &["m-a"]).await;
    let gateway = Gateway::start(&format!("capture: /dev/full\n{}", engines.pods())).await;
    assert_eq!(chat(&gateway, "x", false, "s").await.status, 200);
    eventually("the loss is counted", async || {
        let lost = gateway
            .metric("warmgate_capture_lines_dropped_total", &[])
            .await;
        (lost == 1.0).then_some(())
    })
    .await;
    let log = gateway.error_log();
    assert!(log.contains("the capture cannot be written"), "{log}");
    assert_eq!(chat(&gateway, "x", false, "s").await.status, 200);
}
