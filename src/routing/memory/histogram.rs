//! What was sent where in the last minutes: the load that `prefix-cache-preble` weighs.
//!
//! An entry stands for a prompt, by the hash of its last block, and for the pods that were sent it or a prompt that begins
//! with it. Each pod's sums are kept as entries change, in whole numbers, so that a request does not walk the table and
//! what is taken back leaves nothing behind.

use std::collections::VecDeque;

use foldhash::HashMap;

use crate::routing::block::{BlockHash, PrefixBlocks};
use crate::routing::pod::PodSlot;

const MOST_REQUESTS: usize = 65_536;
/// Pods of one entry: past so many, more say little.
const MOST_PODS: usize = 64;

#[derive(Debug, Default)]
pub(in crate::routing) struct Histogram {
    entries: HashMap<BlockHash, Entry>,
    /// Oldest first.
    requests: VecDeque<Noted>,
    pods: Vec<Sums>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    requests: u64,
    /// Nanoseconds.
    cost: u64,
}

#[derive(Debug)]
pub(in crate::routing) struct Entry {
    /// Tokens of the prompt, and those that were new when it was first sent.
    pub(in crate::routing) context: u64,
    pub(in crate::routing) new: u64,
    pub(in crate::routing) requests: u64,
    /// Sums over its requests.
    pub(in crate::routing) hit: u64,
    pub(in crate::routing) prompt: u64,
    pods: Vec<PodSlot>,
    /// Nanoseconds.
    cost: u64,
}

#[derive(Debug)]
struct Noted {
    at_ms: u64,
    entry: BlockHash,
    hit: u64,
    prompt: u64,
}

/// A request that is sent.
#[derive(Clone, Copy, Debug)]
pub(in crate::routing) struct Sent {
    pub(in crate::routing) slot: PodSlot,
    pub(in crate::routing) prompt_tokens: u64,
    pub(in crate::routing) uncached_tokens: u64,
    pub(in crate::routing) at_ms: u64,
}

impl Histogram {
    /// Requests of the window for prompts that the pod is listed for.
    pub(in crate::routing) fn requests(&self, slot: PodSlot) -> u64 {
        self.sums(slot).requests
    }

    /// Seconds that they are taken to cost.
    pub(in crate::routing) fn cost(&self, slot: PodSlot) -> f64 {
        self.sums(slot).cost as f64 / 1e9
    }

    fn sums(&self, slot: PodSlot) -> Sums {
        let sums = self.pods.get(usize::from(slot.0));
        sums.copied().unwrap_or_default()
    }

    /// `cost`: seconds of an entry.
    pub(in crate::routing) fn note(
        &mut self,
        blocks: &PrefixBlocks,
        sent: Sent,
        window_ms: u64,
        cost: impl Fn(&Entry) -> f64,
    ) {
        let since = sent.at_ms.saturating_sub(window_ms);
        self.forget_old(since, MOST_REQUESTS - 1, &cost);
        let Some((&last, before)) = blocks.hashes().split_last() else {
            return;
        };
        let place = usize::from(sent.slot.0);
        if self.pods.len() <= place {
            self.pods.resize(place + 1, Sums::default());
        }
        let hit = sent.prompt_tokens.saturating_sub(sent.uncached_tokens);
        let entry = self.entries.entry(last).or_insert_with(|| Entry {
            context: sent.prompt_tokens,
            new: sent.uncached_tokens,
            requests: 0,
            hit: 0,
            prompt: 0,
            pods: Vec::new(),
            cost: 0,
        });
        take_off(entry, &mut self.pods);
        entry.requests += 1;
        entry.hit += hit;
        entry.prompt += sent.prompt_tokens;
        list(entry, sent.slot);
        entry.cost = nanoseconds(cost(entry));
        put_on(entry, &mut self.pods);
        // Earlier turns of the conversation, prompts it begins with.
        for hash in before {
            let Some(entry) = self.entries.get_mut(hash) else {
                continue;
            };
            if list(entry, sent.slot) {
                self.pods[place].requests += entry.requests;
                self.pods[place].cost += entry.cost;
            }
        }
        self.requests.push_back(Noted {
            at_ms: sent.at_ms,
            entry: last,
            hit,
            prompt: sent.prompt_tokens,
        });
    }

    /// Takes back what is older than the window.
    pub(in crate::routing) fn age(&mut self, since_ms: u64, cost: impl Fn(&Entry) -> f64) {
        self.forget_old(since_ms, MOST_REQUESTS, &cost);
    }

