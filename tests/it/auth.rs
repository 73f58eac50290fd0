//! Client keys, the engine's key, and a browser's preflight.

use crate::support::client::{self, Answer};
use crate::support::gateway::Gateway;
use crate::support::{Engines, engines, eventually};

const CHAT: &str = "/v1/chat/completions";
const BODY: &[u8] = br#"{"model":"m-a","messages":[{"role":"user","content":"HUSHHUSH"}]}"#;
const KEY: (&str, &str) = ("authorization", "Bearer sk-client-0001");

async fn start(engines: &Engines, auth: &str) -> Gateway {
    Gateway::start(&format!(
        "log: {{level: debug}}\nauth: {auth}\n{}",
        engines.pods()
    ))
    .await
}

async fn send(gateway: &Gateway, method: &str, target: &str, headers: &[(&str, &str)]) -> Answer {
    let body = if method == "POST" { BODY } else { b"" };
    let answer = client::request(gateway.address, method, target, headers, body).await;
    answer.unwrap_or_else(|error| panic!("{error} for {method} {target}"))
}

#[tokio::test]
async fn nothing_but_health_is_open_without_a_key() {
    let engines = engines(1, &["m-a"]).await;
    let gateway = start(&engines, "{client_keys: [sk-client-0001, sk-client-0002]}").await;
    for target in [
        CHAT,
        "//v1/chat/completions",
        "/%76%31/chat/completions",
        "/x/../v1/chat/completions",
        "/V1/chat/completions",
        "/v1/chat/completions;a",
        "/v1/chat/completions/",
        "/v1/chat/completions?health=/health",
        "/invocations",
        "/inference/v1/generate",
        "/v2/rerank",
        "/tokenize",
        "/health",
        "/health/../v1/chat/completions",
    ] {
        let answer = send(&gateway, "POST", target, &[]).await;
        assert_eq!(answer.status, 401, "{target}: {}", answer.text());
        assert_eq!(answer.error_code(), "invalid_api_key");
        assert!(answer.header("www-authenticate").is_some());
    }
    for target in ["/v1/models", "/v1/models/m-a", "/", "/metrics", "/health/"] {
        assert_eq!(
            send(&gateway, "GET", target, &[]).await.status,
            401,
            "{target}"
        );
    }
    for header in [
        ("authorization", "Bearer sk-wrong-0003"),
        ("authorization", "sk-client-0001"),
        ("authorization", "Basic sk-client-0001"),
        ("authorization", "Bearer sk-client-000"),
        ("authorization", "Bearer "),
        ("x-api-key", "sk-client-00011"),
        ("api-key", "sk-client-0001"),
    ] {
        assert_eq!(
            send(&gateway, "POST", CHAT, &[header]).await.status,
            401,
            "{header:?}"
        );
    }
    // No preflight: nobody asks for a browser.
    assert_eq!(send(&gateway, "OPTIONS", CHAT, &[]).await.status, 401);
    assert!(engines.all_requests().is_empty());
    assert_eq!(send(&gateway, "GET", "/health", &[]).await.status, 200);
}

#[tokio::test]
async fn engines_see_their_own_key_and_no_client_s() {
    for (engine_key, expected) in [("none", None), ("ek-0002", Some("Bearer ek-0002"))] {
        let engines = engines(1, &["m-a"]).await;
        let gateway = start(
            &engines,
            &format!("{{client_keys: [sk-client-0001], engine_key: {engine_key}}}"),
        )
        .await;
        for headers in [
            &[KEY][..],
            &[("x-api-key", "sk-client-0001")],
            &[KEY, ("x-api-key", "sk-client-0001")],
            &[("authorization", "Bearer sk-wrong-0003"), KEY],
            &[
                ("x-api-key", "sk-client-0001"),
                ("authorization", "Basic c2stY2xpZW50LTAwMDE="),
            ],
        ] {
            engines.0[0].clear_requests();
            let answer = send(&gateway, "POST", CHAT, headers).await;
            assert_eq!(answer.status, 200, "{headers:?}: {}", answer.text());
            let seen = engines.all_requests().pop().expect("a request");
            assert_eq!(
                seen.header_values("authorization"),
                expected.into_iter().collect::<Vec<_>>()
            );
            assert!(
                !format!("{:?}", seen.headers).contains("sk-"),
                "{:?}",
                seen.headers
            );
        }
        let wrong = send(&gateway, "POST", CHAT, &[("x-api-key", "sk-wrong-0003")]).await;
        assert_eq!(wrong.status, 401);
        let access_log = eventually("it is in the access log", || async {
            let log = gateway.access_log();
            log.contains("status=401").then_some(log)
        })
        .await;
        let said = [
            wrong.text(),
            gateway.error_log(),
            access_log,
            gateway.metrics().await,
        ]
        .concat();
        for secret in ["sk-client-0001", "ek-0002", "HUSHHUSH", "sk-wrong-0003"] {
            assert!(!said.contains(secret), "{secret}");
        }
    }
}

#[tokio::test]
async fn without_client_keys_credentials_are_the_engines_affair() {
    let engines = engines(1, &["m-a"]).await;
    let gateway = Gateway::start(&engines.pods()).await;
    let answer = send(&gateway, "POST", CHAT, &[KEY, ("x-api-key", "theirs")]).await;
    assert_eq!(answer.status, 200);
    let seen = engines.all_requests().pop().expect("a request");
    assert_eq!(seen.header_values("authorization"), [KEY.1]);
    assert_eq!(seen.header_values("x-api-key"), ["theirs"]);
}

#[tokio::test]
async fn a_preflight_needs_no_key_and_counts_as_no_load() {
    let preflight = [
        ("origin", "http://app.example"),
        ("access-control-request-method", "POST"),
        (
            "access-control-request-headers",
            "authorization,content-type",
        ),
    ];
    for auth in ["{client_keys: [sk-client-0001], engine_key: ek-0002}", "{}"] {
        let engines = engines(2, &["m-a"]).await;
        let gateway = start(&engines, auth).await;
        let answer = send(&gateway, "OPTIONS", CHAT, &preflight).await;
        assert!(
            matches!(answer.status, 200 | 204),
            "{}: {}",
            answer.status,
            answer.text()
        );
        assert!(answer.header("access-control-allow-origin").is_some());
        let seen = engines.all_requests().pop().expect("a request");
        assert_eq!(
            (seen.method.as_str(), seen.target.as_str(), seen.body_length),
            ("OPTIONS", CHAT, 0)
        );
        gateway.until_idle().await;
        let status = if auth == "{}" { 200 } else { 401 };
        assert_eq!(
            send(&gateway, "POST", CHAT, &preflight[..1]).await.status,
            status
        );
    }
}

#[tokio::test]
async fn a_preflight_for_pods_that_differ_is_not_refused_for_its_model() {
    let mut all = engines(1, &["m-a"]).await;
    all.0.extend(engines(1, &["m-b"]).await.0);
    let gateway = start(&all, "{client_keys: [sk-client-0001]}").await;
    let preflight = [
        ("origin", "http://app.example"),
        ("access-control-request-method", "POST"),
    ];
    let answer = send(&gateway, "OPTIONS", CHAT, &preflight).await;
    assert!(
        matches!(answer.status, 200 | 204 | 405),
        "{}: {}",
        answer.status,
        answer.text()
    );
}
