//! Reads the engines' own metrics: what runs and waits inside, how full the KV cache is.
//!
//! A pod whose metrics cannot be read is routed to all the same, by what the gateway counts itself; and a figure is not
//! believed for longer than a few polls, since an old one misleads more than none.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::client::Client;
use super::settings::EngineKind;
use super::{Fleet, Pod, rounds};

/// What an engine said last. `None`: it does not say.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct EngineStats {
    pub(super) engine: Option<EngineKind>,
    pub(super) running: Option<f64>,
    pub(super) waiting: Option<f64>,
    /// 0 to 1.
    pub(super) kv_usage: Option<f64>,
    pub(super) block_size: Option<u64>,
    pub(super) blocks: Option<u64>,
    /// Output tokens a second, by the gateway's own count.
    pub(super) output_rate: Option<f64>,
}

const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Polls that may fail before the last figures are dropped.
const STALE_AFTER: u32 = 5;

/// Polls all pods until told to end.
pub async fn run(fleet: &Arc<Fleet>, end: watch::Receiver<bool>) {
    let client = Client::default();
    rounds::run(
        fleet,
        end,
        || (),
        |pod| {
            let (fleet, client) = (fleet, &client);
            Box::pin(async move {
                let pause = poll(fleet, client, &pod).await;
                (pod, pause)
            })
        },
    )
    .await;
}

/// Gives the pause until the next poll.
async fn poll(fleet: &Fleet, client: &Client, pod: &Arc<Pod>) -> Duration {
    let settings = fleet.settings().clone();
    let interval = settings.metrics_poll;
    let rate = pod
        .output_rate
        .lock()
        .tick(pod.output_tokens(), Instant::now());
    let Some(path) = pod.spec().metrics.clone() else {
        pod.learned(EngineStats::default(), rate);
        return interval;
    };
    let limit = interval.clamp(Duration::from_secs(1), Duration::from_secs(5));
    let asked = client
        .get(pod, &path, settings.engine_key.as_deref(), limit)
        .await;
    let reason = match asked {
        Ok((200, page)) => {
            pod.learned(parse(&String::from_utf8_lossy(&page)), rate);
            if pod.metrics_failures.lock().succeeded() {
                log::info!("pod {}: its metrics are read again", pod.name());
            }
            return interval;
        }
        Ok((status, _)) => format!("status {status}"),
        Err(error) => error.to_string(),
    };
    let failures = pod.metrics_failures.lock().failed();
    if failures == 1 {
        log::warn!(
            "pod {}: its metrics cannot be read ({path}: {reason}); routing goes by the gateway's own counts",
            pod.name()
        );
    }
    let stale = failures >= STALE_AFTER;
    let kept = pod.stats.load().as_deref().cloned().filter(|_| !stale);
    pod.learned(kept.unwrap_or_default(), rate);
    let backed_off =
        Duration::from_secs(1) * 2_u32.saturating_pow(failures.min(6).saturating_sub(1));
    backed_off.clamp(interval, LONGEST_PAUSE.max(interval))
}

/// Failures in a row.
#[derive(Debug, Default)]
pub(super) struct Failures(u32);

impl Failures {
    fn failed(&mut self) -> u32 {
        self.0 = self.0.saturating_add(1);
        self.0
    }

    /// `true` when there were any.
    fn succeeded(&mut self) -> bool {
        std::mem::take(&mut self.0) > 0
    }
}

impl Pod {
    fn learned(&self, stats: EngineStats, output_rate: Option<f64>) {
        self.stats.store(Some(Arc::new(EngineStats {
            output_rate,
            ..stats
        })));
    }
}

#[derive(Clone, Copy)]
enum Figure {
    Running,
    Waiting,
    KvUsage,
}

/// Names of the engines' metrics, by engine.
const NAMES: &[(&str, EngineKind, Figure)] = &[
    (
        "vllm:num_requests_running",
        EngineKind::Vllm,
        Figure::Running,
    ),
    (
        "vllm:num_requests_waiting",
        EngineKind::Vllm,
        Figure::Waiting,
    ),
    (
        "vllm:kv_cache_usage_perc",
        EngineKind::Vllm,
        Figure::KvUsage,
    ),
    (
        "vllm:gpu_cache_usage_perc",
        EngineKind::Vllm,
        Figure::KvUsage,
    ),
    (
        "sglang:num_running_reqs",
        EngineKind::Sglang,
        Figure::Running,
    ),
    ("sglang:num_queue_reqs", EngineKind::Sglang, Figure::Waiting),
    ("sglang:token_usage", EngineKind::Sglang, Figure::KvUsage),
    (
        "trtllm_kv_cache_utilization",
        EngineKind::Trtllm,
        Figure::KvUsage,
    ),
    ("kv_cache_utilization", EngineKind::Xllm, Figure::KvUsage),
    (
        "llamacpp:requests_processing",
        EngineKind::Llamacpp,
        Figure::Running,
    ),
    (
        "llamacpp:requests_deferred",
        EngineKind::Llamacpp,
        Figure::Waiting,
    ),
    (
        "llamacpp:kv_cache_usage_ratio",
        EngineKind::Llamacpp,
        Figure::KvUsage,
    ),
];

