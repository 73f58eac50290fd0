//! How long a pod's running requests have been running, added up.
//!
//! Kept as their number and the sum of the moments they began at, both in one word: a reader that saw one of them
//! without the other would be wrong by the age of the process. The sum is in the upper bits, where it may wrap, since only
//! its difference to now counts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Lower bits: a million requests on one pod.
const COUNT_BITS: u32 = 20;

#[derive(Debug, Default)]
pub struct RunningTime(AtomicU64);

impl RunningTime {
    /// A request begins at `at`, counted from any moment that stays the same.
    pub fn begin(&self, at: Duration) {
        self.0.fetch_add(word(at), Ordering::AcqRel);
    }

    /// The request that began at `at` has ended.
    pub fn end(&self, at: Duration) {
        self.0.fetch_sub(word(at), Ordering::AcqRel);
    }

    pub fn seconds(&self, now: Duration) -> f64 {
        let word = self.0.load(Ordering::Acquire);
        let count = word & ((1 << COUNT_BITS) - 1);
        let all_since_start = count.wrapping_mul(millis(now)) << COUNT_BITS;
        let millis = all_since_start.wrapping_sub(word & !((1 << COUNT_BITS) - 1));
        // One that began after `now` was read would make it negative: a huge number of this width.
        let millis = (millis as i64) >> COUNT_BITS;
        millis.max(0) as f64 / 1e3
    }
}

fn word(at: Duration) -> u64 {
    (millis(at) << COUNT_BITS) | 1
}

fn millis(at: Duration) -> u64 {
    at.as_millis() as u64
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::super::Pod;
    use super::super::settings::{PodSpec, PodUrl, Role};
    use super::*;
    use crate::routing::PodSlot;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn adds_up_the_times_of_those_that_run() {
        let running = RunningTime::default();
        assert_eq!(running.seconds(seconds(9)), 0.0);
        running.begin(seconds(10));
        running.begin(seconds(12));
        assert_eq!(running.seconds(seconds(15)), 8.0);
        running.end(seconds(10));
        assert_eq!(running.seconds(seconds(15)), 3.0);
        running.end(seconds(12));
        assert_eq!(running.seconds(seconds(99)), 0.0);
    }

    #[test]
    fn a_long_life_and_many_requests_do_not_overflow_it() {
        let running = RunningTime::default();
        // Ten years: the sum of the moments has wrapped more than once.
        let at = seconds(10 * 365 * 86_400);
        for _ in 0..200_000 {
            running.begin(at);
        }
        assert_eq!(running.seconds(at + seconds(3)), 600_000.0);
    }

    #[test]
    fn a_clock_read_before_the_begin_gives_nothing() {
        let running = RunningTime::default();
        running.begin(seconds(20));
        assert_eq!(running.seconds(seconds(19)), 0.0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_counts_a_request_from_its_choice_to_its_end() {
        let spec = PodSpec {
            url: PodUrl {
                tls: None,
                host: "127.0.0.1".to_owned(),
                port: 8000,
                base_path: String::new(),
                http2: false,
            },
            name: "pod".to_owned(),
            models: None,
            role: Role::Mixed,
            engine: None,
            labels: BTreeMap::new(),
            metrics: None,
            kv_events: None,
        };
        let pod = Arc::new(Pod::new(PodSlot(0), spec, None));
        tokio::time::advance(seconds(100)).await;
        let mut first = pod.admit(1, 10, None).unwrap();
        tokio::time::advance(seconds(2)).await;
        let second = pod.admit(2, 10, None).unwrap();
        tokio::time::advance(seconds(3)).await;
        first.answer_began(true);
        assert_eq!(pod.load().running_seconds, 8.0);
        drop(first);
        assert_eq!(pod.load().running_seconds, 3.0);
        drop(second);
        assert_eq!(pod.load().running_seconds, 0.0);
    }
}
