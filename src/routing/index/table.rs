//! The fixed memory under the index: cells with what is known of a block, and a table that finds
//! the cell of a block hash.
//!
//! A cell never moves. Cells are handed out so that the blocks of one prompt lie side by side, in
//! the order in which every later request of the same prefix walks them. The table has two-choice
//! buckets of eight references; a full pair of buckets moves one of them to its other bucket.
//!
//! All is atomics: readers take no lock and re-check the cell's key after reading its bits. What
//! writes is called with the index's writer lock held, which is what makes the plain load-then-store
//! sequences right.

use std::sync::atomic::{AtomicU64, Ordering};

const WAYS: usize = 8;
/// References per bucket the table is sized for: full pairs are then rare.
const FILLED_WAYS: usize = 5;
/// Words of a cell before its bitmap: block hash or 0, time of the last refresh, list links.
const KEY: usize = 0;
const STAMP: usize = 1;
const LINKS: usize = 2;
const BITS: usize = 3;

/// Number of a cell.
pub(super) type Cell = u32;
pub(super) const NO_CELL: Cell = Cell::MAX;

/// One cache line of references: part of the hash above, cell number below; 0 for none.
#[repr(align(64))]
struct Bucket([AtomicU64; WAYS]);

pub(super) struct Table {
    buckets: Box<[Bucket]>,
    cells: Box<[AtomicU64]>,
    stride: usize,
}

impl Table {
    pub(super) fn new(max_blocks: usize, words: usize) -> Self {
        let buckets = max_blocks.div_ceil(FILLED_WAYS) + 2;
        let stride = BITS + words;
        Self {
            buckets: (0..buckets)
                .map(|_| Bucket([const { AtomicU64::new(0) }; WAYS]))
                .collect(),
            cells: (0..max_blocks * stride)
                .map(|_| AtomicU64::new(0))
                .collect(),
            stride,
        }
    }