    fn forget_old(&mut self, since_ms: u64, most: usize, cost: &impl Fn(&Entry) -> f64) {
        while let Some(oldest) = self.requests.front() {
            if oldest.at_ms >= since_ms && self.requests.len() <= most {
                return;
            }
            let Some(old) = self.requests.pop_front() else {
                return;
            };
            let Some(entry) = self.entries.get_mut(&old.entry) else {
                continue;
            };
            take_off(entry, &mut self.pods);
            entry.requests -= 1;
            entry.hit -= old.hit;
            entry.prompt -= old.prompt;
            if entry.requests == 0 {
                self.entries.remove(&old.entry);
                continue;
            }
            entry.cost = nanoseconds(cost(entry));
            put_on(entry, &mut self.pods);
        }
    }

    pub(in crate::routing) fn forget(&mut self, slot: PodSlot) {
        for entry in self.entries.values_mut() {
            entry.pods.retain(|&listed| listed != slot);
        }
        if let Some(sums) = self.pods.get_mut(usize::from(slot.0)) {
            *sums = Sums::default();
        }
    }
}

/// `true` when that is new.
fn list(entry: &mut Entry, slot: PodSlot) -> bool {
    let new = entry.pods.len() < MOST_PODS && !entry.pods.contains(&slot);
    if new {
        entry.pods.push(slot);
    }
    new
}

fn take_off(entry: &Entry, pods: &mut [Sums]) {
    for slot in &entry.pods {
        let sums = &mut pods[usize::from(slot.0)];
        sums.requests -= entry.requests;
        sums.cost -= entry.cost;
    }
}

fn put_on(entry: &Entry, pods: &mut [Sums]) {
    for slot in &entry.pods {
        let sums = &mut pods[usize::from(slot.0)];
        sums.requests += entry.requests;
        sums.cost += entry.cost;
    }
}

/// No more than a day, so that sums of the most requests there can be stay whole numbers.
fn nanoseconds(seconds: f64) -> u64 {
    (seconds.clamp(0.0, 86_400.0) * 1e9) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: u64 = 1000;

    fn blocks(hashes: &[u64]) -> PrefixBlocks {
        PrefixBlocks::from(hashes.iter().copied().map(BlockHash).collect::<Vec<_>>())
    }

    fn send(histogram: &mut Histogram, hashes: &[u64], slot: u16, at_ms: u64) {
        let sent = Sent {
            slot: PodSlot(slot),
            prompt_tokens: 100,
            uncached_tokens: 40,
            at_ms,
        };
        histogram.note(&blocks(hashes), sent, WINDOW, |entry| entry.requests as f64);
    }

    fn requests(histogram: &Histogram) -> [u64; 3] {
        [0, 1, 2].map(|slot| histogram.requests(PodSlot(slot)))
    }

    #[test]
    fn prompts_count_for_every_pod_that_had_them_until_they_are_old() {
        let mut histogram = Histogram::default();
        send(&mut histogram, &[1], 0, 0);
        send(&mut histogram, &[1], 0, 500);
        send(&mut histogram, &[1, 2], 1, 600);
        // The longer prompt begins with the shorter one, so pod 1 is listed for both.
        assert_eq!(requests(&histogram), [2, 3, 0]);
        assert_eq!(histogram.cost(PodSlot(1)), 3.0);
        histogram.age(1, |entry| entry.requests as f64);
        assert_eq!(requests(&histogram), [1, 2, 0]);
        histogram.forget(PodSlot(1));
        assert_eq!(requests(&histogram), [1, 0, 0]);
        histogram.age(10_000, |entry| entry.requests as f64);
        assert_eq!(requests(&histogram), [0, 0, 0]);
        assert_eq!(histogram.cost(PodSlot(0)), 0.0);
        assert!(histogram.entries.is_empty());
    }

    #[test]
    fn memory_is_bounded() {
        let mut histogram = Histogram::default();
        for request in 0..200_000_u64 {
            send(
                &mut histogram,
                &[7, request + 100],
                (request % 500) as u16,
                0,
            );
            send(&mut histogram, &[7], (request % 500) as u16, 0);
        }
        assert!(histogram.requests.len() <= MOST_REQUESTS);
        assert!(histogram.entries.len() <= MOST_REQUESTS);
        assert!(histogram.entries[&BlockHash(7)].pods.len() <= MOST_PODS);
    }
}
