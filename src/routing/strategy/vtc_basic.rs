//! `vtc-basic`: fairness between users: who has had many tokens is sent further along the pods.
//!
//! ```text
//! fairness_weight * |place - user's tokens / step| + utilization_weight * running / max_pod_load + chance below 0.1
//! ```
//!
//! A user's tokens are those of the last minutes, an answer taken to be half as long again as its prompt and each kind
//! weighted; the step is half of what the lightest and the heaviest user have had together. Heavy users meet at the last
//! place and wait for each other, light ones do not wait for them. Requests without a user are not scored.
//!
//! In the reference places are those of a list shuffled for each request, so that no user has any. Here a user's places
//! are the pods in their order, begun at a pod that the user's name gives; running requests are the gateway's own count.

use super::*;
use crate::routing::memory::UserId;
use crate::routing::settings::Vtc;

pub(super) const DEFINITION: Definition = Definition {
    name: "vtc-basic",
    kind: Kind::Scorer,
    blending: Blending::Load,
    needs_prefix: false,
    needs_detail: false,
    build: |settings, memory| {
        Box::new(VtcBasic {
            settings: settings.vtc,
            memory: Arc::clone(memory),
        })
    },
};

struct VtcBasic {
    settings: Vtc,
    memory: Arc<Memory>,
}

const CHANCE: f64 = 0.1;

impl VtcBasic {
    fn window_ms(&self) -> u64 {
        u64::try_from(self.settings.window.as_millis()).unwrap_or(u64::MAX)
    }

    fn user(&self, request: &Request<'_>) -> Option<UserId> {
        let name = request.user.filter(|name| !name.is_empty())?;
        Some(self.memory.user_id(name))
    }

    /// The place of a user among so many pods.
    fn position(&self, user: UserId, now_ms: u64, pods: usize) -> f64 {
        let users = self.memory.users.lock();
        let tokens = users.tokens(user, now_ms, self.window_ms()) as f64;
        let range = users.range();
        drop(users);
        let Vtc {
            min_tokens,
            max_tokens,
            ..
        } = self.settings;
        let (least, most) = match range {
            Some((least, most)) => (least as f64, most as f64),
            None => (min_tokens, max_tokens),
        };
        let step = ((least + most) / 2.0).max(min_tokens);
        (tokens / step).min(pods as f64 - 1.0)
    }

    /// Weighted tokens that a request is expected to have.
    fn tokens(&self, request: &Request<'_>) -> u64 {
        let input = request.prompt_tokens as f64;
        let output = (input * 1.5).ceil();
        let Vtc {
            input_token_weight,
            output_token_weight,
            ..
        } = self.settings;
        (input * input_token_weight + output * output_token_weight) as u64
    }
}

impl Strategy for VtcBasic {
    fn score(&self, request: &Request<'_>, candidates: Candidates<'_>, scores: &mut [f64]) {
        let Some(user) = self.user(request) else {
            return;
        };
        let pods = scores.len();
        let position = self.position(user, request.now_ms, pods);
        let first = (user.0 % pods as u64) as usize;
        // Not the generator of the pick: a score is the same however often it is asked for.
        let mut chance = Rng::new(request.seed ^ user.0);
        for (row, (score, candidate)) in scores.iter_mut().zip(candidates.rows()).enumerate() {
            let place = ((row + pods - first) % pods) as f64;
            let used = f64::from(candidate.load.in_flight) / self.settings.max_pod_load;
            *score = self.settings.fairness_weight * (place - position).abs()
                + self.settings.utilization_weight * used.min(1.0)
                + CHANCE * chance.below(1 << 16) as f64 / f64::from(1 << 16);
        }
    }

    fn sent(&self, request: &Request<'_>, _: &Choice) {
        if let Some(user) = self.user(request) {
            let (tokens, window) = (self.tokens(request), self.window_ms());
            let mut users = self.memory.users.lock();
            users.add(user, tokens, request.now_ms, window);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;

    struct Case {
        memory: Arc<Memory>,
        strategy: Box<dyn Strategy>,
        rows: Vec<Candidate>,
    }

    impl Case {
        fn new(pods: usize) -> Self {
            let memory = Arc::new(Memory::new(1));
            let settings = RoutingSettings::default();
            Self {
                strategy: (DEFINITION.build)(&settings, &memory),
                memory,
                rows: rows(&vec![0; pods], &[]),
            }
        }

        /// Scores in the user's order of pods, without what chance adds.
        fn scores(&self, user: &str) -> Vec<f64> {
            let mut scores = Vec::new();
            let request = Request {
                user: Some(user),
                ..Request::default()
            };
            let candidates = Candidates::new(&self.rows).unwrap();
            fill_scores(&*self.strategy, &request, candidates, &mut scores);
            let first = self.memory.user_id(user).0 % scores.len() as u64;
            scores.rotate_left(first as usize);
            scores
        }

        fn send(&self, user: &str, prompt_tokens: u64) {
            let request = Request {
                user: Some(user),
                prompt_tokens,
                ..Request::default()
            };
            self.strategy.sent(&request, &choice(PodSlot(0)));
        }
    }

    fn check(found: &[f64], least: &[f64]) {
        let close = |(found, least): (&f64, &f64)| (*least..least + 0.1).contains(found);
        assert_eq!(found.len(), least.len());
        assert!(
            found.iter().zip(least).all(close),
            "{found:?}, not {least:?}"
        );
    }

    #[test]
    fn tokens_move_a_user_along_the_pods() {
        let case = Case::new(4);
        check(&case.scores("ann"), &[0.0, 1.0, 2.0, 3.0]);
        // 9 bytes are 3 tokens, 5 expected: 13 tracked.
        case.send("ann", Request::tokens_of(9));
        let ann = case.memory.user_id("ann");
        assert_eq!(case.memory.users.lock().tokens(ann, 0, 300_000), 13);
        check(&case.scores("ann"), &[0.013, 0.987, 1.987, 2.987]);
        case.send("ann", 1_000);
        // 4013 tokens, which alone are the step.
        check(&case.scores("ann"), &[1.0, 0.0, 1.0, 2.0]);
        case.send("ben", 100_000);
        // The step is (4013 + 400000) / 2.
        check(&case.scores("ben"), &[1.98, 0.98, 0.0198, 1.0198]);
    }

    #[test]
    fn running_requests_count_up_to_a_full_pod() {
        let mut case = Case::new(1);
        for (running, expected) in [(0, 0.0), (50, 0.5), (100, 1.0), (u32::MAX, 1.0)] {
            case.rows[0].load.in_flight = running;
            check(&case.scores("ann"), &[expected]);
        }
    }

    #[test]
    fn without_a_user_nobody_is_scored() {
        let case = Case::new(3);
        assert!(case.scores("").iter().all(|score| score.is_nan()));
        assert_eq!(alone("vtc-basic", &case.rows), [0, 1, 2]);
    }
}
