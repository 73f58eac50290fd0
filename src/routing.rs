//! Chooses a pod for a request: prompt blocks, prefix index, gate, strategies.
//!
//! Values in, values out: time, randomness and pods are arguments, and nothing here waits, logs or
//! opens anything. The same calls serve live traffic, tests and offline replay.
//!
//! ```
//! use warmgate::routing::{PodSlot, PodView, Request, Router, Scope, Scratch};
//! use warmgate::routing::{Overrides, PrefixBlocks, settings::RoutingSettings};
//!
//! let router = Router::new(RoutingSettings::default(), 2, 7);
//! let pods = [0, 1].map(|slot| PodView { slot: PodSlot(slot), ..PodView::default() });
//! let plan = router.plan("prefix-cache", &Overrides::default())?;
//!
//! let (mut blocks, mut scratch) = (PrefixBlocks::default(), Scratch::default());
//! let scope = Scope { model: "m", cache_salt: None };
//! router.hash(scope, |show| show(&[b'x'; 300]), &mut blocks);
//! let request = Request { blocks: &blocks, seed: 1, ..Request::default() };
//! let first = router.route(&plan, &request, &pods, &mut scratch)?;
//! router.record(first.slot, &blocks, 0);
//!
//! let again = router.route(&plan, &request, &pods, &mut scratch)?;
//! assert_eq!((again.slot, again.matched_blocks), (first.slot, 2));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod blend;
pub mod block;
mod choice;
mod gate;
pub mod index;
mod memory;
mod overrides;
pub mod pod;
mod request;
mod rng;
pub mod settings;
pub mod strategy;
mod tokenizer;

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use quick_cache::Equivalent;
use quick_cache::sync::Cache;

pub use self::blend::{PartScores, Plan, StrategyError};
pub use self::block::{BlockHash, BlockHasher, PrefixBlocks, Scope};
pub use self::choice::{Choice, ExplainedPod, Explanation, MatchBucket, RouteError, Selection};
pub use self::overrides::{
    AutoBlendOverrides, LoadBalanceOverrides, Overrides, PrebleOverrides, VtcOverrides,
};
pub use self::pod::{Load, PodDetail, PodSlot, PodView};
pub use self::request::{Request, Session};
pub use self::strategy::Reason;

use self::blend::Workspace;
use self::index::{Matches, PrefixIndex};
use self::memory::Memory;
use self::rng::Rng;
use self::settings::{RoutingSettings, TokenizerKind};
use self::strategy::{Candidate, Candidates, Pick};

/// Strategy strings kept parsed; clients choose them by a header.
const CACHED_PLANS: usize = 4096;
/// Longer strings are parsed each time: the cache is bounded in bytes, too.
const CACHED_PLAN_BYTES: usize = 256;

pub struct Router {
    settings: RoutingSettings,
    hasher: BlockHasher,
    random_seed: u64,
    index: Arc<PrefixIndex>,
    memory: Arc<Memory>,
    plans: Cache<PlanKey<Box<str>>, Arc<Plan>>,
}

/// What a cached plan was made from; looked up by `&str`, kept with `Box<str>`.
struct PlanKey<T> {
    text: T,
    overrides: Overrides,
}

impl<T: PartialEq> PartialEq for PlanKey<T> {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text && self.overrides == other.overrides
    }
}

// Overrides come out of the configuration, which has no NaN.
impl<T: Eq> Eq for PlanKey<T> {}

impl<T: Hash> Hash for PlanKey<T> {
    /// The text alone: a model has few profiles, and fewer of them share a strategy.
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.text.hash(hasher);
    }
}

impl Equivalent<PlanKey<Box<str>>> for PlanKey<&str> {
    fn equivalent(&self, kept: &PlanKey<Box<str>>) -> bool {
        *self.text == *kept.text && self.overrides == kept.overrides
    }
}

/// Working memory of [`Router::route`]; reused, it makes routing free of allocation.
#[derive(Debug, Default)]
pub struct Scratch {
    candidates: Vec<Candidate>,
    matches: Matches,
    workspace: Workspace,
}

