//! Requests on which two readers could disagree, heads and bodies that come too slowly or too large.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;
use warmgate::sim::Faults;

use crate::support::client::{Connection, head, post_json};
use crate::support::gateway::Gateway;
use crate::support::{engines, within};

async fn raw(gateway: &Gateway, bytes: &[u8]) -> (u16, bool) {
    let mut connection = Connection::open(gateway.address).await.unwrap();
    connection.send(bytes).await.unwrap();
    let status = connection.answer().await.unwrap().status;
    (status, connection.closed().await)
}

#[tokio::test]
async fn ambiguous_heads_are_refused_and_the_connection_closed() {
    let engines = engines(1, &["m-a"]).await;
    let gateway = Gateway::start(&engines.pods()).await;
    let chunked = "0\r\n\r\n";
    for request in [
        format!("POST /v1/completions HTTP/1.1\r\nHost: g\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n{chunked}"),
        format!("POST /v1/completions HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\ncontent-length: 5\r\n\r\n{chunked}"),
        format!("POST /v1/completions HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: xchunked\r\n\r\n{chunked}"),
        format!("POST /v1/completions HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: gzip, chunked\r\n\r\n{chunked}"),
        format!("POST /v1/completions HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n{chunked}"),
        "POST /v1/completions HTTP/1.1\r\nHost: g\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}".to_owned(),
        "POST /v1/completions HTTP/1.1\nHost: g\nContent-Length: 2\n\n{}".to_owned(),
        "POST /v1/completions HTTP/1.1\r\nHost: g\nContent-Length: 2\r\n\r\n{}".to_owned(),
        "POST http://evil.test/v1/completions HTTP/1.1\r\nHost: g\r\nContent-Length: 2\r\n\r\n{}".to_owned(),
        "POST /v1/completions HTTP/1.1\r\nHost : g\r\nContent-Length: 2\r\n\r\n{}".to_owned(),
    ] {
        assert_eq!(raw(&gateway, request.as_bytes()).await, (400, true), "{request}");
    }
    assert!(engines.all_requests().is_empty());
}

#[tokio::test]
async fn a_broken_chunked_body_is_400() {
    let engines = engines(1, &["m-a"]).await;
    let gateway = Gateway::start(&engines.pods()).await;
    let mut request = head(
        "POST",
        "/v1/completions",
        &[("transfer-encoding", "chunked")],
        None,
    );
    request.extend_from_slice(b"zz\r\n{}\r\n0\r\n\r\n");
    let (status, closed) = raw(&gateway, &request).await;
    assert_eq!((status, closed), (400, true));
    assert!(engines.all_requests().is_empty());
}

#[tokio::test]
async fn what_follows_a_request_is_a_request_of_its_own() {
    let engines = engines(1, &["m-a"]).await;
    let gateway = Gateway::start(&format!(
        "auth: {{client_keys: [sk-1]}}\n{}",
        engines.pods()
    ))
    .await;
    let body = json!({"model": "m-a", "prompt": "x", "max_tokens": 1}).to_string();
    let upgrade = [
        ("connection", "Upgrade"),
        ("upgrade", "foo"),
        ("authorization", "Bearer sk-1"),
    ];
    let mut bytes = head("POST", "/v1/completions", &upgrade, Some(body.len()));
    bytes.extend_from_slice(body.as_bytes());
    bytes.extend_from_slice(&head("POST", "/v1/hidden", &[], Some(0)));
    let mut connection = Connection::open(gateway.address).await.unwrap();
    connection.send(&bytes).await.unwrap();
    let first = connection.answer().await.unwrap();
    assert_eq!(first.status, 200, "{}", first.text());
    assert_eq!(connection.answer().await.unwrap().status, 401);
    let seen = engines.all_requests();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].header("upgrade"), None);
}

#[tokio::test]
async fn a_protocol_switch_that_nobody_asked_for_is_502() {
    let engines = engines(1, &["m-a"]).await;
    let gateway = Gateway::start(&engines.pods()).await;
    engines.set_faults(&Faults {
        raw_response: Some(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: foo\r\nConnection: Upgrade\r\n\r\n"
                .to_owned(),
        ),
        ..Faults::default()
    });
    let answer = post_json(
        gateway.address,
        "/v1/completions",
        &json!({"model": "m-a", "prompt": "x"}),
    )
    .await;
    assert_eq!(answer.status, 502, "{}", answer.text());
    gateway.until_idle().await;
}

