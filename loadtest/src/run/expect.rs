//! Limits of a scenario, and whether a run kept them.

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};

use super::scenario::target::Target;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Expect {
    pub(crate) max_errors: u64,
    pub(crate) min_requests: Option<u64>,
    pub(crate) min_hit_rate: Option<f64>,
    /// The most memory the gateway may ever hold.
    pub(crate) max_rss_mib: Option<f64>,
    /// How much its mean may grow from the first third of the measured time to the last.
    pub(crate) rss_growth_max_mib: Option<f64>,
    /// The gateway's own count of open requests.
    pub(crate) peak_in_flight_min: Option<f64>,
    pub(crate) peak_in_flight_max: Option<f64>,
    pub(crate) in_flight_end: Option<f64>,
}

/// What was measured of all that can be limited; `None`: it could not be.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Measured {
    pub(crate) errors: u64,
    pub(crate) requests: u64,
    pub(crate) hit_rate: Option<f64>,
    pub(crate) rss_max_mib: Option<f64>,
    pub(crate) rss_growth_mib: Option<f64>,
    pub(crate) in_flight_peak: Option<f64>,
    pub(crate) in_flight_end: Option<f64>,
}

/// One limit and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Verdict {
    pub(crate) limit: String,
    pub(crate) measured: Option<f64>,
    pub(crate) kept: bool,
}

impl Expect {
    pub(super) fn check(&self, target: &Target) -> Result<()> {
        let memory = self.max_rss_mib.or(self.rss_growth_max_mib);
        if let (Some(_), Target::Running(_)) = (memory, target) {
            bail!(
                "expect: the memory of a gateway at a url cannot be measured; leave out max_rss_mib and rss_growth_max_mib, or have it started by target.gateway"
            );
        }
        let gauge = [
            self.peak_in_flight_min,
            self.peak_in_flight_max,
            self.in_flight_end,
        ];
        if let Target::Running(running) = target
            && running.admin.is_none()
            && gauge.iter().any(Option::is_some)
        {
            bail!("expect: the requests in flight are read from target.admin, which is missing");
        }
        Ok(())
    }

    /// Every limit with what was measured. What could not be measured is not kept.
    pub(crate) fn judge(&self, measured: &Measured) -> Vec<Verdict> {
        let at_most = |name: &str, limit: Option<f64>, value: Option<f64>| {
            limit.map(|limit| Verdict {
                limit: format!("{name} at most {limit}"),
                measured: value,
                kept: value.is_some_and(|value| value <= limit),
            })
        };
        let at_least = |name: &str, limit: Option<f64>, value: Option<f64>| {
            limit.map(|limit| Verdict {
                limit: format!("{name} at least {limit}"),
                measured: value,
                kept: value.is_some_and(|value| value >= limit),
            })
        };
        let peak = measured.in_flight_peak;
        [
            at_most(
                "errors",
                Some(self.max_errors as f64),
                Some(measured.errors as f64),
            ),
            // A run that measured nothing proves nothing.
            at_least(
                "requests",
                Some(self.min_requests.unwrap_or(1) as f64),
                Some(measured.requests as f64),
            ),
            at_least("hit rate", self.min_hit_rate, measured.hit_rate),
            at_most("gateway RSS (MiB)", self.max_rss_mib, measured.rss_max_mib),
            at_most(
                "growth of gateway RSS (MiB)",
                self.rss_growth_max_mib,
                measured.rss_growth_mib,
            ),
            at_least("peak in flight", self.peak_in_flight_min, peak),
            at_most("peak in flight", self.peak_in_flight_max, peak),
            at_most(
                "in flight at the end",
                self.in_flight_end,
                measured.in_flight_end,
            ),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_kept_at_their_bounds_and_broken_beyond_or_unmeasured() {
        let expect = Expect {
            max_rss_mib: Some(600.0),
            peak_in_flight_min: Some(10.0),
            in_flight_end: Some(0.0),
            ..Expect::default()
        };
        let measured = Measured {
            requests: 1,
            rss_max_mib: Some(600.0),
            in_flight_peak: Some(9.0),
            ..Measured::default()
        };
        let verdicts = expect.judge(&measured);
        let broken: Vec<&str> = verdicts
            .iter()
            .filter(|verdict| !verdict.kept)
            .map(|verdict| verdict.limit.as_str())
            .collect();
        assert_eq!(
            broken,
            [
                "peak in flight at least 10",
                "in flight at the end at most 0"
            ]
        );
    }
}