impl Router {
    /// `pod_capacity`: slots below it can hold blocks. `random_seed` seeds the block hashes unless
    /// the settings name a seed; drawn by the caller, once for the life of the process.
    pub fn new(settings: RoutingSettings, pod_capacity: usize, random_seed: u64) -> Self {
        let prefix = &settings.prefix_cache;
        let index = PrefixIndex::new(prefix.max_blocks, prefix.ttl, pod_capacity);
        let memory = Arc::new(Memory::new(random_seed));
        Self::around(Arc::new(index), memory, settings, random_seed)
    }

    /// The router for changed settings. Keeps the index if its blocks stay what they are, and
    /// widens it if it has to hold more pods.
    pub fn with_settings(&self, settings: RoutingSettings, pod_capacity: usize) -> Self {
        let kept = |of: &RoutingSettings| {
            let prefix = &of.prefix_cache;
            let shape = (prefix.tokenizer, prefix.block_size, prefix.hash_seed);
            (shape, prefix.max_blocks, prefix.ttl)
        };
        if kept(&settings) != kept(&self.settings) {
            return Self::new(settings, pod_capacity, self.random_seed);
        }
        let index = if pod_capacity <= self.index.pod_capacity() {
            Arc::clone(&self.index)
        } else {
            Arc::new(self.index.widened(pod_capacity))
        };
        let memory = Arc::clone(&self.memory);
        Self::around(index, memory, settings, self.random_seed)
    }

    fn around(
        index: Arc<PrefixIndex>,
        memory: Arc<Memory>,
        settings: RoutingSettings,
        random_seed: u64,
    ) -> Self {
        let prefix = &settings.prefix_cache;
        if prefix.tokenizer == TokenizerKind::Tiktoken {
            tokenizer::load();
        }
        let seed = prefix.hash_seed.unwrap_or(random_seed);
        Self {
            hasher: BlockHasher::new(prefix.block_size, seed, prefix.max_blocks),
            plans: Cache::new(CACHED_PLANS),
            settings,
            random_seed,
            index,
            memory,
        }
    }

    pub fn settings(&self) -> &RoutingSettings {
        &self.settings
    }

    /// For its figures: blocks, bytes, evictions.
    pub fn index(&self) -> &PrefixIndex {
        &self.index
    }

    /// Makes a strategy string ready to route with.
    pub fn plan(&self, text: &str, overrides: &Overrides) -> Result<Arc<Plan>, StrategyError> {
        let key = PlanKey {
            text,
            overrides: *overrides,
        };
        if let Some(plan) = self.plans.get(&key) {
            return Ok(plan);
        }
        let plan = Plan::new(text, strategy::ALL, &self.settings, overrides, &self.memory)?;
        let plan = Arc::new(plan);
        if text.len() <= CACHED_PLAN_BYTES {
            let key = PlanKey {
                text: text.into(),
                overrides: *overrides,
            };
            self.plans.insert(key, Arc::clone(&plan));
        }
        Ok(plan)
    }

    /// Hashes the blocks of a prompt. `each_piece` is to show the prompt piece by piece.
    pub fn hash(
        &self,
        scope: Scope<'_>,
        each_piece: impl FnOnce(&mut dyn FnMut(&[u8])),
        blocks: &mut PrefixBlocks,
    ) {
        self.hasher.begin(scope, blocks);
        match self.settings.prefix_cache.tokenizer {
            TokenizerKind::Character => {
                each_piece(&mut |piece| self.hasher.push(piece, blocks));
            }
            TokenizerKind::Tiktoken => tokenizer::push_tokens(&self.hasher, each_piece, blocks),
        }
    }

