//! Requests that name the labels of the pods they may go to.

use serde_json::json;

use crate::support::client::{Answer, request};
use crate::support::engines;
use crate::support::gateway::Gateway;

async fn labelled(labels: [&str; 3]) -> (crate::support::Engines, Gateway, String) {
    let engines = engines(3, &["m-a"]).await;
    let pods = with_labels(&engines.pods(), labels);
    let gateway = Gateway::start(&pods).await;
    let plain = engines.pods();
    (engines, gateway, plain)
}

fn with_labels(pods: &str, labels: [&str; 3]) -> String {
    (1..)
        .zip(labels)
        .fold(pods.to_owned(), |pods, (n, labels)| {
            pods.replace(
                &format!("name: e{n}}}"),
                &format!("name: e{n}, labels: {labels}}}"),
            )
        })
}

async fn ask(gateway: &Gateway, filters: &[&str], prompt: usize) -> Answer {
    let mut headers = vec![("content-type", "application/json")];
    headers.extend(filters.iter().map(|filter| ("external-filter", *filter)));
    let prompt = format!("{prompt} ").repeat(200);
    let body = json!({"model": "m-a", "max_tokens": 1, "prompt": prompt}).to_string();
    request(
        gateway.address,
        "POST",
        "/v1/completions",
        &headers,
        body.as_bytes(),
    )
    .await
    .expect("an answer")
}

#[tokio::test]
async fn only_pods_with_the_labels_are_chosen_whatever_they_hold() {
    let (_engines, gateway, plain) =
        labelled(["{tier: gold}", "{tier: gold, canary: \"\"}", "{}"]).await;
    for number in 0..6 {
        let answer = ask(&gateway, &["tier=gold, !canary"], number).await;
        assert_eq!((answer.status, answer.pod()), (200, "e1"));
        // Its prompt is cached on e1, which it must not go to.
        let answer = ask(&gateway, &["!tier"], number).await;
        assert_eq!((answer.status, answer.pod()), (200, "e3"));
    }
    let both = ask(&gateway, &["tier in (gold)", "canary"], 7).await;
    assert_eq!(both.pod(), "e2");
    assert_eq!(ask(&gateway, &[" "], 7).await.status, 200);

    // Labels are as the last reload says.
    let moved = with_labels(&plain, ["{}", "{}", "{tier: gold}"]);
    assert_eq!(gateway.reload(&moved).await.status, 200);
    assert_eq!(ask(&gateway, &["tier=gold"], 8).await.pod(), "e3");
}

#[tokio::test]
async fn a_filter_that_no_pod_meets_and_one_that_is_none_are_told_apart() {
    let (engines, gateway, _) = labelled(["{}", "{}", "{}"]).await;
    let none = ask(&gateway, &["tier=gold"], 0).await;
    assert_eq!(
        (none.status, none.error_code()),
        (503, "service_unavailable".into())
    );
    assert_eq!(none.header("x-error-routing"), Some("true"));
    assert!(none.text().contains("`tier=gold`"), "{}", none.text());

    let wrong = ask(&gateway, &["tier in gold"], 0).await;
    assert_eq!(wrong.status, 400);
    assert_eq!(wrong.header("x-error-routing"), Some("true"));
    let message = wrong.json()["error"]["message"].to_string();
    assert!(message.contains("tier in gold"), "{message}");
    assert!(engines.all_requests().is_empty());
}