#[tokio::test]
async fn large_heads_are_431_or_400() {
    let engines = engines(1, &["m-a"]).await;
    let gateway = Gateway::start(&engines.pods()).await;
    let many = |count: usize| {
        (0..count)
            .map(|i| format!("x-{i}: a\r\n"))
            .collect::<String>()
    };
    for (headers, statuses) in [
        (many(130), [431, 431]),
        (many(300), [431, 400]),
        (format!("x: {}\r\n", "a".repeat(70 << 10)), [431, 431]),
        (format!("x: {}\r\n", "a".repeat(1 << 20)), [431, 400]),
    ] {
        let request = format!("GET /v1/models HTTP/1.1\r\nHost: g\r\n{headers}\r\n");
        let (status, closed) = raw(&gateway, request.as_bytes()).await;
        assert!(statuses.contains(&status) && closed, "{status}");
    }
}

#[tokio::test]
async fn bytes_now_and_then_keep_neither_head_nor_body_open() {
    let engines = engines(1, &["m-a"]).await;
    let limits = "limits: {header_timeout: 500ms, body_idle: 500ms}\n";
    let gateway = Gateway::start(&format!("{limits}{}", engines.pods())).await;
    let begun = Instant::now();
    let mut slow = Vec::new();
    for number in 0..20 {
        let mut connection = Connection::open(gateway.address).await.unwrap();
        let start = if number % 2 == 0 {
            b"POST /v1/completions HTTP/1.1\r\nx: ".to_vec()
        } else {
            head("POST", "/v1/completions", &[], Some(1_000_000))
        };
        connection.send(&start).await.unwrap();
        slow.push(connection);
    }
    within(
        Duration::from_secs(10),
        "all slow connections are closed",
        async || {
            let mut open = Vec::new();
            for mut connection in slow.drain(..) {
                if connection.send(b"a").await.is_ok() {
                    open.push(connection);
                }
            }
            slow.append(&mut open);
            slow.is_empty().then_some(())
        },
    )
    .await;
    assert!(begun.elapsed() > Duration::from_millis(400));
    assert!(engines.all_requests().is_empty());
    let answer = post_json(
        gateway.address,
        "/v1/completions",
        &json!({"model": "m-a", "prompt": "x"}),
    )
    .await;
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn nothing_behind_a_chunked_body_is_taken_for_a_request() {
    let engines = engines(1, &["m-a"]).await;
    let gateway = Gateway::start(&engines.pods()).await;
    let body = json!({"model": "m-a", "prompt": "x", "max_tokens": 1}).to_string();
    for end in ["\r\n\r\n", ";a\r\n\r\n", "0\r\n\r\n"] {
        let mut bytes = head(
            "POST",
            "/v1/completions",
            &[("transfer-encoding", "chunked")],
            None,
        );
        bytes.extend_from_slice(format!("{:x}\r\n{body}\r\n{end}", body.len()).as_bytes());
        bytes.extend_from_slice(b"GET /v1/smuggled HTTP/1.1\r\nHost: g\r\n\r\n");
        let (_, closed) = raw(&gateway, &bytes).await;
        assert!(closed, "{end:?}");
    }
    assert!(
        engines
            .all_requests()
            .iter()
            .all(|seen| seen.target == "/v1/completions")
    );
}

#[tokio::test]
async fn answers_fit_the_client_and_never_promise_a_body_that_cannot_come() {
    let engines = engines(1, &["m-a"]).await;
    let gateway = Gateway::start(&engines.pods()).await;
    let body = json!({"model": "m-a", "prompt": "x"});
    for framing in [
        "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "Content-Length: 5\r\n\r\n",
    ] {
        engines.set_faults(&Faults {
            raw_response: Some(format!("HTTP/1.1 204 No Content\r\n{framing}")),
            ..Faults::default()
        });
        let answer = post_json(gateway.address, "/v1/completions", &body).await;
        assert_eq!(answer.status, 204);
        assert_eq!(
            (
                answer.header("transfer-encoding"),
                answer.header("content-length")
            ),
            (None, None)
        );
    }
    engines.set_faults(&Faults {
        events: Some(2),
        ..Faults::default()
    });
    let body = body.to_string();
    let request = format!(
        "POST /v1/completions HTTP/1.0\r\nHost: g\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut old = Connection::open(gateway.address).await.unwrap();
    old.send(request.as_bytes()).await.unwrap();
    let answer = old.answer().await.unwrap();
    assert_eq!(answer.header("transfer-encoding"), None);
    assert_eq!(
        answer.text(),
        "data: {\"event\":0}\n\ndata: {\"event\":1}\n\n"
    );
}

#[tokio::test]
async fn an_answer_that_ends_its_connection_says_so() {
    let engines = engines(1, &["m-a"]).await;
    let gateway = Gateway::start(&engines.pods()).await;
    engines.set_faults(&Faults {
        close_on_head: true,
        ..Faults::default()
    });
    let body = json!({"model": "m-a", "prompt": "x"});
    let answer = post_json(gateway.address, "/v1/completions", &body).await;
    assert_eq!(
        (answer.status, answer.header("connection")),
        (502, Some("close"))
    );
}
