//! The KV cache as a set of blocks named by the chained hash of all tokens up to their end.
//!
//! Invariant: `named.len() + anonymous <= capacity`; `idle` holds exactly the named blocks without a
//! reference, oldest first. Blocks that hold no full prompt block (its rest, generated tokens) are
//! only counted: nobody can ask for them again.

use std::collections::{BTreeMap, HashMap};

struct Block {
    references: u32,
    /// Key in `idle`, meaningful while there is no reference.
    idle_since: u64,
}

pub(super) struct KvCache {
    capacity: usize,
    named: HashMap<u64, Block, foldhash::fast::FixedState>,
    idle: BTreeMap<u64, u64>,
    anonymous: usize,
    clock: u64,
    evicted: u64,
}

impl KvCache {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            named: HashMap::default(),
            idle: BTreeMap::new(),
            anonymous: 0,
            clock: 0,
            evicted: 0,
        }
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(super) fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Blocks that a sequence is using, against those that are only remembered.
    pub(super) fn in_use(&self) -> usize {
        self.named.len() - self.idle.len() + self.anonymous
    }

    /// Number of leading blocks that are here.
    pub(super) fn matched(&self, hashes: &[u64]) -> usize {
        hashes
            .iter()
            .take_while(|hash| self.named.contains_key(hash))
            .count()
    }

    /// Takes the named blocks and so many anonymous ones, evicting idle blocks as needed; takes nothing
    /// and says no where they do not fit.
    pub(super) fn acquire(&mut self, hashes: &[u64], anonymous: usize) -> bool {
        let held = |hash: &u64| {
            self.named
                .get(hash)
                .is_some_and(|block| block.references > 0)
        };
        let more = hashes.iter().filter(|hash| !held(hash)).count() + anonymous;
        if self.in_use() + more > self.capacity {
            return false;
        }
        // Those that are here first, so that making room for the others cannot evict them.
        let mut absent = Vec::new();
        for &hash in hashes {
            match self.named.get_mut(&hash) {
                Some(block) => {
                    if block.references == 0 {
                        self.idle.remove(&block.idle_since);
                    }
                    block.references += 1;
                }
                None => absent.push(hash),
            }
        }
        self.anonymous += anonymous;
        self.make_room(absent.len());
        for hash in absent {
            self.named
                .entry(hash)
                .or_insert(Block {
                    references: 0,
                    idle_since: 0,
                })
                .references += 1;
        }
        true
    }

    fn make_room(&mut self, wanted: usize) {
        while self.named.len() + self.anonymous + wanted > self.capacity {
            let Some((_, hash)) = self.idle.pop_first() else {
                return;
            };
            self.named.remove(&hash);
            self.evicted += 1;
        }
    }

    /// Gives back what [`Self::acquire`] took. Tails become idle before heads, so they go first: a head
    /// serves more prompts.
    pub(super) fn release(&mut self, hashes: &[u64], anonymous: usize) {
        self.anonymous -= anonymous;
        for &hash in hashes.iter().rev() {
            let Some(block) = self.named.get_mut(&hash) else {
                continue;
            };
            block.references -= 1;
            if block.references == 0 {
                self.clock += 1;
                block.idle_since = self.clock;
                self.idle.insert(self.clock, hash);
            }
        }
    }
}
