//! What clients send: forms of content, codings, forms with files, paths, wrong bodies.

use std::io::Write;

use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_64;

use crate::support::client::{self, Answer, Connection, chunked, head, post, post_json};
use crate::support::gateway::Gateway;
use crate::support::{Engines, engines, eventually};

const CHAT: &str = "/v1/chat/completions";

fn chat(content: &Value) -> Value {
    json!({"model": "m-a", "max_tokens": 2, "messages": [{"role": "user", "content": content}]})
}

/// Three engines of m-a and one of m-b, e4.
async fn fleet() -> (Engines, Gateway) {
    let mut all = engines(3, &["m-a"]).await;
    all.0.extend(engines(1, &["m-b"]).await.0);
    let gateway = Gateway::start(&all.pods()).await;
    gateway.until_models(&["m-a", "m-b"]).await;
    (all, gateway)
}

fn assert_error(answer: &Answer, status: u16) {
    assert_eq!(answer.status, status, "{}", answer.text());
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let error = &answer.json()["error"];
    assert!(
        error["message"].is_string() && error["type"].is_string(),
        "{error}"
    );
    assert!(error.get("code").is_some(), "{error}");
}

#[tokio::test]
async fn text_as_a_string_or_in_parts_goes_to_the_same_pod_with_its_body_kept() {
    let (engines, gateway) = fleet().await;
    let text = "some words that repeat ".repeat(90);
    let image = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}});
    let forms = [
        json!(text),
        json!([{"type": "text", "text": text}]),
        json!([{"type": "text", "text": text}, image]),
    ];
    let mut pods = Vec::new();
    for form in &forms {
        let answer = post_json(gateway.address, CHAT, &chat(form)).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        pods.push(answer.pod().to_owned());
    }
    assert!(pods.iter().all(|pod| *pod == pods[0]), "{pods:?}");
    let seen: Vec<_> = engines
        .all_requests()
        .iter()
        .map(|request| request.body.to_vec())
        .collect();
    for form in &forms {
        assert!(seen.contains(&chat(form).to_string().into_bytes()));
    }
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_as_soon_as_that_is_known() {
    let engines = engines(1, &["m-a"]).await;
    let gateway = Gateway::start(&format!("limits: {{body: 64KiB}}\n{}", engines.pods())).await;
    let mut announced = Connection::open(gateway.address).await.unwrap();
    announced
        .send(&head("POST", CHAT, &[], Some(64 * 1024 + 1)))
        .await
        .unwrap();
    let answer = announced.answer().await.unwrap();
    assert_error(&answer, 413);
    assert_eq!(answer.header("connection"), Some("close"));
    assert!(announced.closed().await);

    let mut unannounced = Connection::open(gateway.address).await.unwrap();
    unannounced
        .send(&head(
            "POST",
            CHAT,
            &[("transfer-encoding", "chunked")],
            None,
        ))
        .await
        .unwrap();
    unannounced
        .send(&chunked(&vec![b' '; 65 * 1024], 8000))
        .await
        .unwrap();
    assert_error(&unannounced.answer().await.unwrap(), 413);
    assert!(engines.all_requests().is_empty());
    eventually("both are counted", async || {
        let counted = gateway
            .metric("warmgate_requests_total", &["status=\"413\""])
            .await;
        (counted == 2.0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn compressed_bodies_are_understood_and_reach_the_engine_readable() {
    let (engines, gateway) = fleet().await;
    let body = chat(&json!("packed words ".repeat(100))).to_string();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(body.as_bytes()).unwrap();
    let gzip = gzip.finish().unwrap();
    let zstd = zstd::encode_all(body.as_bytes(), 1).unwrap();
    let send = async |coding: &str, body: &[u8]| {
        let headers = [
            ("content-encoding", coding),
            ("content-type", "application/json"),
        ];
        client::request(gateway.address, "POST", CHAT, &headers, body)
            .await
            .unwrap()
    };
    let first = send("gzip", &gzip).await;
    let second = send("zstd", &zstd).await;
    assert_eq!(
        (first.status, second.status),
        (200, 200),
        "{}",
        second.text()
    );
    assert_eq!(first.pod(), second.pod());
    for request in engines.all_requests() {
        assert_eq!(request.body, body.as_bytes());
        assert_eq!(request.header("content-encoding"), None);
        assert_eq!(
            request.header("content-length"),
            Some(body.len().to_string().as_str())
        );
    }
    assert_error(&send("foo", &gzip).await, 415);
    assert_error(&send("gzip", &gzip[..gzip.len() / 2]).await, 400);
    assert_eq!(engines.all_requests().len(), 2);
}

#[tokio::test]
async fn a_decompression_bomb_is_413_in_bounded_memory() {
    let engines = engines(1, &["m-a"]).await;
    let gateway = Gateway::start(&format!("limits: {{body: 1MiB}}\n{}", engines.pods())).await;
    let bomb = zstd::encode_all(std::io::repeat(b' ').take_bytes(256 << 20), 1).unwrap();
    let before = gateway.memory_kib();
    let headers = [("content-encoding", "zstd")];
    let answer = client::request(gateway.address, "POST", CHAT, &headers, &bomb)
        .await
        .unwrap();
    assert_error(&answer, 413);
    assert!(gateway.memory_kib() < before + 32 * 1024);
    assert!(engines.all_requests().is_empty());
}

trait TakeBytes: std::io::Read + Sized {
    fn take_bytes(self, count: u64) -> std::io::Take<Self> {
        self.take(count)
    }
}

impl TakeBytes for std::io::Repeat {}

#[tokio::test]
async fn odd_unicode_is_passed_or_refused_and_the_connection_lives() {
    let (engines, gateway) = fleet().await;
    let mut connection = Connection::open(gateway.address).await.unwrap();
    let before = br#"{"model":"m-a","messages":[{"role":"user","content":""#;
    let after = br#""}]}"#;
    let cases: [(&[u8], &[u8], u16); 4] = [
        (b"", b"a \\ud83c b", 200),
        (b"", b"\\u0000", 200),
        (b"", b"a \xed\xa0\xbc b", 400),
        (b"\xef\xbb\xbf", b"a", 400),
    ];
    for (first, content, status) in cases {
        let body = [first, before, content, after].concat();
        connection
            .send(&head("POST", CHAT, &[], Some(body.len())))
            .await
            .unwrap();
        connection.send(&body).await.unwrap();
        let answer = connection.answer().await.unwrap();
        assert_eq!(
            answer.status,
            status,
            "{} {}",
            body.escape_ascii(),
            answer.text()
        );
        let kept = engines
            .all_requests()
            .iter()
            .any(|request| request.body == body);
        assert_eq!(kept, status == 200);
    }
    let body = chat(&json!("fine")).to_string();
    connection
        .send(&head("POST", CHAT, &[], Some(body.len())))
        .await
        .unwrap();
    connection.send(body.as_bytes()).await.unwrap();
    assert_eq!(connection.answer().await.unwrap().status, 200);
}

#[tokio::test]
async fn a_form_with_a_file_goes_by_its_model_field_byte_for_byte() {
    let (engines, gateway) = fleet().await;
    let file: Vec<u8> = (0..3_u32 << 20)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
        .chain(*b"\r\n--\0\r\n--XY")
        .collect();
    let form = |with_model: bool| {
        let mut body =
            b"--XYZ\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\n"
                .to_vec();
        body.extend_from_slice(&file);
        if with_model {
            body.extend_from_slice(
                b"\r\n--XYZ\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm-b",
            );
        }
        body.extend_from_slice(b"\r\n--XYZ--\r\n");
        body
    };
    let path = "/v1/audio/transcriptions";
    let body = form(true);
    for content_type in [
        "multipart/form-data; boundary=XYZ",
        "multipart/form-data; boundary=\"XYZ\"",
    ] {
        let answer = post(gateway.address, path, content_type, &body)
            .await
            .unwrap();
        assert_eq!(
            (answer.status, answer.pod()),
            (200, "e4"),
            "{}",
            answer.text()
        );
    }
    let mut connection = Connection::open(gateway.address).await.unwrap();
    let headers = [
        ("transfer-encoding", "chunked"),
        ("content-type", "multipart/form-data; boundary=XYZ"),
    ];
    connection
        .send(&head("POST", path, &headers, None))
        .await
        .unwrap();
    connection.send(&chunked(&body, 100_000)).await.unwrap();
    assert_eq!(connection.answer().await.unwrap().status, 200);
    let seen = engines.0[3].requests();
    assert_eq!(seen.len(), 3);
    for request in &seen {
        assert_eq!(
            (request.body_length, request.body_hash),
            (body.len(), xxh3_64(&body))
        );
    }
    assert_eq!(
        seen[1].header("content-type"),
        Some("multipart/form-data; boundary=\"XYZ\"")
    );
    let without = post(
        gateway.address,
        path,
        "multipart/form-data; boundary=XYZ",
        form(false),
    )
    .await
    .unwrap();
    assert_error(&without, 400);
}

#[tokio::test]
async fn conversations_of_other_interfaces_stay_on_their_pod_too() {
    let (engines, gateway) = fleet().await;
    let system = "be helpful and brief ".repeat(150);
    let mut turn = json!({
        "model": "m-a", "max_tokens": 2, "system": [{"type": "text", "text": system}],
        "messages": [{"role": "user", "content": "one"}],
    });
    let first = post_json(gateway.address, "/v1/messages", &turn).await;
    let history = turn["messages"].as_array_mut().unwrap();
    history.extend([
        json!({"role": "assistant", "content": "two"}),
        json!({"role": "user", "content": "three"}),
    ]);
    let second = post_json(gateway.address, "/v1/messages", &turn).await;
    assert_eq!((first.status, second.status), (200, 200));
    assert_eq!(first.pod(), second.pod());

    let blocks = gateway.metric("warmgate_index_blocks", &[]).await;
    let other =
        json!({"model": "m-a", "messages": [{"role": "user", "content": "count ".repeat(200)}]});
    let counted = post_json(gateway.address, "/v1/messages/count_tokens", &other).await;
    assert_eq!(counted.status, 200, "{}", counted.text());
    assert_eq!(gateway.metric("warmgate_index_blocks", &[]).await, blocks);

    let response = json!({"model": "m-a", "instructions": system, "input": [{"role": "user", "content": "one"}]});
    let pods = [
        post_json(gateway.address, "/v1/responses", &response)
            .await
            .pod()
            .to_owned(),
        post_json(gateway.address, "/v1/responses", &response)
            .await
            .pod()
            .to_owned(),
    ];
    assert_eq!(pods[0], pods[1]);
    assert_eq!(engines.all_requests().len(), 5);
}

#[tokio::test]
async fn wrong_bodies_are_told_apart_and_reach_no_engine() {
    let (engines, gateway) = fleet().await;
    let cases = [
        (
            r#"{"model":"nope","messages":[{"role":"user","content":"x"}]}"#,
            404,
        ),
        (
            r#"{"model":"","messages":[{"role":"user","content":"x"}]}"#,
            400,
        ),
        (r#"{"model":null}"#, 400),
        (r#"{"model":5}"#, 400),
        (r#"{"messages":[]}"#, 400),
        (
            r#"{"model":"m-a","model":"m-b","messages":[{"content":"x"}]}"#,
            400,
        ),
        ("[]", 400),
        ("{", 400),
    ];
    for (body, status) in cases {
        let answer = post(gateway.address, CHAT, "application/json", body)
            .await
            .unwrap();
        assert_error(&answer, status);
        let code = answer.error_code();
        assert_eq!(code == "model_not_found", status == 404, "{body}");
    }
    assert!(engines.all_requests().is_empty());
    eventually("all are counted", async || {
        let counted = gateway
            .metric("warmgate_requests_total", &["status=\"400\""])
            .await;
        (counted == 7.0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_model_whose_pods_are_known_to_be_down_is_503_with_retry_after() {
    let (mut engines, gateway) = fleet().await;
    drop(engines.0.pop());
    let body = json!({"model": "m-b", "messages": [{"role": "user", "content": "x"}]});
    let answer = eventually("the pod is known to be down", async || {
        let answer = post_json(gateway.address, CHAT, &body).await;
        (answer.status == 503).then_some(answer)
    })
    .await;
    assert_error(&answer, 503);
    assert!(answer.header("retry-after").is_some());
}

#[tokio::test]
async fn a_preflight_is_passed_on_without_a_key_and_without_load() {
    let (engines, gateway) = fleet().await;
    let keyed = Gateway::start(&format!(
        "auth: {{client_keys: [sk-1]}}\n{}",
        engines.pods()
    ))
    .await;
    let headers = [
        ("origin", "http://app.example"),
        ("access-control-request-method", "POST"),
    ];
    for gateway in [&gateway, &keyed] {
        let answer = client::request(gateway.address, "OPTIONS", CHAT, &headers, b"")
            .await
            .unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
        gateway.until_idle().await;
    }
    assert_error(
        &post_json(keyed.address, CHAT, &chat(&json!("x"))).await,
        401,
    );
    // What is no preflight needs its key.
    let bare = client::request(keyed.address, "OPTIONS", CHAT, &[], b"")
        .await
        .unwrap();
    assert_error(&bare, 401);
}

#[tokio::test]
async fn targets_and_headers_reach_the_engine_as_they_should() {
    let engine = engines(1, &["m-a", "org/m-a"]).await;
    let pods = format!(
        "pods:\n  - {{url: \"{}/v1\", name: e1}}\n",
        engine.0[0].url()
    );
    let gateway = Gateway::start(&pods).await;
    let body = chat(&json!("x")).to_string();
    let target = "/v1/chat/completions?api-version=2024-06-01&x=a%2Fb&e=";
    let forwarded = [("x-forwarded-for", "203.0.113.9"), ("x-request-id", "id-7")];
    let answers = [
        client::request(gateway.address, "POST", target, &forwarded, body.as_bytes())
            .await
            .unwrap(),
        client::request(
            gateway.address,
            "POST",
            "/v1/chat/completions/",
            &[],
            body.as_bytes(),
        )
        .await
        .unwrap(),
        client::get(gateway.address, "/v1/models/org%2Fm-a")
            .await
            .unwrap(),
    ];
    for answer in &answers {
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    let seen = engine.0[0].requests();
    assert_eq!(seen[0].target, target);
    assert_eq!(seen[1].target, "/v1/chat/completions/");
    assert_eq!(
        seen[0].header("x-forwarded-for"),
        Some("203.0.113.9, 127.0.0.1")
    );
    assert_eq!(
        seen[0].header("host"),
        Some(engine.0[0].address().to_string().as_str())
    );
    assert_eq!(seen[0].header("x-request-id"), Some("id-7"));
    assert_eq!(answers[0].header("x-request-id"), Some("id-7"));
    assert_eq!(
        seen[1].header("x-request-id"),
        answers[1].header("x-request-id")
    );
    assert!(
        answers[1]
            .header("x-request-id")
            .is_some_and(|id| !id.is_empty())
    );
    let log = eventually("the access log has the request", async || {
        let log = gateway.access_log();
        log.contains("id-7").then_some(log)
    })
    .await;
    assert!(
        !log.contains("203.0.113.9") && !log.contains("api-version"),
        "{log}"
    );
}

#[tokio::test]
async fn a_bad_strategy_is_400_and_lists_the_good_ones() {
    let (engines, gateway) = fleet().await;
    let body = chat(&json!("x")).to_string();
    let headers = [("routing-strategy", "fastest")];
    let answer = client::request(gateway.address, "POST", CHAT, &headers, body.as_bytes())
        .await
        .unwrap();
    assert_error(&answer, 400);
    assert!(
        answer.text().contains("prefix-cache") && answer.text().contains("least-request"),
        "{}",
        answer.text()
    );
    assert_eq!(answer.header("x-error-routing"), Some("true"));
    for strategy in [
        "random",
        "least-request",
        "load-balance",
        "prefix-cache:2,least-request:1",
    ] {
        let answer = client::request(
            gateway.address,
            "POST",
            CHAT,
            &[("routing-strategy", strategy)],
            body.as_bytes(),
        )
        .await
        .unwrap();
        assert_eq!(
            (answer.status, answer.header("routing-strategy")),
            (200, Some(strategy))
        );
    }
    assert_eq!(engines.all_requests().len(), 4);
}

#[tokio::test]
async fn deep_nesting_anywhere_harms_nothing() {
    let (_engines, gateway) = fleet().await;
    let deep =
        |open: &str, close: &str, depth: usize| open.repeat(depth) + "1" + &close.repeat(depth);
    let brackets = deep("[", "]", 100_000);
    let bodies = [
        format!(r#"{{"model":"m-a","x":{brackets},"messages":[{{"role":"user","content":"x"}}]}}"#),
        format!(
            r#"{{"model":"m-a","tools":[{{"function":{{"parameters":{brackets}}}}}],"messages":[{{"content":"x"}}]}}"#
        ),
        format!(r#"{{"model":"m-a","messages":{brackets}}}"#),
        format!(r#"{{"model":"m-a","messages":[{{"content":{brackets}}}]}}"#),
        deep(r#"{"a":"#, "}", 20_000),
        format!(r#"{{"model":"m-a","x":{}"#, "[".repeat(100_000)),
    ];
    for body in bodies {
        let answer = tokio::time::timeout(
            std::time::Duration::from_secs(5),
            post(gateway.address, CHAT, "application/json", &body),
        );
        let answer = answer.await.expect("quickly").unwrap();
        assert!(
            [200, 400].contains(&answer.status),
            "{} {}",
            answer.status,
            answer.text()
        );
    }
    assert_eq!(
        post_json(gateway.address, CHAT, &chat(&json!("x")))
            .await
            .status,
        200
    );
}
