//! What a whole decision costs: `cargo bench --bench decision`.
//!
//! A decision is all that the gateway thinks about a request: read the body, hash its prompt, match, score, record. Two
//! thirds of each prompt have been sent before; the index is full, with time going on as it does in the gateway.

#[path = "common/numbers.rs"]
mod numbers;

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use serde_json::json;
use warmgate::request::{self, ParseOptions, PathKind};
use warmgate::routing::settings::RoutingSettings;
use warmgate::routing::{
    Load, Overrides, PodDetail, PodSlot, PodView, PrefixBlocks, Request, Router, Scope, Scratch,
    strategy,
};

use numbers::Numbers;

const KIB: usize = 1024;
const MAX_BLOCKS: usize = 200_000;
const OPTIONS: ParseOptions = ParseOptions {
    include_tools: true,
};

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

/// A router whose index is full, and bodies of which two thirds have been sent before.
struct Setting {
    router: Router,
    pods: Vec<PodView>,
    /// A prompt whole, and its first two thirds.
    bodies: Vec<[Vec<u8>; 2]>,
}

/// A system prompt and a message, with `bytes` of text in all.
fn chat(text: &[u8]) -> Vec<u8> {
    let (system, user) = text.split_at(text.len() / 3);
    let [system, user] = [system, user].map(String::from_utf8_lossy);
    let messages =
        json!([{"role": "system", "content": system}, {"role": "user", "content": user}]);
    json!({"model": "m", "stream": true, "messages": messages})
        .to_string()
        .into_bytes()
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
            bodies: (0..(MAX_BLOCKS as u64 / 2 / blocks).clamp(2, 32))
                .map(|seed| {
                    let text = Numbers(seed).text(bytes);
                    [chat(&text), chat(&text[..bytes * 2 / 3])]
                })
                .collect(),
        };
        let mut numbers = Numbers(7);
        for at in 0..2000u16 {
            let other = PrefixBlocks::from(numbers.chain(100));
            setting.router.record(PodSlot(at % pods), &other, 0);
        }
        setting
    }

    fn decide(&self, strategy: &str, turns: u64, seed: u64) -> Duration {
        let Ok(plan) = self.router.plan(strategy, &Overrides::default()) else {
            return Duration::ZERO;
        };
        let (mut blocks, mut scratch) = (PrefixBlocks::default(), Scratch::default());
        let start = Instant::now();
        for turn in 0..turns {
            let bodies = &self.bodies[(seed + turn) as usize % self.bodies.len()];
            let body = black_box(&bodies[usize::from(turn % 3 != 0)]);
            let Ok(parsed) = request::parse(PathKind::ChatCompletions, None, body, &OPTIONS) else {
                return Duration::ZERO;
            };
            if plan.needs_prefix() {
                let scope = Scope {
                    model: &parsed.model,
                    cache_salt: None,
                };
                self.router
                    .hash(scope, |show| parsed.prompt.each(show), &mut blocks);
            }
            let request = Request {
                blocks: &blocks,
                seed: seed ^ turn,
                now_ms: 1_000_000 + start.elapsed().as_millis() as u64,
                prompt_tokens: Request::tokens_of(parsed.prompt.len()),
                user: Some(["a", "b", "c"][turn as usize % 3]),
                ..Request::default()
            };
            if let Ok(choice) = self.router.route(&plan, &request, &self.pods, &mut scratch) {
                self.router.record(choice.slot, &blocks, request.now_ms);
                self.router.sent(&plan, &request, &choice);
            }
        }
        start.elapsed()
    }
}

fn decision(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decision");
    for (block_size, kib, pods) in [
        (128, 1, 64),
        (128, 16, 64),
        (128, 128, 64),
        (128, KIB, 64),
        (128, 4 * KIB, 64),
        (4, 128, 64),
        (128, 16, 4),
        (128, 16, 256),
        (128, 16, 1024),
    ] {
        let setting = Setting::new(block_size, kib * KIB * 9 / 7, pods);
        let case = format!("block-{block_size}-{pods}-pods");
        group.bench_function(BenchmarkId::new(case, format!("{kib}KiB")), |bencher| {
            bencher.iter_custom(|turns| setting.decide("prefix-cache", turns, 0));
        });
    }
    group.finish();
}

fn strategies(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("strategy");
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
    for kib in [1, 16, 128] {
        let setting = Setting::new(128, kib * KIB, 64);
        for threads in [1, 2] {
            let name = BenchmarkId::new(format!("{threads}-threads"), format!("{kib}KiB"));
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

criterion_group!(benches, decision, strategies, contended);
criterion_main!(benches);
