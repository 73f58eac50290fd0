//! Whether a pod is well: active checks of its health path, and connections of requests that fail.
//!
//! Failures in a row take a pod out, successes in a row bring it back; a single failed check changes nothing. Failed
//! connections of requests count as failures too, so a dead pod goes out as soon as requests have met it often enough,
//! before its next check. Only checks bring it back. Nothing here ever ends a request.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::client::Client;
use super::settings::HealthSettings;
use super::{Fleet, Pod, models, rounds};

/// A pod's record of checks.
#[derive(Debug)]
pub(super) struct Health {
    well: bool,
    failures: u32,
    successes: u32,
    last_failure: Option<Failure>,
    changed_at: Instant,
}

#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) at: Instant,
    pub(super) reason: String,
    /// No connection could be made: the pod cannot be reached at all.
    pub(super) unreachable: bool,
}

impl Default for Health {
    fn default() -> Self {
        Self {
            well: true,
            failures: 0,
            successes: 0,
            last_failure: None,
            changed_at: Instant::now(),
        }
    }
}

impl Health {
    /// Notes a success; `true` when it brings the pod back.
    fn succeeded(&mut self, settings: &HealthSettings, now: Instant) -> bool {
        self.failures = 0;
        self.successes = self.successes.saturating_add(1);
        if self.well || self.successes < settings.healthy_after {
            return false;
        }
        self.well = true;
        self.changed_at = now;
        self.last_failure = None;
        true
    }

    /// Notes a failure; `true` when it takes the pod out.
    fn failed(&mut self, failure: Failure, settings: &HealthSettings) -> bool {
        self.successes = 0;
        self.failures = self.failures.saturating_add(1);
        let now = failure.at;
        self.last_failure = Some(failure);
        if !self.well || self.failures < settings.unhealthy_after {
            return false;
        }
        self.well = false;
        self.changed_at = now;
        true
    }

    pub(super) fn last_failure(&self) -> Option<&Failure> {
        self.last_failure.as_ref()
    }
}

impl Pod {
    /// A request could not connect.
    pub fn connect_failed(&self, fleet: &Fleet, reason: &str) {
        let failure = Failure {
            at: Instant::now(),
            reason: reason.to_owned(),
            unreachable: true,
        };
        self.note_failure(fleet, failure);
    }

    /// A request could: failures before it were not in a row.
    pub fn connect_ok(&self) {
        let mut health = self.health.lock();
        if health.well {
            health.failures = 0;
        }
    }

    fn note_success(&self, fleet: &Fleet) -> bool {
        let settings = fleet.settings();
        let mut health = self.health.lock();
        let out_for = health.changed_at.elapsed();
        let back = health.succeeded(&settings.health, Instant::now());
        drop(health);
        if back {
            log::info!(
                "pod {} is well again after {:.1} s",
                self.name(),
                out_for.as_secs_f64()
            );
            self.set_well(true);
            fleet.refresh();
        }
        back
    }

    fn note_failure(&self, fleet: &Fleet, failure: Failure) {
        let settings = fleet.settings();
        let reason = failure.reason.clone();
        let out = self.health.lock().failed(failure, &settings.health);
        if out {
            log::warn!(
                "pod {} is taken out after {} failures in a row: {reason}",
                self.name(),
                settings.health.unhealthy_after
            );
            self.set_well(false);
            fleet.refresh();
        }
    }

    pub(super) fn failed_at(&self) -> Option<Instant> {
        self.health.lock().last_failure().map(|failure| failure.at)
    }

    /// Whether the floor may keep it although checks have failed.
    pub(super) fn may_be_kept(&self) -> bool {
        self.address_now().is_some()
            && !self
                .health
                .lock()
                .last_failure()
                .is_some_and(|failure| failure.unreachable)
    }
}

/// Checks all pods until told to end. `all_asked` is called when each pod of the start has been asked once.
pub async fn run(fleet: &Arc<Fleet>, end: watch::Receiver<bool>, all_asked: impl FnOnce()) {
    let client = Client::default();
    rounds::run(fleet, end, all_asked, |pod| {
        let (fleet, client) = (fleet, &client);
        Box::pin(async move {
            check(fleet, client, &pod).await;
            let pause = jittered(fleet.settings().health.interval, &pod);
            (pod, pause)
        })
    })
    .await;
}

async fn check(fleet: &Fleet, client: &Client, pod: &Arc<Pod>) {
    let settings = fleet.settings().clone();
    let health = &settings.health;
    let key = settings.engine_key.as_deref();
    let asked = client.get(pod, &health.path, key, health.timeout).await;
    let failure = match asked {
        Ok((status, _)) if (200..400).contains(&status) => None,
        Ok((status, _)) => Some((format!("{} answered {status}", health.path), false)),
        Err(error) => Some((format!("{}: {error}", health.path), error.is_connect())),
    };
    match failure {
        None => {
            let back = pod.note_success(fleet);
            models::ask_if_due(fleet, client, pod, back).await;
        }
        Some((reason, unreachable)) => pod.note_failure(
            fleet,
            Failure {
                at: Instant::now(),
                reason,
                unreachable,
            },
        ),
    }
}

/// Spreads the checks of many pods over the interval, the same way each time.
fn jittered(interval: Duration, pod: &Pod) -> Duration {
    let share = f64::from(pod.slot().0) * 0.618_034;
    interval.mul_f64(0.9 + 0.2 * share.fract())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(unhealthy_after: u32, healthy_after: u32) -> HealthSettings {
        HealthSettings {
            unhealthy_after,
            healthy_after,
            ..HealthSettings::default()
        }
    }

    /// Each letter is a check: `.` well, `x` failed. The result has a letter where the state changed: `-` out, `+` back.
    fn check(settings: &HealthSettings, checks: &str, expected: &str) {
        let mut health = Health::default();
        let now = Instant::now();
        let changes: String = checks
            .chars()
            .map(|check| match check {
                '.' if health.succeeded(settings, now) => '+',
                '.' => ' ',
                _ => {
                    let failure = Failure {
                        at: now,
                        reason: String::new(),
                        unreachable: false,
                    };
                    if health.failed(failure, settings) {
                        '-'
                    } else {
                        ' '
                    }
                }
            })
            .collect();
        assert_eq!(changes.trim_end(), expected, "{checks}");
    }

    #[test]
    fn only_failures_in_a_row_take_a_pod_out() {
        check(&settings(3, 1), "xx.xx.xx", "");
        check(&settings(3, 1), "xxx", "  -");
        check(&settings(1, 1), "x", "-");
    }

    #[test]
    fn a_change_is_told_once_and_successes_in_a_row_bring_it_back() {
        check(&settings(2, 1), "xxxxx.", " -   +");
        check(&settings(1, 3), "x..x...", "-     +");
    }
}
