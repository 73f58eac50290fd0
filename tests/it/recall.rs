//! Answers that are noted in the prefix index: the next turn matches up to its new message.

use serde_json::{Value, json};

use crate::support::client::{Answer, post_json, request};
use crate::support::gateway::Gateway;
use crate::support::{engines, eventually};

const NOTED: &str = "routing: {prefix_cache: {answers: true}}\n";
/// Shorter than a block, so that only the answer can make one.
const QUESTION: &str = "what is a word?";
const TOKENS: usize = 100;

struct Path {
    path: &'static str,
    first: Value,
    second: fn(&str) -> Value,
    text: fn(&Value) -> &Value,
}

fn paths() -> [Path; 4] {
    fn chat(answer: &str) -> Value {
        json!([{"role": "user", "content": QUESTION}, {"role": "assistant", "content": answer}, {"role": "user", "content": "and now?"}])
    }
    let question = json!([{"role": "user", "content": QUESTION}]);
    [
        Path {
            path: "/v1/chat/completions",
            first: json!({"messages": question}),
            second: |answer| json!({"messages": chat(answer)}),
            text: |answer| &answer["choices"][0]["message"]["content"],
        },
        Path {
            path: "/v1/completions",
            first: json!({"prompt": QUESTION}),
            second: |answer| json!({"prompt": format!("{QUESTION}{answer}and now?")}),
            text: |answer| &answer["choices"][0]["text"],
        },
        Path {
            path: "/v1/messages",
            first: json!({"messages": question}),
            second: |answer| json!({"messages": chat(answer)}),
            text: |answer| &answer["content"][0]["text"],
        },
        Path {
            path: "/v1/responses",
            first: json!({"input": question}),
            second: |answer| json!({"input": chat(answer)}),
            text: |answer| &answer["output"][0]["content"][0]["text"],
        },
    ]
}

async fn send(gateway: &Gateway, path: &Path, body: &Value, stream: bool) -> Answer {
    let mut body = body.clone();
    body["model"] = json!("m-a");
    body["stream"] = json!(stream);
    body["max_tokens"] = json!(TOKENS);
    let answer = post_json(gateway.address, path.path, &body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer
}

/// What the last of so many requests matched, once it is logged: by then its answer is noted.
async fn matched(gateway: &Gateway, requests: usize) -> u64 {
    eventually("the requests are logged", async || {
        let log = gateway.access_log();
        let line = log.lines().nth(requests - 1)?;
        let (_, rest) = line.split_once("matched_blocks=")?;
        rest.split(' ').next()?.parse().ok()
    })
    .await
}

/// Blocks that the second turn finds, which goes where the first went.
async fn second_turn(config: &str, path: &Path, stream: bool) -> u64 {
    let engines = engines(3, &["m-a"]).await;
    let gateway = Gateway::start(&format!("{config}{}", engines.pods())).await;
    let first = send(&gateway, path, &path.first, stream).await;
    assert_eq!(matched(&gateway, 1).await, 0);
    let text = match stream {
        // As the same engine answers that does not stream.
        true => "word ".repeat(TOKENS),
        false => (path.text)(&first.json()).as_str().unwrap().to_owned(),
    };
    let second = send(&gateway, path, &(path.second)(&text), stream).await;
    let blocks = matched(&gateway, 2).await;
    if blocks > 0 {
        assert_eq!(second.pod(), first.pod());
    }
    blocks
}

#[tokio::test]
async fn the_next_turn_matches_what_was_answered() {
    let blocks = ((QUESTION.len() + 5 * TOKENS) / 128) as u64;
    for path in paths() {
        for stream in [false, true] {
            let found = second_turn(NOTED, &path, stream).await;
            assert_eq!(found, blocks, "{} {stream}", path.path);
        }
    }
}

#[tokio::test]
async fn without_the_setting_answers_are_not_noted() {
    let [chat, ..] = paths();
    assert_eq!(second_turn("", &chat, true).await, 0);
}

/// A chat's answer as this engine would give it; what the next turn, which repeats the text and these calls, then matches.
async fn matched_after(fault: &Value, calls: &Value) -> u64 {
    let engines = engines(3, &["m-a"]).await;
    let gateway = Gateway::start(&format!("{NOTED}{}", engines.pods())).await;
    let [chat, ..] = paths();
    let mut body = chat.first.clone();
    body["model"] = json!("m-a");
    body["stream"] = json!(fault["raw_response"].is_null());
    body["max_tokens"] = json!(TOKENS);
    let headers = [
        ("content-type", "application/json"),
        ("x-sim-fault", &fault.to_string()),
    ];
    let body = body.to_string();
    let first = request(
        gateway.address,
        "POST",
        chat.path,
        &headers,
        body.as_bytes(),
    )
    .await;
    assert_eq!(first.expect("an answer").status, 200);
    assert_eq!(matched(&gateway, 1).await, 0);
    let mut next = (chat.second)(&"word ".repeat(TOKENS));
    next["messages"][1]["tool_calls"] = calls.clone();
    send(&gateway, &chat, &next, false).await;
    matched(&gateway, 2).await
}

fn document(message: &Value, headers: &str) -> Value {
    let body = json!({"choices": [{"index": 0, "message": message}]}).to_string();
    let length = body.len();
    json!({"raw_response": format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n{headers}\r\n{body}")})
}

#[tokio::test]
async fn calls_of_tools_end_what_is_noted() {
    let text = "word ".repeat(TOKENS);
    let calls =
        json!([{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]);
    let both = json!({"role": "assistant", "content": text, "tool_calls": calls});
    let blocks = ((QUESTION.len() + 1 + text.len()) / 128) as u64;
    assert_eq!(matched_after(&document(&both, ""), &calls).await, blocks);
    let only_calls = json!({"role": "assistant", "content": null, "tool_calls": calls});
    let found = matched_after(&document(&only_calls, ""), &calls).await;
    assert_eq!(found, 0);
}

#[tokio::test]
async fn what_cannot_be_read_or_is_not_complete_is_not_noted() {
    let text = "word ".repeat(TOKENS);
    let message = json!({"role": "assistant", "content": text});
    let compressed = document(&message, "content-encoding: gzip\r\n");
    assert_eq!(matched_after(&compressed, &Value::Null).await, 0);
    let cut = json!({"die_after_events": TOKENS - 2});
    assert_eq!(matched_after(&cut, &Value::Null).await, 0);
}
