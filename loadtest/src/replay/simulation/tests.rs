use std::path::Path;

use warmgate::routing::BlockHash;

use super::super::arrivals::Timing;
use super::super::figures::Figures;
use super::*;
use crate::trace::{self, Turn};

/// One millisecond a prompt token, ten a step that decodes.
fn engine(block_tokens: usize) -> EngineModel {
    EngineModel {
        block_tokens,
        kv_blocks: 1000,
        prefill_us: 1000.0,
        decode_base_us: 10_000.0,
        decode_us: 0.0,
        ..EngineModel::default()
    }
}

/// (milliseconds, blocks of ten tokens), each prompt with five tokens more and two tokens' answer.
fn small(requests: &[(u64, &[u64])]) -> Trace {
    let turn = |&(at, blocks): &(u64, &[u64])| Turn {
        at_us: at * 1000,
        prompt_tokens: blocks.len() * 10 + 5,
        output_tokens: 2,
        blocks: blocks.iter().copied().map(BlockHash).collect(),
        ..Turn::default()
    };
    Trace {
        format: "test",
        block_tokens: 10,
        turns: requests.iter().map(turn).collect(),
    }
}

fn replay(trace: &Trace, timing: Timing, pods: u16, seed: u64, strategy: &str) -> Seen {
    let engine = engine(trace.block_tokens);
    let setting = Setting {
        arrivals: &Arrivals::new(trace, timing, 1.0, false, &engine),
        routing: RoutingSettings::default(),
        engine,
        trace,
        pods,
        poll: Duration::from_secs(1),
        seed,
    };
    simulate(&setting, strategy).unwrap()
}

fn times(seen: &Seen) -> Vec<(u64, u64, u64)> {
    let ms = |request: &SeenRequest| {
        (
            request.arrived / 1000,
            request.first_token / 1000,
            request.ended / 1000,
        )
    };
    seen.requests.iter().map(ms).collect()
}

// By hand: what comes first computes 25 tokens, what continues it on the same pod 15, since two of
// its three blocks are there.
#[test]
fn a_small_trace_takes_what_it_takes() {
    let trace = small(&[
        (0, &[1, 2]),
        (100, &[7, 8]),
        (200, &[1, 2, 3]),
        (300, &[7, 8, 9]),
    ]);
    let seen = replay(&trace, Timing::Timestamps, 2, 1, "prefix-cache");
    assert_eq!(seen.run, "prefix-cache:5,load-balance:4");
    assert_eq!(
        times(&seen),
        [
            (0, 25, 35),
            (100, 125, 135),
            (200, 215, 225),
            (300, 315, 325)
        ]
    );
    let slots: Vec<u16> = seen.requests.iter().map(|request| request.slot).collect();
    assert_eq!((slots[2], slots[3]), (slots[0], slots[1]));
    let figures = Figures::new("prefix-cache", &seen, &engine(10));
    assert_eq!((figures.saved_tokens, figures.prompt_tokens), (40, 120));
    assert_eq!((figures.requests, figures.requests_by_pod), (4, vec![2, 2]));
    assert_eq!(
        (figures.ttft_ms.mean, figures.end_to_end_ms.p99),
        (20.0, 35.0)
    );
    assert_eq!((figures.span_s, figures.imbalance), (0.325, 1.0));
    // 80 tokens of 1 ms on two engines.
    assert_eq!(figures.prefill_share, 0.080 / 0.650);
}

// The second comes while the first is computed and waits for the end of its step.
#[test]
fn requests_wait_for_each_other_on_one_pod() {
    let trace = small(&[(0, &[1, 2]), (10, &[7, 8])]);
    let seen = replay(&trace, Timing::Timestamps, 1, 1, "random");
    assert_eq!(times(&seen), [(0, 25, 60), (10, 60, 70)]);
    assert_eq!(seen.pods[0].busy, 120_000);
}

