//! Which pods hold which prompt blocks.
//!
//! Bounded by a number of blocks and a time to live, both counted from the last [`record`] of a
//! block; looking up refreshes nothing. What goes first is exact: the block whose last record is
//! longest ago, and of one record the deepest. So a chain's tail always goes before its head, and
//! a pod that holds a block holds all blocks before it.
//!
//! Readers take no lock (see `table`); writers share one short lock, taken for [`CHUNK`] blocks at
//! a time. Memory is set aside at the start and never grows: about 43 bytes a block with up to 64
//! pods, 11 more for each further 64.
//!
//! [`record`]: PrefixIndex::record

mod matches;
mod recency;
mod table;

pub use matches::Matches;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use self::recency::Recency;
use self::table::{Cell, NO_CELL, Placed, Table};
use super::block::BlockHash;
use super::pod::PodSlot;

/// Blocks that are recorded under one hold of the writer lock.
const CHUNK: usize = 128;
/// Expired blocks that a record takes out beyond as many as it wrote.
const SWEEP: usize = 32;

pub struct PrefixIndex {
    table: Table,
    max_blocks: usize,
    ttl_ms: u64,
    recency: Mutex<Recency>,
    /// Written under the lock, read without.
    blocks: AtomicUsize,
    evictions: AtomicU64,
}

/// Refreshed so long ago that it no longer counts: before `since`.
#[derive(Clone, Copy)]
struct Clock {
    now_ms: u64,
    since: u64,
}

