//! `slo`: the pod with the fewest running requests among those that can take one more within their latency goal; while
//! there is none, the request waits for its turn.
//!
//! The goal is given as the requests that a pod can run at once and still keep it, `routing.slo.pod_requests`: what a
//! profile of the pod says when its requests a second are multiplied by their time. Without it nothing waits and the fewest
//! requests win, as in the reference without profiles. The four names differ in whom they take and whether they wait:
//!
//! | name | takes | waits |
//! | --- | --- | --- |
//! | `slo`, `slo-least-load-pulling` | the least loaded | yes |
//! | `slo-least-load` | the least loaded | no |
//! | `slo-pack-load` | the most loaded that can take one more | yes |
//!
//! In the reference profiles are per deployment, GPU and size of request, in Redis, and those wait longest that have used
//! the least of their goal. Here requests for a model are served in the order in which they came.

use super::*;
#[cfg(test)]
use crate::routing::settings::Slo as Settings;

pub(super) const DEFINITION: Definition = exclusive("slo", |settings, _| {
    Box::new(Slo {
        pod_requests: settings.slo.pod_requests,
    })
});

pub(super) const fn exclusive(
    name: &'static str,
    build: fn(&RoutingSettings, &Arc<Memory>) -> Box<dyn Strategy>,
) -> Definition {
    Definition {
        name,
        kind: Kind::Exclusive,
        blending: Blending::Load,
        needs_prefix: false,
        needs_detail: false,
        build,
    }
}

/// The least loaded, up to so many requests.
pub(super) struct Slo {
    pub(super) pod_requests: Option<u32>,
}

impl Strategy for Slo {
    fn most_requests(&self) -> Option<u32> {
        self.pod_requests
    }

    fn score(&self, _: &Request<'_>, candidates: Candidates<'_>, scores: &mut [f64]) {
        running(candidates, scores);
    }
}

/// Load in requests: pods of a model have one profile, so it orders them as their utilisation does.
pub(super) fn running(candidates: Candidates<'_>, scores: &mut [f64]) {
    for (score, row) in scores.iter_mut().zip(candidates.rows()) {
        *score = f64::from(row.load.in_flight);
    }
}

#[cfg(test)]
pub(super) fn goal(pod_requests: u32) -> RoutingSettings {
    RoutingSettings {
        slo: Settings {
            pod_requests: Some(pod_requests),
            ..Settings::default()
        },
        ..RoutingSettings::default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;

    #[test]
    fn takes_the_least_loaded_and_says_when_a_pod_is_full() {
        let table = rows(&[3, 1, 2], &[]);
        for name in ["slo", "slo-least-load-pulling"] {
            assert_eq!(alone(name, &table), [1]);
            assert_eq!(build(&goal(4), name).most_requests(), Some(4));
            assert_eq!(
                build(&RoutingSettings::default(), name).most_requests(),
                None
            );
        }
    }
}
