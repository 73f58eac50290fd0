//! What choosing a pod costs: `cargo bench --bench routing`.
//!
//! Names are `area/case/parameter`, seeds are fixed. Prompts are random bytes; "warm" ones share
//! all but their end with what some pods hold. `rival` compares the index with one on quick_cache
//! and prints, beside the times, what both need and hit.

#[path = "routing/rival.rs"]
mod rival;

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use warmgate::routing::index::{Matches, PrefixIndex};
use warmgate::routing::settings::RoutingSettings;
use warmgate::routing::{
    BlockHash, BlockHasher, Load, Overrides, PodDetail, PodSlot, PodView, PrefixBlocks, Request,
    Router, Scope, Scratch, strategy,
};

const KIB: usize = 1024;
const MAX_BLOCKS: usize = 200_000;
const TTL: Duration = Duration::from_secs(1200);
const SCOPE: Scope<'static> = Scope {
    model: "model",
    cache_salt: None,
};

/// SplitMix64: the same bytes in every run.
struct Numbers(u64);

impl Numbers {
    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn text(&mut self, bytes: usize) -> Vec<u8> {
        (0..bytes)
            .map(|_| b'a' + (self.draw() % 26) as u8)
            .collect()
    }

    fn chain(&mut self, blocks: usize) -> Vec<BlockHash> {
        (0..blocks).map(|_| BlockHash(self.draw())).collect()
    }
}

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

fn detail(slot: u16, numbers: &mut Numbers) -> PodDetail {
    let mut share = || Some((numbers.draw() % 100) as f64 / 100.0);
    PodDetail {
        address: format!("10.0.0.{slot}:8000"),
        cpu_cache_usage: share(),
        utilization: share(),
        busy: share(),
        queue_seconds: share(),
        prefill_seconds_per_token: share(),
        decode_seconds_per_token: share(),
        output_tokens: share(),
        weighted_token_rate: share(),
    }
}

fn views(pods: u16) -> Vec<PodView> {
    let mut numbers = Numbers(6);
    let view = |slot| PodView {
        slot: PodSlot(slot),
        load: Load {
            in_flight: (numbers.draw() % 6) as u32,
            running_seconds: (numbers.draw() % 60) as f64,
            kv_usage: Some((numbers.draw() % 80) as f64 / 100.0),
            output_rate: Some(1000.0 + (numbers.draw() % 500) as f64),
            prefill_rate: Some(8000.0 + (numbers.draw() % 500) as f64),
            pending_prefill: numbers.draw() % 5000,
            ..Load::default()
        },
        detail: Some(Arc::new(detail(slot, &mut numbers))),
    };
    (0..pods).map(view).collect()
}

/// A router whose index is full, and prompts of which two thirds have been sent before.
struct Setting {
    router: Router,
    pods: Vec<PodView>,
    prompts: Vec<Vec<u8>>,
}

impl Setting {
    fn new(block_size: usize, bytes: usize, pods: u16) -> Self {
        let mut settings = RoutingSettings::default();
        settings.prefix_cache.block_size = block_size;
        let blocks = (bytes / block_size) as u64;
        let setting = Self {
            router: Router::new(settings, usize::from(pods), 1),
            pods: views(pods),
            // As many as the index holds, or they would be cold again at each turn.
            prompts: (0..(MAX_BLOCKS as u64 / 2 / blocks).clamp(2, 32))
                .map(|seed| Numbers(seed).text(bytes))
                .collect(),
        };
        let mut numbers = Numbers(7);
        for at in 0..2000u16 {
            let other = PrefixBlocks::from(numbers.chain(100));
            setting.router.record(PodSlot(at % pods), &other, 0);
        }
        setting
    }

    /// Hash, match, score, record, once for each turn.
    fn decide(&self, strategy: &str, turns: u64, seed: u64) -> Duration {
        let Ok(plan) = self.router.plan(strategy, &Overrides::default()) else {
            return Duration::ZERO;
        };
        let (mut blocks, mut scratch) = (PrefixBlocks::default(), Scratch::default());
        let start = Instant::now();
        for turn in 0..turns {
            let prompt = &self.prompts[(seed + turn) as usize % self.prompts.len()];
            let bytes = if turn % 3 == 0 {
                prompt.len()
            } else {
                prompt.len() * 2 / 3
            };
            // Two pieces, as a system prompt and a message are.
            let (head, tail) = prompt[..bytes].split_at(bytes / 3);
            if plan.needs_prefix() {
                self.router.hash(SCOPE, [head, tail], &mut blocks);
            }
            let request = Request {
                blocks: &blocks,
                seed: seed ^ turn,
                now_ms: 1,
                prompt_tokens: Request::tokens_of(bytes),
                user: Some(["a", "b", "c"][turn as usize % 3]),
                ..Request::default()
            };
            if let Ok(choice) = self.router.route(&plan, &request, &self.pods, &mut scratch) {
                self.router.record(choice.slot, &blocks, 1);
                self.router.sent(&plan, &request, &choice);
            }
        }
        start.elapsed()
    }
}

fn route(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("route");
    for (block_size, bytes, pods) in [
        (128, KIB, 4),
        (128, KIB, 64),
        (128, KIB, 1024),
        (128, 16 * KIB, 64),
        (128, 128 * KIB, 64),
        (128, KIB * KIB, 64),
        (4, 128 * KIB, 64),
    ] {
        let setting = Setting::new(block_size, bytes * 9 / 7, pods);
        let case = format!("block-{block_size}-{pods}-pods");
        group.bench_function(
            BenchmarkId::new(case, format!("{}KiB", bytes / KIB)),
            |bencher| {
                bencher.iter_custom(|turns| setting.decide("prefix-cache", turns, 0));
            },
        );
    }
    for definition in strategy::ALL {
        let setting = Setting::new(128, KIB, 64);
        group.bench_function(
            BenchmarkId::new(definition.name, "64-pods-1KiB"),
            |bencher| {
                bencher.iter_custom(|turns| setting.decide(definition.name, turns, 0));
            },
        );
    }
    group.finish();
}

/// Time for a decision of one thread while others decide too; the same as alone is ideal.
fn contended(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("contended");
    for bytes in [KIB, 16 * KIB, 128 * KIB] {
        let setting = Setting::new(128, bytes, 64);
        for threads in [1, 2] {
            let name =
                BenchmarkId::new(format!("{threads}-threads"), format!("{}KiB", bytes / KIB));
            group.bench_function(name, |bencher| {
                bencher.iter_custom(|turns| {
                    let start = Instant::now();
                    std::thread::scope(|scope| {
                        for thread in 0..threads {
                            let setting = &setting;
                            scope.spawn(move || setting.decide("prefix-cache", turns, thread * 11));
                        }
                    });
                    start.elapsed()
                });
            });
        }
    }
    group.finish();
}

criterion_group!(
    benches,
    hash,
    match_depth,
    record,
    route,
    contended,
    rival::compare
);
criterion_main!(benches);
