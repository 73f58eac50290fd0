//! `least-work`: the pod where the request costs the least time, its own and that of the others.
//!
//! ```text
//! wait + own * (1 + 2 * held up + 3 * rate * (wait + own / 2)) + decodes
//!
//! wait     prompt tokens that wait there / prefill speed
//! own      those of this request that it has not cached / prefill speed
//! held up  its running requests, each by its time so far against the mean of all
//! rate     requests a second that come to a pod
//! decodes  what answers in one batch take from each other
//! ```
//!
//! A prompt is read at the expense of the answers that run there, and of the requests that come before the pod has
//! caught up. So the request goes where its first token is near, unless others would pay more for that than it gains: long
//! cold prompts to pods where little runs, and a warm pod is worth the more the longer the prompt.
//!
//! All of it is the gateway's own knowledge, in one unit, so there are no weights to set. An answer that has run for long
//! is likely to run on and is delayed the most often: weighed by its time so far it is spared. What was seen of running
//! requests is on average half of their stay, hence the 2; and their number over that stay is the rate at which they
//! come (Little's law), so no rate is kept. Alone it goes round the load-imbalance gate, which would throw a warm pod away
//! by counting requests. Not in the reference.

use super::*;

pub(super) const DEFINITION: Definition = Definition {
    name: "least-work",
    kind: Kind::Scorer,
    blending: Blending::Complete,
    needs_prefix: true,
    needs_detail: false,
    build: |_, _| Box::new(LeastWork),
};

/// A running request's whole stay, in times so far.
const STAY: f64 = 2.0;

/// How much longer than its wait a pod has a queue: while it catches up more requests come, so it takes 1 / (1 - share of
/// time with prompts to read) as long. That of a pod two thirds busy.
const CATCHING_UP: f64 = 3.0;

/// What two answers in one batch cost each other, as prompt tokens. Each token that one decodes is the arithmetic of a
/// prompt's token and its memory traffic, in a step of the other; an answer has a few hundred.
const DECODE_TOKENS: f64 = 1000.0;

struct LeastWork;

impl Strategy for LeastWork {
    fn score(&self, request: &Request<'_>, candidates: Candidates<'_>, scores: &mut [f64]) {
        let usual = Usual::of(candidates.rows());
        for (score, row) in scores.iter_mut().zip(candidates.rows()) {
            let load = &row.load;
            let speed = usual.drawn_in(speed(load));
            let running = f64::from(load.in_flight);
            let held_up = match usual.seconds {
                Some(seconds) => seconds_of(load) / seconds,
                None => running,
            };
            let wait = load.pending_prefill as f64 / speed;
            let own = request.uncached_tokens(row.matched_blocks) as f64 / speed;
            let to_come = CATCHING_UP * usual.rate * (wait + own / 2.0);
            let decodes = DECODE_TOKENS * running / speed;
            *score = wait + own * (1.0 + STAY * held_up + to_come) + decodes;
        }
    }
}

/// The mean over the pods.
struct Usual {
    speed: f64,
    /// That running requests have been running for.
    seconds: Option<f64>,
    /// Requests a second to one pod.
    rate: f64,
}

impl Usual {
    /// A pod's speed halfway to the mean, by factors: what was learned is also how much ran there at the time, and that the
    /// score counts by itself.
    fn drawn_in(&self, speed: Option<f64>) -> f64 {
        speed.map_or(self.speed, |speed| speed.sqrt() * self.speed.sqrt())
    }

    fn of(rows: &[Candidate]) -> Self {
        let speeds = rows.iter().filter_map(|row| speed(&row.load));
        let (sum, pods) = speeds.fold((0.0, 0.0), |(sum, pods), speed| (sum + speed, pods + 1.0));
        let running: f64 = rows.iter().map(|row| f64::from(row.load.in_flight)).sum();
        let seconds: f64 = rows.iter().map(|row| seconds_of(&row.load)).sum();
        let seconds = (running > 0.0 && seconds > 0.0).then(|| seconds / running);
        Self {
            speed: if pods > 0.0 { sum / pods } else { 1.0 },
            seconds,
            rate: seconds.map_or(0.0, |seconds| running / rows.len() as f64 / seconds),
        }
    }
}

fn speed(load: &Load) -> Option<f64> {
    load.prefill_rate
        .filter(|rate| rate.is_finite() && *rate > 0.0)
}

