//! Asks pods which models they serve, where the configuration does not say.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Deserialize;
use tokio::time::Instant;

use super::client::Client;
use super::{Fleet, Pod};

const AGAIN_AFTER: Duration = Duration::from_secs(30);

/// When a pod was last asked with success, and whether its silence was told.
#[derive(Debug, Default)]
pub(super) struct Asked(Mutex<(Option<Instant>, bool)>);

impl Asked {
    fn is_due(&self) -> bool {
        self.0.lock().0.is_none_or(|at| at.elapsed() >= AGAIN_AFTER)
    }

    fn succeeded(&self) {
        *self.0.lock() = (Some(Instant::now()), false);
    }

    /// `true` for the first failure in a row.
    fn failed(&self) -> bool {
        !std::mem::replace(&mut self.0.lock().1, true)
    }
}

#[derive(Deserialize)]
struct List {
    data: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    id: String,
}

/// Asks a pod that is new, has come back, or was asked a while ago. One that gives no list keeps its last one.
pub(super) async fn ask_if_due(fleet: &Fleet, client: &Client, pod: &Arc<Pod>, came_back: bool) {
    if pod.spec().models.is_some() || !(came_back || pod.asked.is_due()) {
        return;
    }
    let settings = fleet.settings().clone();
    let asked = client
        .get(
            pod,
            "/v1/models",
            settings.engine_key.as_deref(),
            settings.health.timeout,
        )
        .await;
    let listed = match asked {
        Ok((200, body)) => parse(&body),
        Ok((status, _)) => Err(format!("status {status}")),
        Err(error) => Err(error.to_string()),
    };
    match listed {
        Ok(models) => {
            pod.asked.succeeded();
            if pod.told_models(models.clone()) {
                log::info!("pod {} serves {}", pod.name(), models.join(", "));
                fleet.refresh();
            }
        }
        Err(reason) if pod.asked.failed() => {
            log::warn!(
                "pod {} does not tell its models (GET /v1/models: {reason}); it is asked again",
                pod.name()
            );
        }
        Err(_) => {}
    }
}

fn parse(body: &[u8]) -> Result<Vec<String>, String> {
    let list: List =
        serde_json::from_slice(body).map_err(|error| format!("not a model list: {error}"))?;
    let mut names: Vec<String> = Vec::new();
    for entry in list.data {
        if !names.contains(&entry.id) {
            names.push(entry.id);
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_in_order_and_each_name_once() {
        let body = br#"{"object":"list","data":[{"id":"b","x":1},{"id":"a"},{"id":"b"}]}"#;
        assert_eq!(parse(body).unwrap(), ["b", "a"]);
        assert!(parse(b"{}").is_err());
        assert!(parse(b"<html>").is_err());
    }
}
