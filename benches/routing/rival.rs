//! The index beside one on quick_cache: block to bitmap of pods, read by `peek`, written deepest
//! block first. quick_cache protects what is read often from what is written once, which is not
//! the order the index promises; `get` on every write comes nearest to a refresh.

use std::collections::HashSet;
use std::hint::black_box;
use std::io::Read;

use criterion::{BenchmarkId, Criterion};
use quick_cache::sync::Cache;
use warmgate::routing::index::{Matches, PrefixIndex};
use warmgate::routing::{BlockHash, PodSlot};

use super::{MAX_BLOCKS, Numbers, TTL};

trait Index {
    fn new(max_blocks: usize) -> Self;
    fn depth(&self, blocks: &[BlockHash], matches: &mut Matches) -> usize;
    fn record(&self, blocks: &[BlockHash]);
    fn holds(&self, block: BlockHash, matches: &mut Matches) -> bool {
        self.depth(&[block], matches) == 1
    }
    fn bytes(&self) -> usize;
    fn len(&self) -> usize;
}

impl Index for PrefixIndex {
    fn new(max_blocks: usize) -> Self {
        Self::new(max_blocks, TTL, 64)
    }

    fn depth(&self, blocks: &[BlockHash], matches: &mut Matches) -> usize {
        self.longest_match(blocks, 0, [PodSlot(0)], matches);
        matches.depth(PodSlot(0)) as usize
    }

    fn record(&self, blocks: &[BlockHash]) {
        self.record(PodSlot(0), blocks, 0);
    }

    fn bytes(&self) -> usize {
        self.bytes()
    }

    fn len(&self) -> usize {
        self.len()
    }
}

/// Without a time to live: the comparison is in its favour there.
struct QuickCache(Cache<u64, u64>);

impl Index for QuickCache {
    fn new(max_blocks: usize) -> Self {
        Self(Cache::new(max_blocks))
    }

    /// Galloping as well, for one pod.
    fn depth(&self, blocks: &[BlockHash], _: &mut Matches) -> usize {
        let holds = |block: &BlockHash| self.0.peek(&block.0).is_some_and(|pods| pods & 1 != 0);
        let mut reach = 1;
        while reach < blocks.len() && holds(&blocks[reach - 1]) {
            reach *= 2;
        }
        blocks[..reach.min(blocks.len())].partition_point(holds)
    }

    fn record(&self, blocks: &[BlockHash]) {
        for block in blocks.iter().rev() {
            let pods = self.0.get(&block.0).unwrap_or(0);
            if pods & 1 == 0 {
                self.0.insert(block.0, pods | 1);
            }
        }
    }

    fn bytes(&self) -> usize {
        self.0.memory_used().total()
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

pub(crate) fn compare(criterion: &mut Criterion) {
    times::<PrefixIndex>(criterion, "ours");
    times::<QuickCache>(criterion, "quick_cache");
    report::<PrefixIndex>("ours");
    report::<QuickCache>("quick_cache");
}

fn times<I: Index>(criterion: &mut Criterion, name: &str) {
    let mut group = criterion.benchmark_group("rival");
    let mut numbers = Numbers(8);
    let (index, mut matches) = (I::new(MAX_BLOCKS), Matches::default());
    let known: Vec<_> = (0..90).map(|_| numbers.chain(1024)).collect();
    known.iter().for_each(|chain| index.record(chain));
    let mut turn = 0;
    group.bench_function(BenchmarkId::new("match-1024", name), |bencher| {
        bencher.iter(|| {
            turn = (turn + 1) % known.len();
            index.depth(black_box(&known[turn]), &mut matches)
        });
    });
    group.bench_function(BenchmarkId::new("refresh-1024", name), |bencher| {
        bencher.iter(|| {
            turn = (turn + 1) % known.len();
            index.record(black_box(&known[turn]));
        });
    });
    group.bench_function(BenchmarkId::new("insert-1024", name), |bencher| {
        bencher.iter_batched(
            || numbers.chain(1024),
            |chain| index.record(&chain),
            criterion::BatchSize::SmallInput,
        );
    });
    group.finish();
}

/// Prints bytes a block, hits on the trace, and blocks that are held while their head is gone.
#[expect(clippy::print_stdout, reason = "a bench reports on standard output")]
fn report<I: Index>(name: &str) {
    let mut matches = Matches::default();
    let trace = trace();
    let total: usize = trace.iter().map(Vec::len).sum();
    for max_blocks in [2000, 20_000, 100_000] {
        let index = I::new(max_blocks);
        let mut hits = 0;
        for blocks in &trace {
            hits += index.depth(blocks, &mut matches);
            index.record(blocks);
        }
        let mut orphans: HashSet<&BlockHash> = HashSet::new();
        for blocks in &trace {
            let held = blocks
                .iter()
                .take_while(|block| index.holds(**block, &mut matches))
                .count();
            let rest = blocks[held..].iter();
            orphans.extend(rest.filter(|block| index.holds(**block, &mut matches)));
        }
        println!(
            "rival/{name}/{max_blocks}: {:.4} of blocks hit, {:.1} bytes a block, {} of {} blocks \
             without their head",
            hits as f64 / total as f64,
            index.bytes() as f64 / max_blocks as f64,
            orphans.len(),
            index.len(),
        );
    }
}

fn trace() -> Vec<Vec<BlockHash>> {
    let packed = include_bytes!("../../tests/data/mooncake-conversation.jsonl.gz");
    let mut text = String::new();
    let whole = flate2::read::GzDecoder::new(&packed[..]).read_to_string(&mut text);
    assert!(whole.is_ok(), "the trace is damaged");
    let request = |line: &str| {
        let ids = line
            .split_once("\"hash_ids\": [")
            .map_or("", |(_, ids)| ids);
        let mut parent = 0;
        let block = |id: &str| {
            let id: u64 = id.trim_end_matches(['}', ']']).trim().parse().ok()?;
            parent = xxhash_rust::xxh3::xxh3_64_with_seed(&id.to_le_bytes(), parent);
            Some(BlockHash(parent))
        };
        ids.split(',').filter_map(block).collect()
    };
    text.lines().map(request).collect()
}
