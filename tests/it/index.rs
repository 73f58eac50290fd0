//! The prefix index under a flood: bounded, and the hot prefix stays.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::client::{Connection, head};
use crate::support::engines;
use crate::support::gateway::Gateway;

const LIMIT: f64 = 2_000.0;

/// A prompt of 4 KiB: 32 blocks that no other number shares.
fn prompt(number: usize) -> Value {
    let text = format!("{number:08} ").repeat(4096 / 9 + 1);
    json!({"model": "m-a", "max_tokens": 1, "prompt": text})
}

#[tokio::test]
async fn a_flood_of_unlike_prompts_fills_the_index_no_further_than_its_limit() {
    let engines = engines(2, &["m-a"]).await;
    let config = format!(
        "routing: {{prefix_cache: {{max_blocks: 2000}}}}\n{}",
        engines.pods()
    );
    let gateway = Gateway::start(&config).await;
    let mut connection = Connection::open(gateway.address).await.unwrap();
    let mut memory = Vec::new();
    for number in 0..1500 {
        // The hot prompt is refreshed more often than the flood fills the index.
        let hot = number % 25 == 0;
        let body = prompt(if hot { 0 } else { number }).to_string();
        connection
            .send(&head("POST", "/v1/completions", &[], Some(body.len())))
            .await
            .unwrap();
        connection.send(body.as_bytes()).await.unwrap();
        let asked = Instant::now();
        assert_eq!(connection.answer().await.unwrap().status, 200);
        assert!(asked.elapsed() < Duration::from_secs(5));
        if number % 100 == 0 {
            let blocks = gateway.metric("warmgate_index_blocks", &[]).await;
            assert!(blocks <= LIMIT, "{blocks}");
            memory.push(gateway.memory_kib());
        }
    }
    // Every time but the first the hot prompt was held as a whole, and nothing else ever was.
    let held = gateway
        .metric("aibrix_prefix_cache_routing_decisions_total", &["76-100"])
        .await;
    assert_eq!(held, 59.0);
    assert!(gateway.metric("warmgate_index_evictions_total", &[]).await > 40_000.0);
    let (middle, last) = (memory[memory.len() / 2], memory[memory.len() - 1]);
    assert!(last < middle + middle / 10, "{memory:?}");
}