/// Reads a page in the Prometheus text format. Several series of a figure (models, data-parallel ranks) are one pod's
/// load: counts are added, of cache usages the fullest counts. What is not a finite number is passed over.
fn parse(page: &str) -> EngineStats {
    let mut stats = EngineStats::default();
    for line in page.lines() {
        let Some((name, labels, value)) = split(line) else {
            continue;
        };
        if name == "vllm:cache_config_info" || name == "sglang:cache_config_info" {
            stats.block_size = label(labels, "block_size").or(stats.block_size);
            stats.blocks = label(labels, "num_gpu_blocks").or(stats.blocks);
        }
        let Some((_, engine, figure)) = NAMES.iter().find(|(known, ..)| *known == name) else {
            continue;
        };
        if !value.is_finite() {
            continue;
        }
        stats.engine = Some(*engine);
        match figure {
            Figure::Running => stats.running = Some(stats.running.unwrap_or(0.0) + value.max(0.0)),
            Figure::Waiting => stats.waiting = Some(stats.waiting.unwrap_or(0.0) + value.max(0.0)),
            Figure::KvUsage => {
                let usage = value.clamp(0.0, 1.0);
                stats.kv_usage = Some(stats.kv_usage.map_or(usage, |known| known.max(usage)));
            }
        }
    }
    stats
}

/// Name, labels and value of a sample line.
fn split(line: &str) -> Option<(&str, &str, f64)> {
    let line = line.trim();
    if line.starts_with('#') {
        return None;
    }
    let (series, rest) = match line.rfind('}') {
        Some(end) => line.split_at(end + 1),
        None => line.split_at(line.find(' ')?),
    };
    let value = rest.split_ascii_whitespace().next()?.parse().ok()?;
    let (name, labels) = series.split_once('{').unwrap_or((series, ""));
    Some((name.trim(), labels, value))
}

fn label(labels: &str, name: &str) -> Option<u64> {
    labels.trim_end_matches('}').split(',').find_map(|pair| {
        let (key, value) = pair.split_once('=')?;
        (key.trim() == name).then(|| value.trim().trim_matches('"').parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vllm_page_is_read() {
        let stats = parse(
            "# HELP vllm:num_requests_running x\n\
             vllm:num_requests_running{engine=\"0\",model_name=\"a\"} 3.0\n\
             vllm:num_requests_running{engine=\"1\",model_name=\"a\"} 2\n\
             vllm:num_requests_waiting{engine=\"0\",model_name=\"a b\"} 1 1700000000\n\
             vllm:kv_cache_usage_perc{engine=\"0\"} 0.25\n\
             vllm:kv_cache_usage_perc{engine=\"1\"} 1.5\n\
             vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"1000\",x=\"None\"} 1.0\n",
        );
        assert_eq!(
            stats,
            EngineStats {
                engine: Some(EngineKind::Vllm),
                running: Some(5.0),
                waiting: Some(1.0),
                kv_usage: Some(1.0),
                block_size: Some(16),
                blocks: Some(1000),
                output_rate: None,
            }
        );
    }

    #[test]
    fn what_is_no_number_says_nothing() {
        for page in [
            "",
            "vllm:kv_cache_usage_perc NaN",
            "vllm:kv_cache_usage_perc",
            "{}{}{",
            "a{b=\"}\"} x",
            "\u{0}",
        ] {
            assert_eq!(parse(page).kv_usage, None, "{page}");
        }
    }

    #[test]
    fn each_engine_is_told_by_its_names() {
        for (page, engine, figures) in [
            (
                "sglang:num_running_reqs{x=\"y\"} 4\nsglang:token_usage 0.5",
                EngineKind::Sglang,
                (Some(4.0), Some(0.5)),
            ),
            (
                "llamacpp:requests_processing 2",
                EngineKind::Llamacpp,
                (Some(2.0), None),
            ),
            (
                "trtllm_kv_cache_utilization 0.1",
                EngineKind::Trtllm,
                (None, Some(0.1)),
            ),
        ] {
            let stats = parse(page);
            assert_eq!(
                (stats.engine, (stats.running, stats.kv_usage)),
                (Some(engine), figures)
            );
        }
    }
}