#[test]
fn a_turn_waits_for_the_answer_that_it_continues() {
    let trace = small(&[(0, &[1, 2]), (10, &[1, 2, 3])]);
    let check = |timing, expected: (u64, u64, u64)| {
        assert_eq!(times(&replay(&trace, timing, 1, 1, "random"))[1], expected);
    };
    check(Timing::Timestamps, (10, 50, 60));
    check(Timing::ThinkTime, (35, 50, 60));
}

#[test]
fn figures_of_engines_are_as_old_as_the_last_poll() {
    let mut pod = Pod::new(PodSlot(0), engine(10));
    let (origin, mut progress) = (Instant::now(), Vec::new());
    pod.poll(0, origin);
    let job = |tokens| Job {
        prompt_tokens: tokens,
        output_tokens: 1,
        ..Job::default()
    };
    pod.send(0, 0, job(5000), 1, 5000);
    pod.step(0, |_| 1, &mut progress);
    pod.send(0, 1, job(9000), 2, 9000);
    let load = pod.view(3_000_000).load;
    assert_eq!((load.in_flight, load.last_pick), (2, 2));
    assert_eq!(load.running_seconds, 6.0);
    assert_eq!((load.prefilling, load.pending_prefill), (2, 14_000));
    assert_eq!((load.queued, load.kv_usage), (Some(0.0), Some(0.0)));
    pod.poll(1, origin);
    let load = pod.view(1).load;
    assert_eq!((load.queued, load.kv_usage), (Some(1.0), Some(0.501)));
}

fn conversations(limit: usize) -> Trace {
    let path = "../tests/data/mooncake-conversation.jsonl.gz";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    trace::load(&path, limit).unwrap()
}

#[test]
fn the_same_seed_gives_the_same_result() {
    let trace = conversations(400);
    for timing in [Timing::Timestamps, Timing::ThinkTime] {
        for strategy in ["random", "prefix-cache"] {
            let run = |seed| replay(&trace, timing, 4, seed, strategy);
            assert_eq!(run(7), run(7));
            assert_ne!(run(7), run(8), "{strategy} leaves nothing to chance");
        }
    }
}

#[test]
fn prefix_cache_hits_more_than_random_on_conversations() {
    let trace = conversations(1500);
    let hit_rate = |strategy| {
        let seen = replay(&trace, Timing::Timestamps, 8, 1, strategy);
        assert!(seen.requests.iter().all(|request| request.ended > 0));
        Figures::new(strategy, &seen, &engine(trace.block_tokens)).hit_rate
    };
    let (random, prefix) = (hit_rate("random"), hit_rate("prefix-cache"));
    assert!(prefix > 1.5 * random, "{prefix} against {random}");
}

#[test]
fn least_work_gives_first_tokens_sooner_than_the_blend_and_whole_answers_no_later() {
    let trace = conversations(1500);
    let engine = EngineModel {
        block_tokens: trace.block_tokens,
        kv_blocks: 1875,
        ..EngineModel::default()
    };
    for timing in [Timing::Timestamps, Timing::ThinkTime] {
        let figures = |strategy| {
            let setting = Setting {
                arrivals: &Arrivals::new(&trace, timing, 0.6, false, &engine),
                routing: RoutingSettings::default(),
                engine: engine.clone(),
                trace: &trace,
                pods: 8,
                poll: Duration::from_secs(1),
                seed: 1,
            };
            Figures::new(strategy, &simulate(&setting, strategy).unwrap(), &engine)
        };
        let (ours, blend) = (figures("least-work"), figures("prefix-cache"));
        let first = (ours.ttft_ms.mean, blend.ttft_ms.mean);
        assert!(first.0 < 0.9 * first.1, "{timing:?}: {first:?}");
        let whole = (ours.end_to_end_ms.mean, blend.end_to_end_ms.mean);
        assert!(whole.0 <= whole.1, "{timing:?}: {whole:?}");
    }
}
