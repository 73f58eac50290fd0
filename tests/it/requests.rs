//! Shapes of requests.

use serde_json::json;

use crate::support::client::post_json;
use crate::support::engines;
use crate::support::gateway::Gateway;

#[tokio::test]
async fn a_chat_is_carried_to_an_engine_and_back() {
    let engines = engines(2, &["m-a"]).await;
    let gateway = Gateway::start(&engines.pods()).await;
    let body = json!({"model": "m-a", "messages": [{"role": "user", "content": "hi"}]});
    let answer = post_json(gateway.address, "/v1/chat/completions", &body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let seen = engines.all_requests();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].body, body.to_string().as_bytes());
}
