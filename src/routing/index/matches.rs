//! How deep into a prompt each pod's held blocks reach, by galloping.
//!
//! Rests on one property of the index: a pod that holds a block holds all blocks before it. So the
//! depth of a pod is found by doubling steps and then halving the last one, for 64 pods at once:
//! a cold prompt costs one look-up, a hit a few dozen, however long the prompt is.

use super::super::pod::PodSlot;

/// Leading blocks held, by pod. Kept by the caller and filled again for each request.
#[derive(Clone, Debug, Default)]
pub struct Matches {
    /// Pods asked about, as a bitmap.
    asked: Vec<u64>,
    depths: Vec<u32>,
}

impl Matches {
    pub fn depth(&self, pod: PodSlot) -> u32 {
        self.depths.get(usize::from(pod.0)).copied().unwrap_or(0)
    }

    pub(super) fn begin(&mut self, words: usize, pods: impl IntoIterator<Item = PodSlot>) {
        self.asked.clear();
        self.asked.resize(words, 0);
        self.depths.clear();
        self.depths.resize(words * 64, 0);
        for pod in pods {
            if let Some(asked) = self.asked.get_mut(usize::from(pod.0) / 64) {
                *asked |= 1 << (pod.0 % 64);
            }
        }
    }

    /// `holders(word, block)`: which pods of a bitmap word hold a block.
    pub(super) fn search(&mut self, blocks: usize, holders: impl Fn(usize, usize) -> u64) {
        for (word, (asked, depths)) in self
            .asked
            .iter()
            .zip(self.depths.as_chunks_mut::<64>().0)
            .enumerate()
        {
            let mut search = Search {
                holders: |block| holders(word, block),
                depths,
            };
            search.gallop(*asked, blocks);
        }
    }
}

struct Search<'a, H> {
    holders: H,
    depths: &'a mut [u32; 64],
}

impl<H: Fn(usize) -> u64> Search<'_, H> {
    fn gallop(&mut self, mut pods: u64, blocks: usize) {
        let mut depth = 0;
        let mut step = 1;
        while pods != 0 && depth < blocks {
            let deeper = (depth + step).min(blocks);
            let holders = pods & (self.holders)(deeper - 1);
            self.halve(pods & !holders, depth, deeper);
            pods = holders;
            depth = deeper;
            step *= 2;
        }
        self.settle(pods, depth);
    }

    /// Pods that hold `from` blocks and not `to`.
    fn halve(&mut self, pods: u64, from: usize, to: usize) {
        if pods == 0 {
            return;
        }
        if to - from == 1 {
            return self.settle(pods, from);
        }
        let middle = from + (to - from) / 2;
        let holders = pods & (self.holders)(middle - 1);
        self.halve(holders, middle, to);
        self.halve(pods & !holders, from, middle);
    }

    fn settle(&mut self, mut pods: u64, depth: usize) {
        while pods != 0 {
            self.depths[pods.trailing_zeros() as usize] = depth as u32;
            pods &= pods - 1;
        }
    }
}
