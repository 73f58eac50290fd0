//! The arithmetic of an LLM engine on virtual time: prefill, batched decoding, a KV cache with prefix
//! reuse. Values in, events out: no clock, no I/O, no randomness, so the same calls give the same events.
//!
//! The engine works in steps, as continuous batching does. A step computes one token for every sequence
//! that decodes and, with what is left of [`EngineModel::step_tokens`], prompt tokens of the others in
//! order of arrival. A sequence reserves all blocks it will ever need when it is admitted: there is no
//! preemption.

mod kv;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use kv::KvCache;

/// What the engine costs and holds. The defaults are near an 8B model on one datacenter GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineModel {
    pub block_tokens: usize,
    pub kv_blocks: usize,
    pub max_sequences: usize,
    /// Upper bound of tokens computed in a step.
    pub step_tokens: usize,
    /// Microseconds for each prompt token that is not cached.
    pub prefill_us: f64,
    /// Microseconds of a step in which a sequence decodes.
    pub decode_base_us: f64,
    /// Microseconds that each decoding sequence adds to it.
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(u64);

/// One prompt and how many tokens to generate for it.
#[derive(Clone, Debug, Default)]
pub struct Job {
    /// Chained hashes of the prompt's full blocks.
    pub blocks: Vec<u64>,
    /// A prompt has a token, and so has an answer: 0 counts as 1.
    pub prompt_tokens: usize,
    pub output_tokens: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The prompt is computed and the first token of the answer is there.
    FirstToken { job: JobId, cached_tokens: usize },
    /// One more token.
    Token { job: JobId },
    /// The last token has been told; the engine has forgotten the job.
    Finished { job: JobId },
}

/// Totals since the start, as an engine's metrics tell them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Prompt tokens of admitted jobs, all looked up in the prefix cache.
    pub prompt_tokens: u64,
    /// Those found there.
    pub cached_tokens: u64,
    pub output_tokens: u64,
    pub evicted_blocks: u64,
}

struct Sequence {
    job: Job,
    anonymous_blocks: usize,
    cached_tokens: usize,
    /// Prompt tokens still to compute.
    prefill_left: usize,
    /// Prompt tokens the current step computes.
    prefill_now: usize,
    decodes_now: bool,
    generated: usize,
}

pub struct Engine {
    model: EngineModel,
    kv: KvCache,
    next_id: u64,
    /// Both in order of arrival, which is the order of ids.
    waiting: BTreeMap<JobId, Job>,
    running: BTreeMap<JobId, Sequence>,
    /// End of the current step, or when to begin one.
    next_at: Option<u64>,
    totals: Totals,
}

impl Engine {
    pub fn new(model: EngineModel) -> Self {
        let model = EngineModel {
            block_tokens: model.block_tokens.max(1),
            kv_blocks: model.kv_blocks.max(1),
            max_sequences: model.max_sequences.max(1),
            ..model
        };
        Self {
            kv: KvCache::new(model.kv_blocks),
            model,
            next_id: 0,
            waiting: BTreeMap::new(),
            running: BTreeMap::new(),
            next_at: None,
            totals: Totals::default(),
        }
    }

    /// Takes a job in; it begins with the next step. Times are microseconds and never go back.
    pub fn submit(&mut self, now: u64, mut job: Job) -> JobId {
        job.prompt_tokens = job.prompt_tokens.max(1);
        job.output_tokens = job.output_tokens.max(1);
        let id = JobId(self.next_id);
        self.next_id += 1;
        self.waiting.insert(id, job);
        self.next_at.get_or_insert(now);
        id
    }

    /// Forgets a job and frees what it holds; the events still to come are not told.
    pub fn cancel(&mut self, id: JobId) {
        if self.waiting.remove(&id).is_none()
            && let Some(sequence) = self.running.remove(&id)
        {
            self.free(&sequence);
        }
    }

    /// When to call [`Self::step`] next, unless a job is submitted earlier.
    pub fn next_at(&self) -> Option<u64> {
        self.next_at
    }

    /// Lets time pass until `now` and appends what happened.
    pub fn step(&mut self, now: u64, events: &mut Vec<Event>) {
        while let Some(at) = self.next_at.filter(|&at| at <= now) {
            self.end_step(events);
            self.next_at = self.begin_step(at);
        }
    }