fn seconds_of(load: &Load) -> f64 {
    let seconds = load.running_seconds;
    if seconds.is_finite() {
        seconds.max(0.0)
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;

    /// A pod that runs nothing and reads 1000 tokens a second.
    fn idle() -> Load {
        Load {
            prefill_rate: Some(1000.0),
            ..Load::default()
        }
    }

    fn running(in_flight: u32, running_seconds: f64) -> Load {
        Load {
            in_flight,
            running_seconds,
            ..idle()
        }
    }

    /// A request of 1000 tokens; of a pod its load and how much it has cached of the request, in tenths.
    fn check(pods: &[(Load, u32)], expected: &[f64]) {
        let mut table = rows(&vec![0; pods.len()], &[]);
        for (row, &(load, matched_blocks)) in table.iter_mut().zip(pods) {
            row.load = load;
            row.matched_blocks = matched_blocks;
        }
        let blocks = ten_blocks();
        let request = Request {
            blocks: &blocks,
            prompt_tokens: 1000,
            ..Request::default()
        };
        let found = scores_for(&RoutingSettings::default(), "least-work", &request, &table);
        assert_close(&found, expected);
    }

    #[test]
    fn is_the_time_to_the_first_token_where_nothing_runs() {
        let slow = Load {
            prefill_rate: Some(500.0),
            ..Load::default()
        };
        let waits = Load {
            pending_prefill: 3000,
            ..idle()
        };
        check(&[(idle(), 0), (idle(), 5)], &[1.0, 0.5]);
        let others_wait = Load {
            prefill_rate: slow.prefill_rate,
            ..waits
        };
        check(&[(slow, 0), (others_wait, 10)], &[2.0, 6.002]);
    }

    #[test]
    fn half_of_what_speeds_differ_by_counts() {
        let slow = Load {
            prefill_rate: Some(600.0),
            ..Load::default()
        };
        let fast = Load {
            prefill_rate: Some(5400.0),
            ..Load::default()
        };
        // The mean is 3000: 1342 and 4025 tokens a second, three times as many instead of nine.
        let slowest = 1000.0 / 1_800_000f64.sqrt();
        check(&[(slow, 0), (fast, 0)], &[slowest, slowest / 3.0]);
    }

    #[test]
    fn a_speed_that_nobody_knows_is_that_of_the_others() {
        let unknown = |prefill_rate| Load {
            prefill_rate,
            ..Load::default()
        };
        check(&[(idle(), 0), (unknown(None), 5)], &[1.0, 0.5]);
        let odd = [f64::NAN, f64::INFINITY, -1.0, 0.0];
        for rate in odd {
            check(&[(unknown(Some(rate)), 0), (idle(), 0)], &[1.0, 1.0]);
        }
        check(&[(unknown(None), 0), (unknown(None), 5)], &[1000.0, 500.0]);
    }

    #[test]
    fn what_runs_is_held_up_and_the_older_the_more() {
        // Four requests, 10 s on average: 0.2 a second to each pod, so 0.3 more in the second's first half.
        check(
            &[(running(1, 10.0), 0), (running(3, 30.0), 0)],
            &[1.0 + 2.0 + 0.3 + 1.0, 1.0 + 6.0 + 0.3 + 3.0],
        );
        check(
            &[(running(2, 30.0), 0), (running(2, 10.0), 0)],
            &[1.0 + 6.0 + 0.3 + 2.0, 1.0 + 2.0 + 0.3 + 2.0],
        );
        // Warm, the request holds up nobody.
        check(
            &[(running(1, 10.0), 0), (running(3, 30.0), 10)],
            &[4.3, 3.0 + 0.001 * 7.0],
        );
    }

    #[test]
    fn a_queue_holds_up_what_is_still_to_come() {
        let mut waits = running(1, 10.0);
        waits.prefilling = 1;
        waits.pending_prefill = 20_000;
        // 0.05 requests a second to each pod.
        check(
            &[(idle(), 0), (waits, 0)],
            &[1.0 + 0.075, 20.0 + 1.0 + 2.0 + 0.15 * 20.5 + 1.0],
        );
    }

    #[test]
    fn times_that_are_none_count_requests() {
        for seconds in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            check(
                &[(running(1, seconds), 0), (running(0, seconds), 0)],
                &[1.0 + 2.0 + 1.0, 1.0],
            );
        }
    }
}