impl PrefixIndex {
    /// `pod_capacity`: slots below it can be recorded.
    pub fn new(max_blocks: usize, ttl: Duration, pod_capacity: usize) -> Self {
        // Cells are numbered in 32 bits, with room to spare.
        let max_blocks = max_blocks.clamp(1, 1 << 30);
        Self {
            table: Table::new(max_blocks, pod_capacity.div_ceil(64).max(1)),
            max_blocks,
            ttl_ms: u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX),
            recency: Mutex::new(Recency::new()),
            blocks: AtomicUsize::new(0),
            evictions: AtomicU64::new(0),
        }
    }

    /// For each pod asked about, how many leading blocks it holds.
    pub fn longest_match(
        &self,
        blocks: &[BlockHash],
        now_ms: u64,
        pods: impl IntoIterator<Item = PodSlot>,
        matches: &mut Matches,
    ) {
        let since = self.clock(now_ms).since;
        matches.begin(self.table.words(), pods);
        matches.search(blocks.len(), |word, block| {
            self.table.holders(key(blocks[block]), word, since)
        });
    }

    /// Notes that the pod holds these blocks from now on, and refreshes them. A pod beyond the
    /// capacity is not noted.
    pub fn record(&self, pod: PodSlot, blocks: &[BlockHash], now_ms: u64) {
        let (word, bit) = position(pod);
        if word >= self.table.words() {
            return;
        }
        let clock = self.clock(now_ms);
        let blocks = &blocks[..blocks.len().min(self.max_blocks)];
        let mut parent = (NO_CELL, 0);
        let mut guesses = [NO_CELL; CHUNK];
        for chunk in blocks.chunks(CHUNK) {
            // Looked up before the lock is taken: it brings the memory near and is nearly always
            // still right inside.
            for (guess, block) in guesses.iter_mut().zip(chunk) {
                *guess = self.table.find(key(*block)).unwrap_or(NO_CELL);
            }
            let mut recency = self.recency.lock();
            parent.0 = self.still_at(parent);
            for (block, guess) in chunk.iter().zip(guesses) {
                let key = key(*block);
                let cell = match self.still_at((guess, key)) {
                    NO_CELL => self.insert(&mut recency, key, word, bit, clock),
                    cell => {
                        self.table
                            .refresh(cell, word, bit, clock.since, clock.now_ms);
                        // In place already, or (never in a real chain) the same block twice.
                        if cell == parent.0 || self.table.links(cell).1 == parent.0 {
                            parent = (cell, key);
                            continue;
                        }
                        recency.unlink(&self.table, cell);
                        cell
                    }
                };
                // An insertion may have moved the parent.
                recency.link(&self.table, cell, self.still_at(parent));
                parent = (cell, key);
            }
            self.sweep(&mut recency, clock, chunk.len() + SWEEP);
        }
    }

    /// Forgets everything about a pod. Its slot may go to another pod once this has returned and
    /// no request can be recorded for the old one any more.
    pub fn clear(&self, pod: PodSlot) {
        let (word, bit) = position(pod);
        if word >= self.table.words() {
            return;
        }
        let mut recency = self.recency.lock();
        for cell in self.table.all_cells() {
            if self.table.key(cell) != 0 && !self.table.remove_pod(cell, word, bit) {
                self.remove(&mut recency, cell);
            }
        }
    }

    /// The same content with room for more pods.
    pub fn widened(&self, pod_capacity: usize) -> Self {
        let wide = Self {
            ttl_ms: self.ttl_ms,
            evictions: AtomicU64::new(self.evictions()),
            ..Self::new(self.max_blocks, Duration::ZERO, pod_capacity)
        };
        let recency = self.recency.lock();
        let mut wide_recency = wide.recency.lock();
        let mut next = recency.oldest().unwrap_or(NO_CELL);
        while next != NO_CELL {
            let clock = wide.clock(self.table.stamp(next));
            let cell = wide.insert(&mut wide_recency, self.table.key(next), 0, 0, clock);
            wide.table.adopt(cell, &self.table, next);
            wide_recency.link(&wide.table, cell, NO_CELL);
            next = self.table.links(next).1;
        }
        drop(wide_recency);
        wide
    }

    /// Slots below this can be recorded.
    pub fn pod_capacity(&self) -> usize {
        self.table.words() * 64
    }

    /// Blocks held now, expired ones included that no record has taken out yet.
    pub fn len(&self) -> usize {
        self.blocks.load(Ordering::Relaxed)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory set aside, whatever is held.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.table.bytes()
    }

    /// Blocks dropped so far for want of room or because of their age.
    pub fn evictions(&self) -> u64 {
        self.evictions.load(Ordering::Relaxed)
    }

    fn clock(&self, now_ms: u64) -> Clock {
        Clock {
            now_ms,
            since: now_ms.saturating_sub(self.ttl_ms),
        }
    }

    /// The cell of a key: the one it was seen in, or where it is now.
    fn still_at(&self, (cell, key): (Cell, u64)) -> Cell {
        if cell != NO_CELL && self.table.key(cell) == key {
            return cell;
        }
        match key {
            0 => NO_CELL,
            key => self.table.find(key).unwrap_or(NO_CELL),
        }
    }

    /// Fills a cell that the caller links.
    fn insert(&self, recency: &mut Recency, key: u64, word: usize, bit: u64, clock: Clock) -> Cell {
        if self.len() >= self.max_blocks {
            self.evict_oldest(recency);
        }
        let cell = match self.table.place(key) {
            Placed::Free(cell) => cell,
            Placed::Occupied { cell, other } => {
                self.table.copy(cell, other);
                recency.replace(&self.table, cell, other);
                self.table.free(cell);
                cell
            }
            Placed::Full { oldest } => {
                self.remove(recency, oldest);
                self.evictions.fetch_add(1, Ordering::Relaxed);
                oldest
            }
        };
        self.table.fill(cell, key, word, bit, clock.now_ms);
        self.blocks.fetch_add(1, Ordering::Relaxed);
        cell
    }

    fn sweep(&self, recency: &mut Recency, clock: Clock, at_most: usize) {
        for _ in 0..at_most {
            match recency.oldest() {
                Some(oldest) if self.table.stamp(oldest) < clock.since => {
                    self.evict_oldest(recency);
                }
                _ => return,
            }
        }
    }

    fn evict_oldest(&self, recency: &mut Recency) {
        if let Some(oldest) = recency.oldest() {
            self.remove(recency, oldest);
            self.evictions.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn remove(&self, recency: &mut Recency, cell: Cell) {
        recency.unlink(&self.table, cell);
        self.table.free(cell);
        self.blocks.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The table marks free cells with 0.
fn key(block: BlockHash) -> u64 {
    block.0.max(1)
}

/// Bitmap word of a pod and its bit there.
fn position(pod: PodSlot) -> (usize, u64) {
    (usize::from(pod.0) / 64, 1 << (pod.0 % 64))
}

#[cfg(test)]
mod tests;
