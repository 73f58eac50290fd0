//! Which pods hold which prompt blocks.
//!
//! Bounded by a number of blocks and a time to live, both counted from the last [`record`] of a
//! block; looking up refreshes nothing. What goes first is exact to [`LONGEST_MOMENT_MS`]: the block
//! whose last record is longest ago, and of one record the deepest. So a chain's tail always goes before its head, and
//! a pod that holds a block holds all blocks before it.
//!
//! Readers take no lock (see `table`); writers share one short lock, taken for 128 blocks at
//! a time. Memory is set aside at the start and never grows: about 45 bytes a block with up to 64
//! pods, 8 more for each further 64.
//!
//! Why not quick_cache, which keeps the parsed strategies: what it drops is
//! decided by its own policy, so heads of chains go while their tails stay, and those tails are
//! dead memory. `benches/routing/rival.rs` runs both; on the conversation trace in `tests/data`
//! and two cores of a Xeon it says
//!
//! | | here | quick_cache 0.6 |
//! | --- | --- | --- |
//! | blocks hit, index of 2,000 / 20,000 / 100,000 | 5.4 / 28.8 / 36.4 % | 5.4 / 21.0 / 31.3 % |
//! | blocks held without their head | 0 / 0 / 0 | 551 / 576 / 4,103 |
//! | bytes a block | 45 | 73 to 81 |
//! | refresh, insert with eviction, a block | 7 ns, 145 ns | 31 ns, 277 ns |
//! | match of 1,024 blocks | 0.4 us | 0.8 us |
//!
//! [`record`]: PrefixIndex::record

mod matches;
mod recency;
mod table;

pub use matches::Matches;

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use self::recency::Recency;
use self::table::{Cell, NO_CELL, Table};
use super::block::BlockHash;
use super::pod::PodSlot;

/// Blocks that are recorded under one hold of the writer lock.
const CHUNK: usize = 128;
/// The moment within which nothing is refreshed again, as a part of the time to live, as a part of the time after which
/// blocks are dropped for want of room, and at most.
const MOMENTS_OF_TTL: u64 = 1000;
const MOMENTS_OF_LIFE: u64 = 16;
const LONGEST_MOMENT_MS: u64 = 100;
/// Expired blocks that a record takes out beyond as many as it wrote.
const SWEEP: usize = 32;

pub struct PrefixIndex {
    table: Table,
    max_blocks: usize,
    ttl_ms: u64,
    /// A pod's blocks are not refreshed again within this time. 0: always.
    moment_ms: u64,
    recency: Mutex<Recency>,
    /// Written under the lock only, so without a read-modify-write; read without.
    blocks: AtomicUsize,
    evictions: AtomicU64,
    /// When the block that was dropped last had been refreshed.
    evicted_stamp: AtomicU64,
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
        let table = Table::new(max_blocks, pod_capacity.div_ceil(64).max(1));
        let ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        Self {
            max_blocks,
            ttl_ms,
            moment_ms: (ttl_ms / MOMENTS_OF_TTL).min(LONGEST_MOMENT_MS),
            recency: Mutex::new(Recency::new(&table)),
            table,
            blocks: AtomicUsize::new(0),
            evictions: AtomicU64::new(0),
            evicted_stamp: AtomicU64::new(0),
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
        let (known, parent) = self.just_refreshed(blocks, word, bit, clock);
        let mut writer = Writer {
            index: self,
            word,
            bit,
            clock,
            parent,
        };
        for chunk in blocks[known..].chunks(CHUNK) {
            let cold = self.table.find(key(chunk[chunk.len() - 1])).is_none();
            if cold {
                // Before the lock is taken, not one at a time behind it.
                let near = chunk.iter().map(|block| self.table.touch(key(*block)));
                black_box(near.fold(0, |sum, value| sum ^ value));
            }
            let mut recency = self.recency.lock();
            if cold && self.len() + chunk.len() > self.max_blocks {
                let leaving = recency.iter(&self.table).take(chunk.len());
                let near = leaving.map(|cell| self.table.touch(self.table.key(cell)));
                black_box(near.fold(0, |sum, value| sum ^ value));
            }
            writer.record(&mut recency, chunk);
            self.sweep(&mut recency, writer.clock, chunk.len() + SWEEP);
        }
    }

