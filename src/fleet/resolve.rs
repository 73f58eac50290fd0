//! Turns the names of pods into addresses, again and again, never while a request waits.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::{Fleet, Pod, rounds};

const AGAIN_AFTER: Duration = Duration::from_secs(10);
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// Resolves until told to end. `all_asked`: each pod of the start was looked up once.
pub async fn run(fleet: &Arc<Fleet>, end: watch::Receiver<bool>, all_asked: impl FnOnce()) {
    rounds::run(fleet, end, all_asked, |pod| {
        Box::pin(async move {
            let pause = resolve(fleet, &pod).await;
            (pod, pause)
        })
    })
    .await;
}

async fn resolve(fleet: &Fleet, pod: &Pod) -> Duration {
    let url = pod.spec().url.clone();
    if url.literal_address().is_some() {
        return AGAIN_AFTER;
    }
    let found = match tokio::net::lookup_host((url.host.as_str(), url.port)).await {
        Ok(addresses) => addresses.collect(),
        Err(error) => {
            if pod.address_now().is_none() && pod.unresolved_told() {
                log::warn!(
                    "pod {}: {} cannot be resolved: {error}; it is tried again",
                    pod.name(),
                    url.host
                );
            }
            return AFTER_FAILURE;
        }
    };
    let found: Vec<_> = found;
    let now = pod.address_now();
    // The address in use stays as long as the name still leads to it.
    if now.is_some_and(|now| found.contains(&now)) {
        return AGAIN_AFTER;
    }
    let Some(&address) = found.first() else {
        return AFTER_FAILURE;
    };
    log::info!("pod {}: {} is at {address}", pod.name(), url.host);
    pod.resolved(address, fleet.settings().connect_timeout);
    fleet.refresh();
    AGAIN_AFTER
}
