//! Reads the engines' own metrics: what runs and waits inside, how full the KV cache is.
//!
//! A pod whose metrics cannot be read is routed to all the same, by what the gateway counts itself; and a figure is not
//! believed for longer than a few polls, since an old one misleads more than none.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::client::Client;
use super::engine_history::{Counter, Counters, Recent};
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
    /// Of the cache in the host's memory, 0 to 1.
    pub(super) cpu_cache_usage: Option<f64>,
    /// Of the engine as a whole, 0 to 1.
    pub(super) utilization: Option<f64>,
    /// Share of the time in which it had work.
    pub(super) busy: Option<f64>,
    pub(super) counters: Counters,
    pub(super) recent: Recent,
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
    fn learned(&self, mut stats: EngineStats, output_rate: Option<f64>) {
        let now = Instant::now();
        let mut counters = stats.counters;
        counters.add(Counter::OwnWeighted, self.weighted_tokens() as f64);
        stats.recent = self.history.lock().tick(counters, now);
        let worked = self.busy.tick(self.in_flight() > 0, now);
        stats.busy = stats.busy.or(worked);
        stats.output_rate = output_rate;
        self.stats.store(Some(Arc::new(stats)));
        self.renew_detail();
    }
}

#[derive(Clone, Copy)]
enum Figure {
    Running,
    Waiting,
    KvUsage,
    CpuCacheUsage,
    Utilization,
    Busy,
    Sum(Counter),
}

/// Names of the engines' metrics, by engine. Where an engine has had several names for one, all are here.
#[rustfmt::skip]
const NAMES: &[(&str, EngineKind, Figure)] = {
    use Counter::*;
    use EngineKind::{Llamacpp, Sglang, Trtllm, Vllm, Xllm};
    use Figure::*;
    &[
        ("vllm:num_requests_running", Vllm, Running),
        ("vllm:num_requests_waiting", Vllm, Waiting),
        ("vllm:kv_cache_usage_perc", Vllm, KvUsage),
        ("vllm:gpu_cache_usage_perc", Vllm, KvUsage),
        ("vllm:cpu_cache_usage_perc", Vllm, CpuCacheUsage),
        ("vllm:request_queue_time_seconds_sum", Vllm, Sum(QueueSeconds)),
        ("vllm:request_queue_time_seconds_count", Vllm, Sum(Queued)),
        ("vllm:request_prefill_time_seconds_sum", Vllm, Sum(PrefillSeconds)),
        ("vllm:request_decode_time_seconds_sum", Vllm, Sum(DecodeSeconds)),
        ("vllm:time_to_first_token_seconds_sum", Vllm, Sum(FirstTokenSeconds)),
        ("vllm:time_per_output_token_seconds_sum", Vllm, Sum(TokenSeconds)),
        ("vllm:time_per_output_token_seconds_count", Vllm, Sum(Tokens)),
        ("vllm:inter_token_latency_seconds_sum", Vllm, Sum(TokenSeconds)),
        ("vllm:inter_token_latency_seconds_count", Vllm, Sum(Tokens)),
        ("vllm:request_generation_tokens_sum", Vllm, Sum(OutputTokens)),
        ("vllm:request_generation_tokens_count", Vllm, Sum(Outputs)),
        ("vllm:prompt_tokens_total", Vllm, Sum(PromptTokens)),
        ("vllm:generation_tokens_total", Vllm, Sum(GeneratedTokens)),
        ("sglang:num_running_reqs", Sglang, Running),
        ("sglang:num_queue_reqs", Sglang, Waiting),
        ("sglang:token_usage", Sglang, KvUsage),
        ("sglang:queue_time_seconds_sum", Sglang, Sum(QueueSeconds)),
        ("sglang:queue_time_seconds_count", Sglang, Sum(Queued)),
        ("sglang:time_to_first_token_seconds_sum", Sglang, Sum(FirstTokenSeconds)),
        ("sglang:time_per_output_token_seconds_sum", Sglang, Sum(TokenSeconds)),
        ("sglang:time_per_output_token_seconds_count", Sglang, Sum(Tokens)),
        ("sglang:inter_token_latency_seconds_sum", Sglang, Sum(TokenSeconds)),
        ("sglang:inter_token_latency_seconds_count", Sglang, Sum(Tokens)),
        ("sglang:prompt_tokens_total", Sglang, Sum(PromptTokens)),
        ("sglang:generation_tokens_total", Sglang, Sum(GeneratedTokens)),
        ("trtllm_kv_cache_utilization", Trtllm, KvUsage),
        ("trtllm_request_queue_time_seconds_sum", Trtllm, Sum(QueueSeconds)),
        ("trtllm_request_queue_time_seconds_count", Trtllm, Sum(Queued)),
        ("trtllm_time_to_first_token_seconds_sum", Trtllm, Sum(FirstTokenSeconds)),
        ("trtllm_time_per_output_token_seconds_sum", Trtllm, Sum(TokenSeconds)),
        ("trtllm_time_per_output_token_seconds_count", Trtllm, Sum(Tokens)),
        ("kv_cache_utilization", Xllm, KvUsage),
        ("engine_utilization", Xllm, Utilization),
        ("llamacpp:requests_processing", Llamacpp, Running),
        ("llamacpp:requests_deferred", Llamacpp, Waiting),
        ("llamacpp:kv_cache_usage_ratio", Llamacpp, KvUsage),
        ("llamacpp:prompt_seconds_total", Llamacpp, Sum(PrefillSeconds)),
        ("llamacpp:prompt_tokens_total", Llamacpp, Sum(PromptTokens)),
        ("llamacpp:tokens_predicted_seconds_total", Llamacpp, Sum(DecodeSeconds)),
        ("llamacpp:tokens_predicted_total", Llamacpp, Sum(GeneratedTokens)),
    ]
};

/// What the reference reads, whichever engine should come to export it.
const BUSY: &str = "gpu_busy_time_ratio";

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
        let figure = if name == BUSY {
            &Figure::Busy
        } else if let Some((_, engine, figure)) = NAMES.iter().find(|(known, ..)| *known == name) {
            if value.is_finite() {
                stats.engine = Some(*engine);
            }
            figure
        } else {
            continue;
        };
        if !value.is_finite() {
            continue;
        }
        match figure {
            Figure::Running => stats.running = Some(stats.running.unwrap_or(0.0) + value.max(0.0)),
            Figure::Waiting => stats.waiting = Some(stats.waiting.unwrap_or(0.0) + value.max(0.0)),
            Figure::KvUsage => fullest(&mut stats.kv_usage, value),
            Figure::CpuCacheUsage => fullest(&mut stats.cpu_cache_usage, value),
            Figure::Utilization => fullest(&mut stats.utilization, value),
            Figure::Busy => fullest(&mut stats.busy, value),
            Figure::Sum(counter) => stats.counters.add(*counter, value),
        }
    }
    stats
}

fn fullest(known: &mut Option<f64>, share: f64) {
    let share = share.clamp(0.0, 1.0);
    *known = Some(known.map_or(share, |known| known.max(share)));
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
                ..EngineStats::default()
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
