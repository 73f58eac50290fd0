//! The fixed table under the index: block hash to a cell with refresh time, list links and the
//! bitmap of pods.
//!
//! Two-choice buckets of eight keys; a full pair of buckets moves one key to its other bucket.
//! Removing frees the cell, so there are no tombstones and no rehash. Cells are atomics: readers
//! take no lock and re-check the key after reading the bits. Everything that writes is called with
//! the index's writer lock held, which is what makes the plain load-then-store sequences right.

use std::sync::atomic::{AtomicU64, Ordering};

const WAYS: usize = 8;
/// Words of a cell before its bitmap: refresh time, list links.
const STAMP: usize = 0;
const LINKS: usize = 1;
const BITS: usize = 2;
/// Keys per bucket the table is sized for. Two-choice buckets with moves still find room at more;
/// at this filling a key needs moving rarely.
const FILLED_WAYS: usize = 6;

/// Number of a cell of the table.
pub(super) type Cell = u32;
pub(super) const NO_CELL: Cell = Cell::MAX;

/// One cache line of keys; 0 marks a free cell.
#[repr(align(64))]
struct Bucket([AtomicU64; WAYS]);

pub(super) struct Table {
    buckets: Box<[Bucket]>,
    cells: Box<[AtomicU64]>,
    stride: usize,
}

/// Where a new key went.
pub(super) enum Placed {
    Free(Cell),
    /// Free only after what was in the cell has been moved to the second cell.
    Occupied {
        cell: Cell,
        other: Cell,
    },
    /// No room in reach: the cell refreshed longest ago has to make way.
    Full {
        oldest: Cell,
    },
}

impl Table {
    pub(super) fn new(max_blocks: usize, words: usize) -> Self {
        let buckets = max_blocks.div_ceil(FILLED_WAYS) + 2;
        let stride = BITS + words;
        Self {
            buckets: (0..buckets)
                .map(|_| Bucket([const { AtomicU64::new(0) }; WAYS]))
                .collect(),
            cells: (0..buckets * WAYS * stride)
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
        0..(self.buckets.len() * WAYS) as Cell
    }

    /// Pods of one bitmap word that hold the block, none if it was refreshed before `since`.
    /// Takes no lock. A block that is being moved between cells may be missed once.
    pub(super) fn holders(&self, key: u64, word: usize, since: u64) -> u64 {
        let Some(cell) = self.find(key) else { return 0 };
        let stamp = self.cell(cell)[STAMP].load(Ordering::Acquire);
        let bits = self.cell(cell)[BITS + word].load(Ordering::Acquire);
        // Bits are stored after the key that owned the cell before was taken out: an unchanged key
        // here means that the bits above are its own.
        if self.key(cell) == key && stamp >= since {
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

    pub(super) fn key(&self, cell: Cell) -> u64 {
        self.key_slot(cell).load(Ordering::Acquire)
    }

    pub(super) fn stamp(&self, cell: Cell) -> u64 {
        self.cell(cell)[STAMP].load(Ordering::Relaxed)
    }

    /// Neighbours in the recency list: (older, newer).
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
        let bits = &words[BITS + word];
        bits.store(bits.load(Ordering::Relaxed) | bit, Ordering::Release);
        words[STAMP].store(stamp.max(now_ms), Ordering::Release);
    }

    /// A cell for a key that is not in the table.
    pub(super) fn place(&self, key: u64) -> Placed {
        let (first, second) = self.buckets_of(key);
        let (in_first, in_second) = (self.free_cells(first), self.free_cells(second));
        let emptier = if in_first.1 >= in_second.1 {
            in_first
        } else {
            in_second
        };
        if emptier.1 > 0 {
            return Placed::Free(emptier.0);
        }
        let residents = || self.cells_of(first).chain(self.cells_of(second));
        for cell in residents() {
            let resident = self.key(cell);
            let (one, two) = self.buckets_of(resident);
            let here = cell as usize / WAYS;
            let (other, free) = self.free_cells(if here == one { two } else { one });
            if free > 0 {
                return Placed::Occupied { cell, other };
            }
        }
        let oldest = residents().min_by_key(|&cell| self.stamp(cell));
        Placed::Full {
            oldest: oldest.unwrap_or(NO_CELL),
        }
    }

    /// Writes a block without links into a free cell.
    pub(super) fn fill(&self, cell: Cell, key: u64, word: usize, bit: u64, now_ms: u64) {
        let words = self.cell(cell);
        words[STAMP].store(now_ms, Ordering::Release);
        for (at, bits) in words[BITS..].iter().enumerate() {
            bits.store(if at == word { bit } else { 0 }, Ordering::Release);
        }
        self.key_slot(cell).store(key, Ordering::Release);
    }

    /// Copies a block with its links to a free cell; the caller links and frees.
    pub(super) fn copy(&self, from: Cell, to: Cell) {
        for (source, target) in self.cell(from).iter().zip(self.cell(to)) {
            target.store(source.load(Ordering::Relaxed), Ordering::Release);
        }
        self.key_slot(to).store(self.key(from), Ordering::Release);
    }

    pub(super) fn free(&self, cell: Cell) {
        self.key_slot(cell).store(0, Ordering::Release);
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
        let keys = &self.buckets[bucket].0;
        let way = keys
            .iter()
            .position(|held| held.load(Ordering::Acquire) == key)?;
        Some((bucket * WAYS + way) as Cell)
    }

    /// First free cell of a bucket and how many there are.
    fn free_cells(&self, bucket: usize) -> (Cell, usize) {
        let mut free = self.cells_of(bucket).filter(|&cell| self.key(cell) == 0);
        match free.next() {
            Some(first) => (first, 1 + free.count()),
            None => (NO_CELL, 0),
        }
    }

    fn cells_of(&self, bucket: usize) -> std::ops::Range<Cell> {
        (bucket * WAYS) as Cell..((bucket + 1) * WAYS) as Cell
    }

    /// The two buckets a key may be in, always different.
    fn buckets_of(&self, key: u64) -> (usize, usize) {
        let scale = |bits: u64, bound: usize| ((u128::from(bits) * bound as u128) >> 64) as usize;
        let count = self.buckets.len();
        let first = scale(key, count);
        let away = 1 + scale(key.wrapping_mul(0x9e37_79b9_7f4a_7c15), count - 1);
        let second = first + away;
        (
            first,
            if second >= count {
                second - count
            } else {
                second
            },
        )
    }

    fn key_slot(&self, cell: Cell) -> &AtomicU64 {
        &self.buckets[cell as usize / WAYS].0[cell as usize % WAYS]
    }

    fn cell(&self, cell: Cell) -> &[AtomicU64] {
        &self.cells[cell as usize * self.stride..][..self.stride]
    }
}
