//! The engine as arithmetic: batches, prefill and decode times, a prefix cache. Pure, on virtual time in microseconds.
//!
//! It works in steps like real engines with continuous batching: each step prefills a bounded number of prompt tokens
//! and gives every sequence past its prefill one token. A step takes `prefilled tokens * prefill_us + (decoding ?
//! decode_base_us + sequences * decode_us : 0)`. A prompt's full blocks stay in the cache when its request has ended, and the
//! least recently used go first, of one prompt the last ones before the first.
//!
//! Not simulated: preemption (a request that does not fit waits), several devices, speculative decoding.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// What the engine costs and holds. The defaults are near an 8B model on one datacenter GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineModel {
    pub block_tokens: usize,
    pub kv_blocks: usize,
    pub max_sequences: usize,
    /// Prompt tokens prefilled in one step.
    pub step_tokens: usize,
    pub prefill_us: f64,
    pub decode_base_us: f64,
    pub decode_us: f64,
}

impl Default for EngineModel {
    fn default() -> Self {
        Self {
            block_tokens: 16,
            kv_blocks: 60_000,
            max_sequences: 256,
            step_tokens: 2048,
            prefill_us: 125.0,
            decode_base_us: 10_000.0,
            decode_us: 200.0,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobId(u64);

/// One request to the engine.
#[derive(Clone, Debug, Default)]
pub struct Job {
    /// Chained hashes of the prompt's full blocks.
    pub blocks: Vec<u64>,
    pub prompt_tokens: usize,
    pub output_tokens: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    FirstToken { job: JobId, cached_tokens: usize },
    Token { job: JobId },
    Finished { job: JobId },
}

/// Totals since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub prompt_tokens: u64,
    pub cached_tokens: u64,
    pub output_tokens: u64,
    pub evicted_blocks: u64,
}

pub struct Engine {
    model: EngineModel,
    now: u64,
    /// When the step under way ends.
    step_ends: Option<u64>,
    next_id: u64,
    waiting: VecDeque<(JobId, Job)>,
    running: BTreeMap<JobId, Sequence>,
    cache: HashMap<u64, Block>,
    /// Cached blocks nobody uses, in the order in which they go.
    idle: BTreeMap<(u64, Reverse<usize>, u64), ()>,
    /// Blocks of sequences that are not in the cache.
    private_blocks: usize,
    totals: Totals,
}

struct Sequence {
    job: Job,
    cached_tokens: usize,
    /// Leading blocks that are in the cache and held.
    shared: usize,
    private: usize,
    prefilled: usize,
    /// Prompt tokens of the step under way.
    chunk: usize,
    produced: usize,
}

struct Block {
    users: usize,
    depth: usize,
    used_at: u64,
}

impl Engine {
    pub fn new(model: EngineModel) -> Self {
        Self {
            model,
            now: 0,
            step_ends: None,
            next_id: 0,
            waiting: VecDeque::new(),
            running: BTreeMap::new(),
            cache: HashMap::new(),
            idle: BTreeMap::new(),
            private_blocks: 0,
            totals: Totals::default(),
        }
    }

    pub fn submit(&mut self, now: u64, job: Job) -> JobId {
        let id = JobId(self.next_id);
        self.next_id += 1;
        self.waiting.push_back((id, job));
        if self.step_ends.is_none() {
            self.now = self.now.max(now);
            self.begin_step();
        }
        id
    }

    /// Ends a job early; what it held is free.
    pub fn cancel(&mut self, id: JobId) {
        self.waiting.retain(|(waiting, _)| *waiting != id);
        if let Some(sequence) = self.running.remove(&id) {
            self.release(sequence);
        }
    }

    /// When something will next happen; `None` while there is nothing to do.
    pub fn next_at(&self) -> Option<u64> {
        self.step_ends
    }

    /// Lets time pass up to `now`.
    pub fn step(&mut self, now: u64, events: &mut Vec<Event>) {
        while let Some(end) = self.step_ends.filter(|&end| end <= now) {
            self.now = end;
            self.finish_step(events);
            self.begin_step();
        }
    }

    pub fn running(&self) -> usize {
        self.running.len()
    }

    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Share of the cache that requests hold, 0 to 1.
    pub fn kv_usage(&self) -> f64 {
        let held = self.cache.len() - self.idle.len() + self.private_blocks;
        held as f64 / self.model.kv_blocks.max(1) as f64
    }

    pub fn totals(&self) -> Totals {
        self.totals
    }

    pub fn model(&self) -> &EngineModel {
        &self.model
    }

    fn begin_step(&mut self) {
        self.admit();
        let mut budget = self.model.step_tokens;
        let (mut prefilled, mut decoding) = (0, 0);
        for sequence in self.running.values_mut() {
            let left = sequence.job.prompt_tokens - sequence.prefilled;
            sequence.chunk = left.min(budget);
            budget -= sequence.chunk;
            prefilled += sequence.chunk;
            decoding += usize::from(left == 0);
        }
        if self.running.is_empty() {
            self.step_ends = None;
            return;
        }
        let mut cost = prefilled as f64 * self.model.prefill_us;
        if decoding > 0 {
            cost += self.model.decode_base_us + decoding as f64 * self.model.decode_us;
        }
        self.step_ends = Some(self.now + (cost as u64).max(1));
    }

    fn finish_step(&mut self, events: &mut Vec<Event>) {
        let ids: Vec<JobId> = self.running.keys().copied().collect();
        for id in ids {
            let Some(sequence) = self.running.get_mut(&id) else {
                continue;
            };
            if sequence.prefilled < sequence.job.prompt_tokens {
                sequence.prefilled += sequence.chunk;
                if sequence.prefilled < sequence.job.prompt_tokens {
                    continue;
                }
                let cached_tokens = sequence.cached_tokens;
                self.share(id);
                events.push(Event::FirstToken {
                    job: id,
                    cached_tokens,
                });
            } else {
                events.push(Event::Token { job: id });
            }
            self.totals.output_tokens += 1;
            let done = self.running.get_mut(&id).is_some_and(|sequence| {
                sequence.produced += 1;
                sequence.produced >= sequence.job.output_tokens
            });
            if done && let Some(sequence) = self.running.remove(&id) {
                self.release(sequence);
                events.push(Event::Finished { job: id });
            }
        }
    }

    fn admit(&mut self) {
        while self.running.len() < self.model.max_sequences {
            let Some((id, job)) = self.waiting.pop_front() else {
                return;
            };
            let hit = job
                .blocks
                .iter()
                .take_while(|hash| self.cache.contains_key(hash))
                .count();
            let whole = (job.prompt_tokens + job.output_tokens).div_ceil(self.model.block_tokens);
            let private = whole.saturating_sub(hit);
            self.hold(&job.blocks[..hit]);
            if !self.make_room(private) {
                self.unhold(&job.blocks[..hit]);
                if !self.running.is_empty() {
                    self.waiting.push_front((id, job));
                    return;
                }
                // Larger than the whole cache: run alone rather than never.
                self.hold(&job.blocks[..hit]);
            }
            self.private_blocks += private;
            // The last token of a prompt is always computed.
            let cached_tokens =
                (hit * self.model.block_tokens).min(job.prompt_tokens.saturating_sub(1));
            self.totals.prompt_tokens += job.prompt_tokens as u64;
            self.totals.cached_tokens += cached_tokens as u64;
            self.running.insert(
                id,
                Sequence {
                    cached_tokens,
                    shared: hit,
                    private,
                    prefilled: cached_tokens,
                    chunk: 0,
                    produced: 0,
                    job,
                },
            );
        }
    }

    /// The prompt is computed: its further blocks go into the cache.
    fn share(&mut self, id: JobId) {
        let Some(mut sequence) = self.running.remove(&id) else {
            return;
        };
        for (depth, &hash) in sequence.job.blocks.iter().enumerate().skip(sequence.shared) {
            let now = self.now;
            let block = self.cache.entry(hash).or_insert(Block {
                users: 0,
                depth,
                used_at: now,
            });
            if block.users == 0 {
                self.idle
                    .remove(&(block.used_at, Reverse(block.depth), hash));
            }
            block.users += 1;
            if sequence.private > 0 {
                sequence.private -= 1;
                self.private_blocks -= 1;
            }
        }
        sequence.shared = sequence.job.blocks.len();
        self.running.insert(id, sequence);
    }

    fn release(&mut self, sequence: Sequence) {
        self.private_blocks -= sequence.private;
        self.unhold(&sequence.job.blocks[..sequence.shared]);
    }

    fn hold(&mut self, hashes: &[u64]) {
        for &hash in hashes {
            if let Some(block) = self.cache.get_mut(&hash) {
                if block.users == 0 {
                    self.idle
                        .remove(&(block.used_at, Reverse(block.depth), hash));
                }
                block.users += 1;
            }
        }
    }

    fn unhold(&mut self, hashes: &[u64]) {
        for &hash in hashes {
            if let Some(block) = self.cache.get_mut(&hash) {
                block.users -= 1;
                if block.users == 0 {
                    block.used_at = self.now;
                    self.idle
                        .insert((block.used_at, Reverse(block.depth), hash), ());
                }
            }
        }
    }

    fn make_room(&mut self, blocks: usize) -> bool {
        while self.cache.len() + self.private_blocks + blocks > self.model.kv_blocks {
            let Some(((_, _, hash), ())) = self.idle.pop_first() else {
                return false;
            };
            self.cache.remove(&hash);
            self.totals.evicted_blocks += 1;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(blocks: std::ops::Range<u64>, output_tokens: usize) -> Job {
        let blocks: Vec<u64> = blocks.collect();
        Job {
            prompt_tokens: blocks.len() * 16 + 1,
            blocks,
            output_tokens,
        }
    }

    fn run(engine: &mut Engine) -> Vec<Event> {
        let mut events = Vec::new();
        while let Some(at) = engine.next_at() {
            engine.step(at, &mut events);
        }
        events
    }

    fn cached(events: &[Event]) -> Vec<usize> {
        let cached = events.iter().filter_map(|event| match event {
            Event::FirstToken { cached_tokens, .. } => Some(*cached_tokens),
            _ => None,
        });
        cached.collect()
    }

    #[test]
    fn every_job_gives_all_its_tokens_and_nothing_stays_behind() {
        let mut engine = Engine::new(EngineModel {
            max_sequences: 3,
            ..EngineModel::default()
        });
        for i in 0..20 {
            engine.submit(0, job(i * 100..i * 100 + 50, 7));
        }
        let events = run(&mut engine);
        let tokens = events
            .iter()
            .filter(|event| !matches!(event, Event::Finished { .. }))
            .count();
        assert_eq!(tokens, 20 * 7);
        assert_eq!(events.len() - tokens, 20);
        assert_eq!(
            (engine.running(), engine.waiting(), engine.kv_usage()),
            (0, 0, 0.0)
        );
    }

    #[test]
    fn a_conversation_finds_its_earlier_turns() {
        let mut engine = Engine::new(EngineModel::default());
        for turns in 1..4 {
            engine.submit(0, job(0..turns * 10, 2));
            assert_eq!(cached(&run(&mut engine)), [(turns as usize - 1) * 160]);
        }
    }

    #[test]
    fn a_full_cache_loses_what_was_used_least_recently_and_tails_first() {
        let mut engine = Engine::new(EngineModel {
            kv_blocks: 25,
            ..EngineModel::default()
        });
        for blocks in [0..10, 100..110] {
            engine.submit(0, job(blocks, 1));
            run(&mut engine);
        }
        engine.submit(0, job(200..205, 1));
        run(&mut engine);
        engine.submit(0, job(0..10, 1));
        let kept = cached(&run(&mut engine))[0];
        assert!(kept > 0 && kept < 160, "{kept}");
        engine.submit(0, job(200..205, 1));
        assert_eq!(cached(&run(&mut engine)), [80]);
    }

    #[test]
    fn a_cancelled_job_frees_what_it_held() {
        let mut engine = Engine::new(EngineModel::default());
        let id = engine.submit(0, job(0..100, 1000));
        engine.step(3_000_000, &mut Vec::new());
        assert!(engine.kv_usage() > 0.0);
        engine.cancel(id);
        assert_eq!((engine.running(), engine.kv_usage()), (0, 0.0));
        engine.step(u64::MAX / 2, &mut Vec::new());
        assert_eq!(engine.next_at(), None);
    }

    #[test]
    fn a_cached_prompt_answers_sooner() {
        let mut engine = Engine::new(EngineModel::default());
        engine.submit(0, job(0..100, 1));
        run(&mut engine);
        let cold = engine.now;
        engine.submit(cold, job(0..100, 1));
        run(&mut engine);
        assert!(
            (engine.now - cold) * 20 < cold,
            "{cold} then {}",
            engine.now - cold
        );
    }
}