    /// Adds to a prompt what followed it. `false`: the tokenizer's cut of a text depends on what follows, so that cannot
    /// be done, and nothing was.
    pub fn extend<'a>(
        &self,
        pieces: impl IntoIterator<Item = &'a [u8]>,
        blocks: &mut PrefixBlocks,
    ) -> bool {
        if self.settings.prefix_cache.tokenizer != TokenizerKind::Character {
            return false;
        }
        for piece in pieces {
            self.hasher.push(piece, blocks);
        }
        true
    }

    /// Chooses one of the pods. Changes nothing: what was chosen is noted by [`Self::record`].
    pub fn route(
        &self,
        plan: &Plan,
        request: &Request<'_>,
        pods: &[PodView],
        scratch: &mut Scratch,
    ) -> Result<Choice, RouteError> {
        let gate_fired = self.fill_candidates(plan, request, pods, scratch);
        let candidates = Candidates::new(&scratch.candidates).ok_or(match pods {
            [] => RouteError::NoPod,
            _ => RouteError::AllFull,
        })?;
        let pick = match candidates.rows() {
            [_] => Pick {
                row: 0,
                reason: Reason::OnlyCandidate,
            },
            _ => plan.pick(
                request,
                candidates,
                &mut scratch.workspace,
                &mut Rng::new(request.seed),
            ),
        };
        let total_blocks = if plan.needs_prefix() {
            request.blocks.total_blocks()
        } else {
            0
        };
        Ok(Choice::new(
            candidates,
            pick,
            request,
            total_blocks,
            plan,
            gate_fired,
        ))
    }

    /// What [`Self::route`] would choose, and what it goes by.
    pub fn explain(
        &self,
        plan: &Plan,
        request: &Request<'_>,
        pods: &[PodView],
    ) -> Result<Explanation, RouteError> {
        let mut scratch = Scratch::default();
        let choice = self.route(plan, request, pods, &mut scratch)?;
        let candidates = Candidates::new(&scratch.candidates).ok_or(RouteError::NoPod)?;
        Ok(Explanation::new(
            choice,
            candidates,
            plan.scores(request, candidates),
        ))
    }

    /// Notes that a pod is sent these blocks; to be called once, when the request is sent.
    pub fn record(&self, slot: PodSlot, blocks: &PrefixBlocks, now_ms: u64) {
        self.index.record(slot, blocks.hashes(), now_ms);
    }

    /// Lets the strategies of a plan note where a request is sent; to be called once, when it is.
    pub fn sent(&self, plan: &Plan, request: &Request<'_>, choice: &Choice) {
        plan.sent(request, choice);
    }

    /// Forgets what a pod holds. Its slot may be given to another pod once this has returned and
    /// every request that was routed to the old one has been recorded.
    pub fn forget(&self, slot: PodSlot) {
        self.index.clear(slot);
        self.memory.forget(slot);
    }

    /// True when the gate narrowed them.
    fn fill_candidates(
        &self,
        plan: &Plan,
        request: &Request<'_>,
        pods: &[PodView],
        scratch: &mut Scratch,
    ) -> bool {
        let Scratch {
            candidates,
            matches,
            ..
        } = scratch;
        candidates.clear();
        let needs_detail = plan.needs_detail();
        candidates.extend(pods.iter().map(|pod| Candidate {
            slot: pod.slot,
            load: pod.load,
            matched_blocks: 0,
            detail: pod.detail.as_ref().filter(|_| needs_detail).cloned(),
        }));
        if let Some(most) = plan.most_requests() {
            candidates.retain(|candidate| candidate.load.in_flight < most);
        }
        let gate_fired = plan.is_gated() && gate::narrow(candidates, plan.load_balance());
        if plan.needs_prefix() {
            let slots = candidates.iter().map(|candidate| candidate.slot);
            let hashes = request.blocks.hashes();
            self.index
                .longest_match(hashes, request.now_ms, slots, matches);
            for candidate in candidates.iter_mut() {
                candidate.matched_blocks = matches.depth(candidate.slot);
            }
        }
        gate_fired
    }
}

/// Checks a strategy string without a router.
pub fn check_strategy(text: &str) -> Result<(), StrategyError> {
    Plan::new(
        text,
        strategy::ALL,
        &RoutingSettings::default(),
        &Overrides::default(),
        &Arc::new(Memory::new(0)),
    )
    .map(drop)
}

/// Whether a strategy string would let `prefix-cache` make its own selection, with no load blended in.
pub fn is_standalone_prefix_cache(
    text: &str,
    settings: &RoutingSettings,
    overrides: &Overrides,
) -> bool {
    Plan::new(
        text,
        strategy::ALL,
        settings,
        overrides,
        &Arc::new(Memory::new(0)),
    )
    .is_ok_and(|plan| plan.is_standalone_prefix_cache())
}

#[cfg(test)]
mod tests;
