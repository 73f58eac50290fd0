//! Looks at the gateway while the traffic runs: its memory, its own count of open requests, its index.

use std::time::Duration;

use anyhow::{Context, Result};

use super::client::page;
use super::drive::Drive;
use super::target::Running;

/// What was seen at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample {
    pub(crate) at: Duration,
    pub(crate) rss_mib: Option<f64>,
    /// The most the process ever held.
    pub(crate) rss_peak_mib: Option<f64>,
    pub(crate) in_flight: Option<f64>,
    /// Requests under way as the clients count.
    pub(crate) client_open: u64,
    pub(crate) index_blocks: Option<f64>,
    pub(crate) index_evictions: Option<f64>,
}

pub(crate) const INTERVAL: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_secs(30);

/// One look. A gateway that has ended, or whose metrics cannot be read, is an error.
pub(crate) async fn look(target: &mut Running, drive: &Drive) -> Result<Sample> {
    let mut sample = Sample {
        at: drive.start().elapsed(),
        client_open: drive.open(),
        ..Sample::default()
    };
    if let Some(gateway) = &mut target.gateway {
        gateway.check_alive()?;
        let status = std::fs::read_to_string(format!("/proc/{}/status", gateway.pid()));
        // Other systems have no such file.
        if let Ok(status) = status {
            sample.rss_mib = mib(&status, "VmRSS:");
            sample.rss_peak_mib = mib(&status, "VmHWM:");
        }
    }
    if let Some(admin) = &target.admin {
        let (status, text) = tokio::time::timeout(PATIENCE, page::get(admin, "/metrics"))
            .await
            .with_context(|| format!("the gateway's metrics do not come within {PATIENCE:?}"))?
            .context("the gateway's metrics cannot be read")?;
        if status == 200 {
            sample.in_flight = sum(&text, "warmgate_pod_in_flight_requests");
            sample.index_blocks = sum(&text, "warmgate_index_blocks");
            sample.index_evictions = sum(&text, "warmgate_index_evictions_total");
        }
    }
    Ok(sample)
}

fn mib(status: &str, name: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib / 1024.0)
}

/// All series of a family together; `None` if there is none.
fn sum(text: &str, family: &str) -> Option<f64> {
    let values = text.lines().filter_map(|line| {
        let rest = line.strip_prefix(family)?;
        if !rest.starts_with(['{', ' ']) {
            return None;
        }
        rest.rsplit(' ').next()?.parse::<f64>().ok()
    });
    values.fold(None, |sum, value| Some(sum.unwrap_or(0.0) + value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_summed_and_no_other() {
        let text = "# TYPE a gauge\na{pod=\"x y\"} 2\na{pod=\"z\"} 3\na_total 7\nb 1\n";
        assert_eq!(sum(text, "a"), Some(5.0));
        assert_eq!(sum(text, "b"), Some(1.0));
        assert_eq!(sum(text, "c"), None);
    }

    #[test]
    fn memory_is_read_out_of_a_process_status() {
        let status = "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1536 kB\n";
        assert_eq!(mib(status, "VmRSS:"), Some(1.5));
        assert_eq!(mib(status, "VmSwap:"), None);
    }
}
