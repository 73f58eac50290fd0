//! A limit on requests a second that lets short bursts through and needs no clock tick and no lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Spaces requests out: each takes an equal part of a second, and one may come early by as much as a second's worth
/// of requests. So a second never sees more than twice the rate, and in the long run never more than the rate.
#[derive(Debug)]
pub(super) struct Pace {
    started: Instant,
    /// When the requests so far are worked off, in nanoseconds since `started`.
    due: AtomicU64,
}

const SECOND: u64 = 1_000_000_000;

impl Pace {
    pub(super) fn new(started: Instant) -> Self {
        Self {
            started,
            due: AtomicU64::new(0),
        }
    }

    /// Takes a request in at a rate above 0; the error says how long it should have waited.
    pub(super) fn take(&self, per_second: f64, now: Instant) -> Result<(), Duration> {
        let now = nanoseconds(now.saturating_duration_since(self.started));
        // A cast never overflows: it keeps to the range.
        let part = (SECOND as f64 / per_second) as u64;
        let early = SECOND.saturating_sub(part);
        let mut wait = 0;
        let taken = self
            .due
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |due| {
                wait = due.saturating_sub(now.saturating_add(early));
                (wait == 0).then_some(due.max(now).saturating_add(part))
            });
        match taken {
            Ok(_) => Ok(()),
            Err(_) => Err(Duration::from_nanos(wait)),
        }
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asks every step, so many times; gives how many were taken.
    fn taken(pace: &Pace, rate: f64, from: Instant, step: Duration, times: u32) -> usize {
        (0..times)
            .filter(|number| pace.take(rate, from + step * *number).is_ok())
            .count()
    }

    #[test]
    fn in_the_long_run_the_rate_is_kept() {
        for (rate, seconds, most) in [
            (1.0, 20, 21),
            (7.0, 20, 147),
            (0.5, 20, 10),
            (250.0, 4, 1250),
        ] {
            let start = Instant::now();
            let pace = Pace::new(start);
            let count = taken(&pace, rate, start, Duration::from_millis(1), seconds * 1000);
            let least = (rate * f64::from(seconds)) as usize;
            assert!((least..=most).contains(&count), "{rate}: {count}");
        }
    }

    #[test]
    fn a_burst_is_a_second_s_worth_and_then_waits() {
        let start = Instant::now();
        let pace = Pace::new(start);
        assert_eq!(taken(&pace, 5.0, start, Duration::ZERO, 20), 5);
        assert_eq!(pace.take(5.0, start), Err(Duration::from_millis(200)));
        assert_eq!(pace.take(5.0, start + Duration::from_millis(200)), Ok(()));
        let later = start + Duration::from_secs(3600);
        assert_eq!(taken(&pace, 5.0, later, Duration::ZERO, 20), 5);
    }

    #[test]
    fn a_rate_below_one_lets_the_first_through_and_then_waits_for_long() {
        let start = Instant::now();
        let pace = Pace::new(start);
        assert_eq!(pace.take(0.1, start), Ok(()));
        assert_eq!(pace.take(0.1, start), Err(Duration::from_secs(10)));
        assert_eq!(
            pace.take(f64::MIN_POSITIVE, start + Duration::from_secs(10)),
            Ok(())
        );
        assert!(
            pace.take(1e9, start + Duration::from_secs(1 << 30))
                .is_err()
        );
    }

    #[test]
    fn a_rate_that_changes_counts_from_then_on() {
        let start = Instant::now();
        let pace = Pace::new(start);
        assert_eq!(taken(&pace, 2.0, start, Duration::ZERO, 9), 2);
        assert_eq!(taken(&pace, 1000.0, start, Duration::ZERO, 9), 0);
        let later = start + Duration::from_millis(100);
        assert_eq!(taken(&pace, 1000.0, later, Duration::ZERO, 9999), 100);
    }
}
