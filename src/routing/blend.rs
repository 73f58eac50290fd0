//! From a strategy string to what is run: a [`Plan`].
//!
//! A plan of one strategy leaves the pick to it. A plan of several normalises each one's scores to
//! 0..1, adds them by weight and takes the highest total; equal totals go to the fewest running
//! requests, then to chance.
//!
//! The auto-blend mixes load into what was asked for: `prefix-cache` becomes
//! `prefix-cache:5,load-balance:4`, other lists get `load-balance` and, where nothing in them keeps
//! requests with their cache, `least-request` appended. Unlike in the reference a weight of 0 for
//! load-balance switches it off wherever it is set.

mod list;
mod normalise;

use std::cmp::Ordering;
use std::sync::Arc;

use super::memory::Memory;
use super::rng::Rng;
use super::settings::{AutoBlend, LoadBalance, RoutingSettings};
use super::strategy::{
    Blending, Candidates, Definition, Kind, Pick, Reason, Strategy, fairest, fill_scores,
};
use super::{Choice, Overrides, Request};

use self::list::List;
pub use self::list::StrategyError;

/// Totals closer than this are equal.
const TIE: f64 = 1e-9;

const LOAD_BALANCE: &str = "load-balance";
const LEAST_REQUEST: &str = "least-request";

/// A strategy string made ready to route with.
pub struct Plan {
    requested: String,
    run: String,
    parts: Vec<Part>,
    load_balance: LoadBalance,
}

struct Part {
    definition: &'static Definition,
    /// Of the weights' sum.
    share: f64,
    strategy: Box<dyn Strategy>,
}

/// Working memory of a pick.
#[derive(Debug, Default)]
pub(super) struct Workspace {
    scores: Vec<f64>,
    totals: Vec<f64>,
    buffer: Vec<i64>,
}

/// What one strategy of a plan thinks of each candidate.
#[derive(Clone, Debug, PartialEq)]
pub struct PartScores {
    pub strategy: &'static str,
    pub share: f64,
    pub scores: Vec<f64>,
    pub normalised: Vec<f64>,
}

impl Plan {
    pub(super) fn new(
        requested: &str,
        table: &'static [Definition],
        settings: &RoutingSettings,
        overrides: &Overrides,
        memory: &Arc<Memory>,
    ) -> Result<Self, StrategyError> {
        let requested = requested.trim();
        let settings = &overrides.applied_to(settings);
        let list = List::parse(requested, table)?;
        let blended = auto_blend(requested, &list, &settings.auto_blend)
            .and_then(|run| Some((List::parse(&run, table).ok()?, run)));
        let (list, run) = blended.unwrap_or_else(|| (list, requested.to_owned()));
        let sum: u64 = list.items.iter().map(|item| item.weight).sum();
        let part = |item: &list::Item| Part {
            definition: item.definition,
            share: item.weight as f64 / sum as f64,
            strategy: (item.definition.build)(settings, memory),
        };
        Ok(Self {
            requested: requested.to_owned(),
            parts: list.items.iter().map(part).collect(),
            run,
            load_balance: settings.load_balance,
        })
    }

    /// The string that was asked for: what headers, logs and metrics show.
    pub fn requested(&self) -> &str {
        &self.requested
    }

    /// The string that is run, with what the auto-blend added.
    pub fn run(&self) -> &str {
        &self.run
    }

    /// Whether the prompt's blocks have to be hashed and recorded.
    pub fn needs_prefix(&self) -> bool {
        self.parts.iter().any(|part| part.definition.needs_prefix)
    }

    /// Whether the candidates must come with their details.
    pub fn needs_detail(&self) -> bool {
        self.parts.iter().any(|part| part.definition.needs_detail)
    }

    /// Running requests with which a pod is no candidate. When all have them, the request is to wait.
    pub fn most_requests(&self) -> Option<u32> {
        match self.parts.as_slice() {
            [only] if only.definition.kind == Kind::Exclusive => only.strategy.most_requests(),
            _ => None,
        }
    }

    pub(super) fn sent(&self, request: &Request<'_>, choice: &Choice) {
        for part in &self.parts {
            part.strategy.sent(request, choice);
        }
    }

