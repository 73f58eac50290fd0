//! The outcome of routing, with all that logs and metrics show of it.

use super::Request;
use super::blend::{PartScores, Plan};
use super::pod::{Load, PodSlot};
use super::strategy::{Candidates, Pick, Reason};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    pub slot: PodSlot,
    pub reason: Reason,
    /// Leading blocks of the prompt that the chosen pod holds.
    pub matched_blocks: usize,
    /// Blocks of the prompt; 0 for a plan that looks at no prefix.
    pub total_blocks: usize,
    /// Tokens of the prompt that the chosen pod has to read, as far as the gateway can tell.
    pub uncached_tokens: u64,
    /// What came of the prefix match; `None` for a plan that looks at no prefix.
    pub selection: Option<Selection>,
    /// Pods that were to choose from, after the gate.
    pub candidates: usize,
    /// The load-imbalance gate narrowed the candidates.
    pub gate_fired: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    #[error("there is no pod to choose from")]
    NoPod,
    #[error("every pod has all the requests that its latency goal allows")]
    AllFull,
}

/// What came of the prefix match: the `selection` label of the reference. Counted in every mode;
/// the reference counts only while `prefix-cache` makes its own selection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Selection {
    /// The chosen pod holds a part of the prompt.
    PrefixMatch,
    /// Other candidates do, the chosen one does not.
    PrefixMatchSkipped,
    /// No candidate does.
    LeastRequestFallback,
}

/// Share of the prompt that the chosen pod holds: the `match_percent_bucket` label. By exact
/// shares: any match is above `0`, where the reference's whole per cent may be 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MatchBucket {
    Zero,
    To25,
    To50,
    To75,
    To100,
}

/// Why a request would go where it would go.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    pub choice: Choice,
    /// In the order of every [`PartScores`].
    pub pods: Vec<ExplainedPod>,
    pub parts: Vec<PartScores>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExplainedPod {
    pub slot: PodSlot,
    pub load: Load,
    pub matched_blocks: usize,
}

impl Choice {
    pub(super) fn new(
        candidates: Candidates<'_>,
        pick: Pick,
        request: &Request<'_>,
        total_blocks: usize,
        plan: &Plan,
        gate_fired: bool,
    ) -> Self {
        let rows = candidates.rows();
        let chosen = &rows[pick.row];
        let selection = || match chosen.matched_blocks {
            0 if rows.iter().all(|row| row.matched_blocks == 0) => Selection::LeastRequestFallback,
            0 => Selection::PrefixMatchSkipped,
            _ => Selection::PrefixMatch,
        };
        Self {
            slot: chosen.slot,
            reason: pick.reason,
            matched_blocks: chosen.matched_blocks as usize,
            total_blocks,
            uncached_tokens: request.uncached_tokens(chosen.matched_blocks),
            selection: plan.needs_prefix().then(selection),
            candidates: rows.len(),
            gate_fired,
        }
    }

    pub fn match_bucket(&self) -> MatchBucket {
        match (self.matched_blocks, self.total_blocks) {
            (0, _) => MatchBucket::Zero,
            (matched, total) if matched * 4 <= total => MatchBucket::To25,
            (matched, total) if matched * 2 <= total => MatchBucket::To50,
            (matched, total) if matched * 4 <= total * 3 => MatchBucket::To75,
            _ => MatchBucket::To100,
        }
    }
}

impl Selection {
    pub const ALL: [Self; 3] = [
        Self::PrefixMatch,
        Self::PrefixMatchSkipped,
        Self::LeastRequestFallback,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::PrefixMatch => "prefix_match",
            Self::PrefixMatchSkipped => "prefix_match_skipped",
            Self::LeastRequestFallback => "least_request_fallback",
        }
    }
}

impl MatchBucket {
    pub const ALL: [Self; 5] = [Self::Zero, Self::To25, Self::To50, Self::To75, Self::To100];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Zero => "0",
            Self::To25 => "1-25",
            Self::To50 => "26-50",
            Self::To75 => "51-75",
            Self::To100 => "76-100",
        }
    }
}

impl Explanation {
    pub(super) fn new(choice: Choice, candidates: Candidates<'_>, parts: Vec<PartScores>) -> Self {
        let pods = candidates.rows().iter().map(|row| ExplainedPod {
            slot: row.slot,
            load: row.load,
            matched_blocks: row.matched_blocks as usize,
        });
        Self {
            choice,
            pods: pods.collect(),
            parts,
        }
    }
}
