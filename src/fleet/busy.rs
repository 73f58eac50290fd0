//! In what share of the last seconds a pod had requests of ours.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

const TIME_CONSTANT: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(super) struct Busy(Mutex<Account>);

#[derive(Debug, Default)]
struct Account {
    since: Option<Instant>,
    /// Since the last tick.
    worked: Duration,
    ticked: Option<Instant>,
    share: Option<f64>,
}

impl Busy {
    /// The first request of an idle pod.
    pub(super) fn begin(&self, now: Instant) {
        self.0.lock().since.get_or_insert(now);
    }

    /// The last request has ended.
    pub(super) fn end(&self, now: Instant) {
        let mut account = self.0.lock();
        if let Some(since) = account.since.take() {
            account.worked += now.saturating_duration_since(since);
        }
    }

    /// The share, smoothed. `running`: whether there are requests now; begins and ends that met at the same instant may
    /// have been told in the wrong order.
    pub(super) fn tick(&self, running: bool, now: Instant) -> Option<f64> {
        let mut account = self.0.lock();
        if let Some(since) = account.since.take() {
            account.worked += now.saturating_duration_since(since);
        }
        account.since = running.then_some(now);
        let worked = std::mem::take(&mut account.worked).as_secs_f64();
        let passed = account.ticked.replace(now)?;
        let passed = now.saturating_duration_since(passed).as_secs_f64();
        if passed > 0.0 {
            let share = (worked / passed).min(1.0);
            let weight = 1.0 - (-passed / TIME_CONSTANT.as_secs_f64()).exp();
            account.share = Some(match account.share {
                Some(known) => known + weight * (share - known),
                None => share,
            });
        }
        account.share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_the_time_with_requests() {
        let (busy, start) = (Busy::default(), Instant::now());
        let at = |seconds: f64| start + Duration::from_secs_f64(seconds);
        assert_eq!(busy.tick(false, at(0.0)), None);
        busy.begin(at(0.5));
        busy.end(at(0.75));
        let share = busy.tick(false, at(1.0)).unwrap();
        assert!((share - 0.25).abs() < 1e-6, "{share}");
        // Told in the wrong order: the tick puts it right.
        busy.begin(at(1.0));
        busy.begin(at(1.1));
        busy.end(at(1.1));
        busy.tick(true, at(1.2));
        for second in 2..60 {
            busy.tick(true, at(f64::from(second)));
        }
        let share = busy.tick(true, at(60.0)).unwrap();
        assert!(share > 0.98, "{share}");
    }
}
