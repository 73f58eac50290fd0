//! What the parts of a choice cost: `cargo bench --bench routing`.
//!
//! Names are `area/case/parameter`, seeds are fixed. Prompts are random bytes; "warm" ones share
//! all but their end with what some pods hold. `rival` compares the index with one on quick_cache
//! and prints, beside the times, what both need and hit.

#[path = "common/numbers.rs"]
mod numbers;
#[path = "routing/rival.rs"]
mod rival;

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use warmgate::routing::index::{Matches, PrefixIndex};
use warmgate::routing::{BlockHasher, PodSlot, PrefixBlocks, Scope};

use numbers::Numbers;

const KIB: usize = 1024;
const MAX_BLOCKS: usize = 200_000;
const TTL: Duration = Duration::from_secs(1200);
const SCOPE: Scope<'static> = Scope {
    model: "model",
    cache_salt: None,
};

fn hash(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("hash");
    let mut blocks = PrefixBlocks::default();
    for (block_size, bytes) in [
        (128, KIB),
        (128, 16 * KIB),
        (128, 128 * KIB),
        (128, KIB * KIB),
        (4, 128 * KIB),
    ] {
        let text = Numbers(1).text(bytes);
        let hasher = BlockHasher::new(block_size, 1, MAX_BLOCKS);
        group.throughput(Throughput::Bytes(bytes as u64));
        let name = BenchmarkId::new(format!("block-{block_size}"), format!("{}KiB", bytes / KIB));
        group.bench_function(name, |bencher| {
            bencher.iter(|| hasher.fill(SCOPE, [black_box(&text[..])], &mut blocks));
        });
    }
    group.finish();
}

/// An index full of other prompts, as it is after an hour.
fn full_index(pods: u16) -> PrefixIndex {
    let index = PrefixIndex::new(MAX_BLOCKS, TTL, usize::from(pods));
    let mut numbers = Numbers(2);
    for at in 0..(MAX_BLOCKS / 100) as u64 {
        index.record(
            PodSlot((at % u64::from(pods)) as u16),
            &numbers.chain(100),
            at,
        );
    }
    index
}

fn match_depth(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("match");
    for (pods, blocks) in [
        (4, 1024),
        (64, 8),
        (64, 128),
        (64, 1024),
        (64, 8192),
        (1024, 1024),
    ] {
        let index = full_index(pods);
        let chain = Numbers(3).chain(blocks);
        // Every fourth pod holds a part, each another one.
        for pod in (0..pods).step_by(4) {
            let held = blocks * usize::from(pod + 4) / usize::from(pods);
            index.record(PodSlot(pod), &chain[..held.max(1)], 10_000);
        }
        let mut matches = Matches::default();
        for (case, chain) in [("warm", chain), ("cold", Numbers(4).chain(blocks))] {
            let name = BenchmarkId::new(case, format!("{pods}-pods-{blocks}-blocks"));
            group.bench_function(name, |bencher| {
                bencher.iter(|| {
                    let slots = (0..pods).map(PodSlot);
                    index.longest_match(black_box(&chain), 10_000, slots, &mut matches);
                });
            });
        }
    }
    group.finish();
}

/// The same prompt in indexes of ever more blocks, all full.
#[expect(clippy::print_stdout, reason = "a bench reports on standard output")]
fn growth(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("match-growth");
    for millions in [1, 10, 50] {
        let blocks = millions * 1_000_000;
        let index = PrefixIndex::new(blocks, TTL, 64);
        let mut numbers = Numbers(2);
        for at in 0..(blocks / 1000) as u64 {
            index.record(PodSlot((at % 64) as u16), &numbers.chain(1000), 0);
        }
        let chains: Vec<_> = (0..64).map(|_| numbers.chain(1024)).collect();
        for (pod, chain) in (0..).zip(&chains) {
            index.record(PodSlot(pod), &chain[..700], 0);
        }
        let per_block = index.bytes() as f64 / blocks as f64;
        println!("match-growth/{millions}-million-blocks: {per_block:.1} bytes a block");
        let mut matches = Matches::default();
        let mut turn = 0;
        group.bench_function(format!("{millions}-million-blocks"), |bencher| {
            bencher.iter(|| {
                turn = (turn + 1) % chains.len();
                let slots = (0..64).map(PodSlot);
                index.longest_match(black_box(&chains[turn]), 0, slots, &mut matches);
            });
        });
    }
    group.finish();
}

fn record(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("record");
    for blocks in [8, 128, 1024, 8192] {
        let index = full_index(64);
        group.throughput(Throughput::Elements(blocks as u64));
        let mut numbers = Numbers(5);
        let known: Vec<_> = (0..(MAX_BLOCKS / 2 / blocks))
            .map(|_| numbers.chain(blocks))
            .collect();
        known
            .iter()
            .for_each(|chain| index.record(PodSlot(0), chain, 0));
        let mut turn = 0;
        group.bench_function(BenchmarkId::new("again", blocks), |bencher| {
            bencher.iter(|| {
                turn = (turn + 1) % known.len();
                index.record(PodSlot(0), &known[turn], 0);
            });
        });
        // Each a second after the one before, so that none is passed over as just refreshed.
        let mut now_ms = 0;
        group.bench_function(BenchmarkId::new("refresh", blocks), |bencher| {
            bencher.iter(|| {
                turn = (turn + 1) % known.len();
                now_ms += 1000;
                index.record(PodSlot(1), &known[turn], now_ms);
            });
        });
        group.bench_function(BenchmarkId::new("insert-evict", blocks), |bencher| {
            bencher.iter_batched(
                || numbers.chain(blocks),
                |chain| index.record(PodSlot(1), &chain, 0),
                criterion::BatchSize::SmallInput,
            );
        });
    }
    group.bench_function("clear/200000", |bencher| {
        let index = full_index(64);
        bencher.iter(|| index.clear(black_box(PodSlot(63))));
    });
    group.finish();
}

criterion_group!(benches, hash, match_depth, growth, record, rival::compare);
criterion_main!(benches);