    /// Whether it goes by sessions, so that clients should be told which pod is theirs.
    pub fn keeps_sessions(&self) -> bool {
        self.parts
            .iter()
            .any(|part| part.definition.name == "session-affinity")
    }

    /// Whether `prefix-cache` makes its own selection, with no load blended in.
    pub fn is_standalone_prefix_cache(&self) -> bool {
        matches!(self.parts.as_slice(), [only] if only.definition.name == "prefix-cache")
    }

    /// How the gate judges.
    pub(super) fn load_balance(&self) -> &LoadBalance {
        &self.load_balance
    }

    /// Whether the load-imbalance gate narrows the candidates first.
    pub(super) fn is_gated(&self) -> bool {
        match self.parts.as_slice() {
            [only] => {
                only.definition.kind != Kind::Exclusive
                    && only.definition.blending != Blending::Complete
            }
            _ => true,
        }
    }

    pub(super) fn pick(
        &self,
        request: &Request<'_>,
        candidates: Candidates<'_>,
        workspace: &mut Workspace,
        rng: &mut Rng,
    ) -> Pick {
        if let [only] = self.parts.as_slice() {
            return only
                .strategy
                .pick(request, candidates, &mut workspace.scores, rng);
        }
        let rows = candidates.rows();
        let Workspace {
            scores,
            totals,
            buffer,
        } = workspace;
        totals.clear();
        totals.resize(rows.len(), 0.0);
        for part in &self.parts {
            fill_scores(&*part.strategy, request, candidates, scores);
            normalise::add(scores, part.strategy.polarity(), part.share, totals, buffer);
        }
        let highest = totals.iter().copied().fold(0.0, f64::max);
        let best = (0..rows.len()).filter(|&row| totals[row] >= highest - TIE);
        let row = fairest(candidates, best, |_, _| Ordering::Equal, rng).unwrap_or_default();
        let held = self.needs_prefix() && rows[row].matched_blocks > 0;
        Pick {
            row,
            reason: if held {
                Reason::PrefixMatch
            } else {
                Reason::BestScore
            },
        }
    }

    pub(super) fn scores(
        &self,
        request: &Request<'_>,
        candidates: Candidates<'_>,
    ) -> Vec<PartScores> {
        let scores_of = |part: &Part| {
            let mut scores = Vec::new();
            fill_scores(&*part.strategy, request, candidates, &mut scores);
            PartScores {
                strategy: part.definition.name,
                share: part.share,
                normalised: normalise::each(&scores, part.strategy.polarity()),
                scores,
            }
        };
        self.parts.iter().map(scores_of).collect()
    }
}

/// The string to run in place of the requested one, if that is to be another.
fn auto_blend(requested: &str, list: &List, weights: &AutoBlend) -> Option<String> {
    if weights.load_balance_weight == 0 {
        return None;
    }
    let definitions = || list.items.iter().map(|item| item.definition);
    if definitions().any(|definition| definition.kind != Kind::Scorer) {
        return None;
    }
    let mut run = requested.to_owned();
    let mentions_load = list.mentions(LOAD_BALANCE);
    match list.only().map(|item| item.definition.blending) {
        Some(Blending::Pin | Blending::Alone | Blending::Complete) => return None,
        Some(Blending::Prefix) if !mentions_load => {
            let own = list.items[0].definition.name;
            let AutoBlend {
                prefix_cache_weight: prefix,
                prefix_cache_load_balance_weight: load,
                ..
            } = weights;
            return Some(format!("{own}:{prefix},{LOAD_BALANCE}:{load}"));
        }
        _ if !mentions_load => {
            run += &format!(",{LOAD_BALANCE}:{}", weights.load_balance_weight);
        }
        _ => {}
    }
    let keeps_requests =
        definitions().any(|one| matches!(one.blending, Blending::Prefix | Blending::Pin));
    if !keeps_requests && weights.least_request_weight > 0 && !list.mentions(LEAST_REQUEST) {
        run += &format!(",{LEAST_REQUEST}:{}", weights.least_request_weight);
    }
    (run != requested).then_some(run)
}

#[cfg(test)]
mod tests;
