//! Answers that are noted in the prefix index: the next turn matches up to its new message.

use serde_json::{Value, json};

use crate::support::client::{Answer, post_json};
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