    pub fn running(&self) -> usize {
        self.running.len()
    }

    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Share of the KV cache in use by running sequences, 0 to 1.
    pub fn kv_usage(&self) -> f64 {
        self.kv.in_use() as f64 / self.kv.capacity() as f64
    }

    pub fn totals(&self) -> Totals {
        Totals {
            evicted_blocks: self.kv.evicted(),
            ..self.totals
        }
    }

    pub fn model(&self) -> &EngineModel {
        &self.model
    }

    fn end_step(&mut self, events: &mut Vec<Event>) {
        let totals = &mut self.totals;
        let mut finished = Vec::new();
        for (&job, sequence) in &mut self.running {
            if std::mem::take(&mut sequence.decodes_now) {
                events.push(Event::Token { job });
            } else if sequence.prefill_now > 0 {
                sequence.prefill_left -= std::mem::take(&mut sequence.prefill_now);
                if sequence.prefill_left > 0 {
                    continue;
                }
                events.push(Event::FirstToken {
                    job,
                    cached_tokens: sequence.cached_tokens,
                });
            } else {
                continue;
            }
            sequence.generated += 1;
            totals.output_tokens += 1;
            if sequence.generated == sequence.job.output_tokens {
                finished.push(job);
            }
        }
        for job in finished {
            if let Some(sequence) = self.running.remove(&job) {
                self.free(&sequence);
            }
            events.push(Event::Finished { job });
        }
    }

    /// Plans a step that begins `at`, and says when it ends.
    fn begin_step(&mut self, at: u64) -> Option<u64> {
        self.admit();
        let mut decoding = 0;
        for sequence in self.running.values_mut() {
            sequence.decodes_now = sequence.prefill_left == 0;
            decoding += usize::from(sequence.decodes_now);
        }
        let mut budget = self.model.step_tokens.saturating_sub(decoding).max(1);
        let mut prefill = 0;
        for sequence in self.running.values_mut() {
            if budget == 0 {
                break;
            }
            sequence.prefill_now = sequence.prefill_left.min(budget);
            budget -= sequence.prefill_now;
            prefill += sequence.prefill_now;
        }
        if decoding + prefill == 0 {
            return None;
        }
        let mut cost = prefill as f64 * self.model.prefill_us;
        if decoding > 0 {
            cost += self.model.decode_base_us + decoding as f64 * self.model.decode_us;
        }
        // A step that costs nothing would let a long job run forever at one moment.
        Some(at + (cost as u64).max(1))
    }

    /// Lets jobs in, first come first served: one that does not fit holds up those behind it.
    fn admit(&mut self) {
        let block_tokens = self.model.block_tokens;
        while self.running.len() < self.model.max_sequences {
            let Some(entry) = self.waiting.first_entry() else {
                return;
            };
            let job = entry.get();
            let capacity = self.kv.capacity();
            let wanted = job
                .prompt_tokens
                .saturating_add(job.output_tokens)
                .div_ceil(block_tokens);
            // What is larger than the whole cache runs alone in it, so that it ends some day.
            let named = job.blocks.len().min(capacity);
            let anonymous = wanted.min(capacity).saturating_sub(named);
            // The last token is always computed: its output is the first token of the answer.
            let reusable = named.min((job.prompt_tokens - 1) / block_tokens);
            let cached_tokens = self.kv.matched(&job.blocks[..reusable]) * block_tokens;
            if !self.kv.acquire(&job.blocks[..named], anonymous) {
                return;
            }
            self.totals.prompt_tokens += job.prompt_tokens as u64;
            self.totals.cached_tokens += cached_tokens as u64;
            let (id, mut job) = entry.remove_entry();
            job.blocks.truncate(named);
            self.running.insert(
                id,
                Sequence {
                    anonymous_blocks: anonymous,
                    cached_tokens,
                    prefill_left: job.prompt_tokens - cached_tokens,
                    prefill_now: 0,
                    decodes_now: false,
                    generated: 0,
                    job,
                },
            );
        }
    }

    fn free(&mut self, sequence: &Sequence) {
        self.kv
            .release(&sequence.job.blocks, sequence.anonymous_blocks);
    }
}