    pub(super) fn words(&self) -> usize {
        self.stride - BITS
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.buckets) + size_of_val(&*self.cells)
    }

    pub(super) fn all_cells(&self) -> std::ops::Range<Cell> {
        0..(self.cells.len() / self.stride) as Cell
    }

    /// Pods of one bitmap word that hold the block, none if it was refreshed before `since`.
    /// Takes no lock. A block whose reference is being moved may be missed once.
    pub(super) fn holders(&self, key: u64, word: usize, since: u64) -> u64 {
        let Some(cell) = self.find(key) else { return 0 };
        let words = self.cell(cell);
        let stamp = words[STAMP].load(Ordering::Acquire);
        let bits = words[BITS + word].load(Ordering::Acquire);
        // A cell's key is taken out before its bits become another block's: an unchanged key here
        // means that the bits above are its own.
        if words[KEY].load(Ordering::Acquire) == key && stamp >= since {
            bits
        } else {
            0
        }
    }

    pub(super) fn find(&self, key: u64) -> Option<Cell> {
        let (first, second) = self.buckets_of(key);
        self.find_in(first, key)
            .or_else(|| self.find_in(second, key))
    }

    /// Brings the places where a key may be found near; the value means nothing.
    pub(super) fn touch(&self, key: u64) -> u64 {
        let (first, second) = self.buckets_of(key);
        let load = |bucket: usize| self.buckets[bucket].0[0].load(Ordering::Relaxed);
        load(first) ^ load(second)
    }

    /// Block hash of a cell, 0 if it is free.
    pub(super) fn key(&self, cell: Cell) -> u64 {
        self.cell(cell)[KEY].load(Ordering::Relaxed)
    }

    pub(super) fn stamp(&self, cell: Cell) -> u64 {
        self.cell(cell)[STAMP].load(Ordering::Relaxed)
    }

    /// Neighbours in a list: (older, newer).
    pub(super) fn links(&self, cell: Cell) -> (Cell, Cell) {
        let links = self.cell(cell)[LINKS].load(Ordering::Relaxed);
        ((links >> 32) as Cell, links as Cell)
    }

    pub(super) fn set_links(&self, cell: Cell, older: Cell, newer: Cell) {
        let links = u64::from(older) << 32 | u64::from(newer);
        self.cell(cell)[LINKS].store(links, Ordering::Relaxed);
    }

    /// Adds a pod to a block and renews its time. If it was last refreshed before `since`, its
    /// former holders have expired.
    pub(super) fn refresh(&self, cell: Cell, word: usize, bit: u64, since: u64, now_ms: u64) {
        let words = self.cell(cell);
        let stamp = words[STAMP].load(Ordering::Relaxed);
        if stamp < since {
            for bits in &words[BITS..] {
                bits.store(0, Ordering::Release);
            }
        }
        // Stored only when it changes: a prefix that many requests share stays in every core's cache.
        let held = words[BITS + word].load(Ordering::Relaxed);
        if held & bit == 0 {
            words[BITS + word].store(held | bit, Ordering::Release);
        }
        if stamp < now_ms {
            words[STAMP].store(now_ms, Ordering::Release);
        }
    }

    /// Makes a free cell that of a block and lets readers find it. If there is no room for a
    /// reference to it, names a cell to be freed first.
    pub(super) fn fill(
        &self,
        cell: Cell,
        key: u64,
        word: usize,
        bit: u64,
        now_ms: u64,
    ) -> Result<(), Cell> {
        let place = self.place(key)?;
        let words = self.cell(cell);
        words[STAMP].store(now_ms, Ordering::Release);
        for (at, bits) in words[BITS..].iter().enumerate() {
            bits.store(if at == word { bit } else { 0 }, Ordering::Release);
        }
        words[KEY].store(key, Ordering::Release);
        place.store(reference(key, cell), Ordering::Release);
        Ok(())
    }

    pub(super) fn free(&self, cell: Cell) {
        let key = self.key(cell);
        self.cell(cell)[KEY].store(0, Ordering::Release);
        let (first, second) = self.buckets_of(key);
        let own = reference(key, cell);
        let places = self.buckets[first].0.iter().chain(&self.buckets[second].0);
        for place in places.filter(|place| place.load(Ordering::Relaxed) == own) {
            place.store(0, Ordering::Release);
        }
    }

    /// Takes a pod out of a block; false when that leaves no pod.
    pub(super) fn remove_pod(&self, cell: Cell, word: usize, bit: u64) -> bool {
        let words = self.cell(cell);
        let held = words[BITS + word].load(Ordering::Relaxed);
        if held & bit == 0 {
            return true;
        }
        words[BITS + word].store(held & !bit, Ordering::Release);
        words[BITS..]
            .iter()
            .any(|bits| bits.load(Ordering::Relaxed) != 0)
    }

    /// Sets the bitmap and time of a cell to those of a cell in a narrower table.
    pub(super) fn adopt(&self, cell: Cell, source: &Self, from: Cell) {
        self.cell(cell)[STAMP].store(source.stamp(from), Ordering::Release);
        let bits = source.cell(from)[BITS..].iter();
        for (bits, target) in bits.zip(&self.cell(cell)[BITS..]) {
            target.store(bits.load(Ordering::Relaxed), Ordering::Release);
        }
    }

    fn find_in(&self, bucket: usize, key: u64) -> Option<Cell> {
        let tag = tag(key);
        // All eight are compared before any branch: which one it is cannot be predicted.
        let mut found = 0u32;
        for (way, place) in self.buckets[bucket].0.iter().enumerate() {
            let same = (place.load(Ordering::Acquire) ^ tag) >> 32 == 0;
            found |= u32::from(same) << way;
        }
        while found != 0 {
            let place = &self.buckets[bucket].0[found.trailing_zeros() as usize % WAYS];
            let cell = place.load(Ordering::Acquire) as Cell;
            // The reference may have been taken out between the two loads.
            let held = self.cells.get(cell as usize * self.stride + KEY);
            if held.is_some_and(|held| held.load(Ordering::Acquire) == key) {
                return Some(cell);
            }
            found &= found - 1;
        }
        None
    }

    /// A free place for a reference to a key, or the cell in its way that is refreshed least lately.
    fn place(&self, key: u64) -> Result<&AtomicU64, Cell> {
        let (first, second) = self.buckets_of(key);
        let (in_first, in_second) = (self.free_place(first), self.free_place(second));
        match (in_first, in_second) {
            (Some((place, free)), Some((_, more))) if free >= more => return Ok(place),
            (_, Some((place, _))) | (Some((place, _)), None) => return Ok(place),
            (None, None) => {}
        }
        let mut oldest = (u64::MAX, NO_CELL);
        for bucket in [first, second] {
            for place in &self.buckets[bucket].0 {
                let resident = place.load(Ordering::Relaxed);
                let cell = resident as Cell;
                let (one, two) = self.buckets_of(self.key(cell));
                let other = if bucket == one { two } else { one };
                if let Some((elsewhere, _)) = self.free_place(other) {
                    elsewhere.store(resident, Ordering::Release);
                    return Ok(place);
                }
                oldest = oldest.min((self.stamp(cell), cell));
            }
        }
        Err(oldest.1)
    }

    /// A free place of a bucket and how many there are.
    fn free_place(&self, bucket: usize) -> Option<(&AtomicU64, u32)> {
        let places = &self.buckets[bucket].0;
        let mut free = 0u32;
        for (way, place) in places.iter().enumerate() {
            free |= u32::from(place.load(Ordering::Relaxed) == 0) << way;
        }
        let place = places.get(free.trailing_zeros() as usize)?;
        Some((place, free.count_ones()))
    }

    /// The two buckets a key may be in, always different.
    fn buckets_of(&self, key: u64) -> (usize, usize) {
        let scale = |bits: u64, bound: usize| ((u128::from(bits) * bound as u128) >> 64) as usize;
        let count = self.buckets.len();
        let first = scale(key, count);
        let away = 1 + scale(key.wrapping_mul(0x9e37_79b9_7f4a_7c15), count - 1);
        let second = first + away;
        let wraps = second >= count;
        (first, if wraps { second - count } else { second })
    }

    fn cell(&self, cell: Cell) -> &[AtomicU64] {
        &self.cells[cell as usize * self.stride..][..self.stride]
    }
}

/// The part of a hash that a reference keeps, never 0.
fn tag(key: u64) -> u64 {
    (key | 1) << 32
}

fn reference(key: u64, cell: Cell) -> u64 {
    tag(key) | u64::from(cell)
}