    /// How many leading blocks the pod was noted for a moment ago, and the cell and key of the last
    /// of them. Takes no lock, so that what many requests share is not written for each of them.
    fn just_refreshed(
        &self,
        blocks: &[BlockHash],
        word: usize,
        bit: u64,
        clock: Clock,
    ) -> (usize, (Cell, u64)) {
        // Where blocks live shortly, not to refresh one would be felt.
        let life = clock
            .now_ms
            .saturating_sub(self.evicted_stamp.load(Ordering::Relaxed));
        let moment = self.moment_ms.min(life / MOMENTS_OF_LIFE);
        if moment == 0 {
            return (0, (NO_CELL, 0));
        }
        // A moment, but never so long ago that it has expired.
        let since = clock.since.max(clock.now_ms.saturating_sub(moment) + 1);
        let is_fresh = |block: &BlockHash| self.table.holders(key(*block), word, since) & bit != 0;
        let known = match (blocks.first(), blocks.last()) {
            (_, Some(last)) if is_fresh(last) => blocks.len(),
            (Some(first), _) if is_fresh(first) => blocks.partition_point(is_fresh),
            _ => 0,
        };
        let parent = known.checked_sub(1).map(|last| key(blocks[last]));
        let cell = parent.and_then(|key| Some((self.table.find(key)?, key)));
        (known, cell.unwrap_or((NO_CELL, 0)))
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
            moment_ms: self.moment_ms,
            evictions: AtomicU64::new(self.evictions()),
            evicted_stamp: AtomicU64::new(self.evicted_stamp.load(Ordering::Relaxed)),
            ..Self::new(self.max_blocks, Duration::ZERO, pod_capacity)
        };
        let recency = self.recency.lock();
        let mut wide_recency = wide.recency.lock();
        for old in recency.iter(&self.table) {
            let clock = wide.clock(self.table.stamp(old));
            let key = self.table.key(old);
            if let Some(cell) = wide.insert(&mut wide_recency, key, 0, 0, clock) {
                wide.table.adopt(cell, &self.table, old);
                wide_recency.link(&wide.table, cell, cell, NO_CELL);
            }
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

    /// Makes a cell for a block, which the caller links.
    fn insert(
        &self,
        recency: &mut Recency,
        key: u64,
        word: usize,
        bit: u64,
        clock: Clock,
    ) -> Option<Cell> {
        if self.len() >= self.max_blocks {
            self.evict(recency, recency.oldest()?);
        }
        let cell = recency.take_free(&self.table)?;
        while let Err(in_the_way) = self.table.fill(cell, key, word, bit, clock.now_ms) {
            self.evict(recency, in_the_way);
        }
        self.blocks.store(self.len() + 1, Ordering::Relaxed);
        Some(cell)
    }

    fn sweep(&self, recency: &mut Recency, clock: Clock, at_most: usize) {
        for _ in 0..at_most {
            match recency.oldest() {
                Some(oldest) if self.table.stamp(oldest) < clock.since => {
                    self.evict(recency, oldest);
                }
                _ => return,
            }
        }
    }

    fn evict(&self, recency: &mut Recency, cell: Cell) {
        self.evicted_stamp
            .store(self.table.stamp(cell), Ordering::Relaxed);
        self.remove(recency, cell);
        self.evictions
            .store(self.evictions() + 1, Ordering::Relaxed);
    }

    fn remove(&self, recency: &mut Recency, cell: Cell) {
        recency.unlink(&self.table, cell, cell);
        self.table.free(cell);
        recency.give_back(&self.table, cell);
        self.blocks.store(self.len() - 1, Ordering::Relaxed);
    }
}

/// One record under way.
struct Writer<'a> {
    index: &'a PrefixIndex,
    word: usize,
    bit: u64,
    clock: Clock,
    /// Cell and key of the block before: the next one goes on its older side.
    parent: (Cell, u64),
}

impl Writer<'_> {
    /// Walks from head to tail, so that what is there already is refreshed before anything is
    /// evicted for what is not.
    fn record(&mut self, recency: &mut Recency, mut chunk: &[BlockHash]) {
        let table = &self.index.table;
        while let Some((block, rest)) = chunk.split_first() {
            chunk = rest;
            let key = key(*block);
            let Some(first) = table.find(key) else {
                self.insert(recency, key);
                continue;
            };
            self.refresh(first);
            // Never in a real chain: the same block twice.
            if first == self.parent_cell() {
                continue;
            }
            let (last, rest) = self.refresh_run(first, chunk);
            chunk = rest;
            let parent = self.parent_cell();
            if table.links(first).1 != parent {
                recency.unlink(table, first, last);
                recency.link(table, first, last, parent);
            }
            self.parent = (last, table.key(last));
        }
    }

    /// Refreshes the blocks after `first` as long as each is the older neighbour of the one before,
    /// as they are if they were last recorded together. Gives the last one and the blocks left.
    fn refresh_run<'b>(&self, first: Cell, mut chunk: &'b [BlockHash]) -> (Cell, &'b [BlockHash]) {
        let table = &self.index.table;
        let mut last = first;
        while let Some((block, rest)) = chunk.split_first() {
            let next = table.links(last).0;
            if next == NO_CELL || next == self.parent.0 || table.key(next) != key(*block) {
                break;
            }
            self.refresh(next);
            last = next;
            chunk = rest;
        }
        (last, chunk)
    }

    fn refresh(&self, cell: Cell) {
        let Clock { now_ms, since } = self.clock;
        self.index
            .table
            .refresh(cell, self.word, self.bit, since, now_ms);
    }

    fn insert(&mut self, recency: &mut Recency, key: u64) {
        let Self {
            index,
            word,
            bit,
            clock,
            ..
        } = *self;
        if let Some(cell) = index.insert(recency, key, word, bit, clock) {
            recency.link(&index.table, cell, cell, self.parent_cell());
            self.parent = (cell, key);
        }
    }

    /// Unless another writer, or room made for the block itself, has taken it out.
    fn parent_cell(&self) -> Cell {
        let (cell, key) = self.parent;
        let there = cell != NO_CELL && self.index.table.key(cell) == key;
        if there { cell } else { NO_CELL }
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
