//! When each request comes: as recorded, or after the answer that its prompt continues.
//!
//! Where a trace names sessions, a request continues the one before it in its session. Elsewhere a
//! request continues an earlier one if its prompt has all full
//! blocks of the other and is longer; the other is the one with the most such blocks, the latest
//! of equals, and is continued once. What many prompts have in common, as a system prompt, is no
//! session: a prompt whose last full block was known from others before it is not continued.

use std::collections::{HashMap, HashSet};

use clap::ValueEnum;
use warmgate::routing::BlockHash;
use warmgate::sim::EngineModel;

use crate::trace::{Trace, Turn};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Timing {
    /// As recorded, however long answers take.
    Timestamps,
    /// A session's next turn waits for the answer before it, then for the recorded pause.
    ThinkTime,
}

/// Microseconds of virtual time.
#[derive(Debug, PartialEq)]
pub(super) struct Arrivals {
    /// Requests that wait for no other, with their times.
    pub(super) fixed: Vec<(u64, usize)>,
    /// By request: the one that follows its answer, and after what pause.
    pub(super) next: Vec<Option<(usize, u64)>>,
}

impl Arrivals {
    pub(super) fn new(
        trace: &Trace,
        timing: Timing,
        scale: f64,
        spread: bool,
        engine: &EngineModel,
    ) -> Self {
        let turns = &trace.turns;
        let scaled = |micros: u64| (micros as f64 * scale) as u64;
        let times = times(turns, spread);
        let previous = match timing {
            Timing::Timestamps => vec![None; turns.len()],
            Timing::ThinkTime => previous_turns(turns),
        };
        let mut arrivals = Self {
            fixed: Vec::new(),
            next: vec![None; turns.len()],
        };
        for (turn, previous) in previous.into_iter().enumerate() {
            match previous {
                None => arrivals.fixed.push((scaled(times[turn]), turn)),
                Some(previous) => {
                    let took = turns[previous]
                        .took_us
                        .unwrap_or_else(|| alone_us(&turns[previous], engine));
                    let pause = (times[turn] - times[previous]).saturating_sub(took);
                    arrivals.next[previous] = Some((turn, scaled(pause)));
                }
            }
        }
        arrivals
    }
}

/// Spread: requests that were recorded at one moment come one after the other until the next.
fn times(turns: &[Turn], spread: bool) -> Vec<u64> {
    let mut times: Vec<u64> = turns.iter().map(|turn| turn.at_us).collect();
    if spread {
        let mut from = 0;
        for group in turns.chunk_by(|left, right| left.at_us == right.at_us) {
            let until = turns.get(from + group.len()).map_or(0, |next| next.at_us);
            let gap = until.saturating_sub(group[0].at_us) / group.len() as u64;
            for (nth, time) in times[from..from + group.len()].iter_mut().enumerate() {
                *time += gap * nth as u64;
            }
            from += group.len();
        }
    }
    times
}

/// What an answer takes on an engine that has nothing cached and nothing else to do: where a trace
/// does not say when answers ended, its pauses are counted from there.
fn alone_us(turn: &Turn, engine: &EngineModel) -> u64 {
    let prefill = turn.prompt_tokens as f64 * engine.prefill_us;
    let decode =
        turn.output_tokens.saturating_sub(1) as f64 * (engine.decode_base_us + engine.decode_us);
    (prefill + decode) as u64
}

/// For each request the one that it continues.
fn previous_turns(turns: &[Turn]) -> Vec<Option<usize>> {
    let mut known: HashSet<BlockHash> = HashSet::new();
    // Last full block of a prompt that can be continued, and whose it is.
    let mut open: HashMap<BlockHash, usize> = HashMap::new();
    let mut last_of_session: HashMap<u64, usize> = HashMap::new();
    let mut previous = Vec::with_capacity(turns.len());
    for (at, turn) in turns.iter().enumerate() {
        if let Some(session) = turn.session {
            previous.push(last_of_session.insert(session, at));
            continue;
        }
        let continues = |&block: &&BlockHash| {
            open.get(block).is_some_and(|&other: &usize| {
                let other = &turns[other];
                other.prompt_tokens < turn.prompt_tokens && other.at_us < turn.at_us
            })
        };
        let found = turn.blocks.iter().rev().find(continues);
        let found = found.and_then(|block| open.remove(block));
        if let Some(last) = turn.blocks.last()
            && (found.is_some() || !known.contains(last))
        {
            open.insert(*last, at);
        }
        known.extend(&turn.blocks);
        previous.push(found);
    }
    previous
}

#[cfg(test)]
mod tests;
