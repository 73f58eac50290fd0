//! What a strategy is, the table of all of them, and the fair tie-break they share.
//!
//! A strategy is a pure function over a non-empty table of routable candidates. A pick changes nothing: what must
//! outlive one is in the candidates, in the request, or for a few in [`Memory`], which only [`Strategy::sent`] writes to.
//! A new strategy is one file with a [`Definition`], its `mod` line and its line in [`ALL`]; parsing, error messages and
//! blending go by the table.

mod consistent_hash;
mod least_busy_time;
mod least_gpu_cache;
mod least_kv_cache;
mod least_latency;
mod least_request;
mod least_utilization;
mod least_work;
mod lmetric;
mod load_balance;
mod power_of_two;
mod prefix_cache;
mod prefix_cache_preble;
mod random;
mod round_robin;
mod session_affinity;
mod slo;
mod slo_least_load;
mod slo_least_load_pulling;
mod slo_pack_load;
mod throughput;
mod vtc_basic;

use std::cmp::Ordering;
use std::sync::Arc;

use super::Request;
use super::choice::Choice;
use super::memory::Memory;
use super::pod::{Load, PodDetail, PodSlot};
use super::rng::Rng;
use super::settings::RoutingSettings;

pub const ALL: &[Definition] = &[
    random::DEFINITION,
    least_request::DEFINITION,
    load_balance::DEFINITION,
    prefix_cache::DEFINITION,
    prefix_cache_preble::DEFINITION,
    least_busy_time::DEFINITION,
    least_gpu_cache::DEFINITION,
    least_kv_cache::DEFINITION,
    least_latency::DEFINITION,
    least_utilization::DEFINITION,
    throughput::DEFINITION,
    power_of_two::DEFINITION,
    round_robin::DEFINITION,
    consistent_hash::DEFINITION,
    session_affinity::DEFINITION,
    vtc_basic::DEFINITION,
    slo::DEFINITION,
    slo_pack_load::DEFINITION,
    slo_least_load::DEFINITION,
    slo_least_load_pulling::DEFINITION,
    least_work::DEFINITION,
    lmetric::DEFINITION,
];

pub trait Strategy: Send + Sync {
    fn polarity(&self) -> Polarity {
        Polarity::Least
    }

    /// One score a row. Rows left at NaN, or given an infinite score, are unscored.
    fn score(&self, request: &Request<'_>, candidates: Candidates<'_>, scores: &mut [f64]);

    /// The row this strategy takes when it routes alone: the best score, equal ones to the fewest
    /// running requests, then by chance; anyone if nobody is scored.
    fn pick(
        &self,
        request: &Request<'_>,
        candidates: Candidates<'_>,
        scores: &mut Vec<f64>,
        rng: &mut Rng,
    ) -> Pick {
        fill_scores(self, request, candidates, scores);
        let scored = |row: &usize| scores[*row].is_finite();
        let better = |left: usize, right: usize| self.polarity().order(scores[left], scores[right]);
        let rows = (0..candidates.rows().len()).filter(scored);
        match fairest(candidates, rows, better, rng) {
            Some(row) => Pick::new(row, Reason::BestScore),
            None => anyone(candidates, rng),
        }
    }

    /// Running requests with which a pod gets no more from this strategy; asked of exclusive ones only.
    fn most_requests(&self) -> Option<u32> {
        None
    }

    /// The request is sent to the chosen pod.
    fn sent(&self, _: &Request<'_>, _: &Choice) {}
}

/// How a strategy is found, listed and combined.
pub struct Definition {
    pub name: &'static str,
    pub kind: Kind,
    pub blending: Blending,
    /// Matches are looked up only for strategies that say so.
    pub needs_prefix: bool,
    /// As are the pods' details.
    pub needs_detail: bool,
    pub build: fn(&RoutingSettings, &Arc<Memory>) -> Box<dyn Strategy>,
}

/// Where a strategy may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Alone or in a weighted list.
    Scorer,
    /// Only alone.
    Chooser,
    /// Takes over the list it is in, and goes round the load-imbalance gate.
    Exclusive,
}

/// What the auto-blend adds to a list that holds the strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blending {
    /// `load-balance` and `least-request`.
    Load,
    /// `load-balance` only, with weights of its own when it is alone.
    Prefix,
    /// `load-balance` only, and nothing when it is alone.
    Pin,
    /// As `Load`, but nothing when it is alone.
    Alone,
    /// As `Alone`; and alone it goes round the load-imbalance gate, since it weighs load against the prompt itself.
    Complete,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Polarity {
    Most,
    Least,
}

