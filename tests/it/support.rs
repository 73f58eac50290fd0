//! Starts the real binary in front of simulated engines, and speaks to both.
//!
//! Nothing here sleeps to be safe: every wait is for a condition, with a deadline after which the test fails.

pub mod client;
pub mod gateway;

use std::future::Future;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use tokio::time::Instant;

/// Long enough for a loaded machine; nothing waits so long unless it has failed.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// An address that nobody listens on now.
pub fn free_address() -> SocketAddr {
    let probe = TcpListener::bind("127.0.0.1:0").expect("a free port");
    probe.local_addr().expect("its address")
}

/// Asks again until `check` gives a value.
pub async fn eventually<T, F>(what: &str, check: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    within(PATIENCE, what, check).await
}

pub async fn within<T, F>(patience: Duration, what: &str, mut check: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let end = Instant::now() + patience;
    loop {
        if let Some(value) = check().await {
            return value;
        }
        assert!(Instant::now() < end, "not within {patience:?}: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