impl Polarity {
    /// `Less` when the left score is the better one.
    fn order(self, left: f64, right: f64) -> Ordering {
        // Zeros of both signs are one score.
        let (left, right) = (left + 0.0, right + 0.0);
        match self {
            Self::Most => right.total_cmp(&left),
            Self::Least => left.total_cmp(&right),
        }
    }
}

/// One routable pod with what this request needs to know of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    pub slot: PodSlot,
    pub load: Load,
    /// Leading blocks of the prompt that the pod holds.
    pub matched_blocks: u32,
    pub detail: Option<Arc<PodDetail>>,
}

impl Candidate {
    /// A figure of the detail; NaN when there is none.
    fn figure(&self, of: impl Fn(&PodDetail) -> Option<f64>) -> f64 {
        self.detail.as_deref().and_then(of).unwrap_or(f64::NAN)
    }
}

/// The table a strategy chooses from; never empty.
#[derive(Clone, Copy, Debug)]
pub struct Candidates<'a>(&'a [Candidate]);

impl<'a> Candidates<'a> {
    pub(super) fn new(rows: &'a [Candidate]) -> Option<Self> {
        (!rows.is_empty()).then_some(Self(rows))
    }

    pub fn rows(self) -> &'a [Candidate] {
        self.0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pick {
    pub row: usize,
    pub reason: Reason,
}

impl Pick {
    fn new(row: usize, reason: Reason) -> Self {
        Self { row, reason }
    }
}

/// Why a pod was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// There was no other.
    OnlyCandidate,
    /// A prefix strategy took a pod that holds a part of the prompt.
    PrefixMatch,
    /// No pod that holds a part of the prompt was acceptable: fewest running requests.
    LeastRequestFallback,
    /// The session, user or prompt has this pod.
    Session,
    /// The best score, or best weighted sum of scores.
    BestScore,
    /// By chance, on purpose or because nobody could be scored.
    Random,
}

impl Reason {
    pub const ALL: [Self; 6] = [
        Self::OnlyCandidate,
        Self::PrefixMatch,
        Self::LeastRequestFallback,
        Self::Session,
        Self::BestScore,
        Self::Random,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::OnlyCandidate => "only_candidate",
            Self::PrefixMatch => "prefix_match",
            Self::LeastRequestFallback => "least_request_fallback",
            Self::Session => "session",
            Self::BestScore => "best_score",
            Self::Random => "random",
        }
    }
}

pub(super) fn fill_scores(
    strategy: &(impl Strategy + ?Sized),
    request: &Request<'_>,
    candidates: Candidates<'_>,
    scores: &mut Vec<f64>,
) {
    scores.clear();
    scores.resize(candidates.rows().len(), f64::NAN);
    strategy.score(request, candidates, scores);
}

/// The best of some rows: by the given order, then the fewest running requests, then the one that was chosen longest
/// ago, then by chance.
///
/// Never by the place in the list: sequential cold traffic over idle pods has to spread, and evenly. The longest ago, not
/// the fewest times: a pod that is new gets its share, not everything until it has caught up.
pub(super) fn fairest(
    candidates: Candidates<'_>,
    rows: impl Iterator<Item = usize>,
    better: impl Fn(usize, usize) -> Ordering,
    rng: &mut Rng,
) -> Option<usize> {
    let running = |row: usize| candidates.rows()[row].load.in_flight;
    let last_pick = |row: usize| candidates.rows()[row].load.last_pick;
    let mut best = None;
    let mut equals = 0;
    for row in rows {
        let order = best.map_or(Ordering::Less, |best| {
            better(row, best)
                .then(running(row).cmp(&running(best)))
                .then(last_pick(row).cmp(&last_pick(best)))
        });
        if order == Ordering::Less {
            best = Some(row);
            equals = 1;
        } else if order == Ordering::Equal {
            // Each of n equals ends up chosen with a chance of 1/n.
            equals += 1;
            if rng.below(equals) == 0 {
                best = Some(row);
            }
        }
    }
    best
}

/// When nothing else speaks for a pod.
fn fewest_requests(candidates: Candidates<'_>, rng: &mut Rng) -> Pick {
    let all_equal = |_, _| Ordering::Equal;
    match fairest(candidates, 0..candidates.rows().len(), all_equal, rng) {
        Some(row) => Pick::new(row, Reason::LeastRequestFallback),
        None => anyone(candidates, rng),
    }
}

fn anyone(candidates: Candidates<'_>, rng: &mut Rng) -> Pick {
    Pick::new(rng.below(candidates.rows().len()), Reason::Random)
}

#[cfg(test)]
pub(super) mod tests;
