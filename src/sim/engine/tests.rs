use std::collections::HashMap;

use super::*;

const BLOCK_TOKENS: usize = 16;

/// A prompt of so many blocks and one token more; another seed shares nothing with it.
fn job(blocks: usize, seed: u64, output_tokens: usize) -> Job {
    Job {
        blocks: (0..blocks as u64).map(|at| seed << 32 | at).collect(),
        prompt_tokens: blocks * BLOCK_TOKENS + 1,
        output_tokens,
    }
}

fn run(engine: &mut Engine) -> Vec<Event> {
    let mut events = Vec::new();
    while let Some(at) = engine.next_at() {
        engine.step(at, &mut events);
    }
    events
}

fn cached(engine: &mut Engine, job: Job) -> usize {
    engine.submit(0, job);
    match run(engine).as_slice() {
        [
            Event::FirstToken { cached_tokens, .. },
            Event::Finished { .. },
        ] => *cached_tokens,
        other => panic!("unexpected {other:?}"),
    }
}

#[test]
fn every_job_gets_all_its_tokens_whatever_the_pressure() {
    let mut engine = Engine::new(EngineModel {
        max_sequences: 3,
        kv_blocks: 12,
        step_tokens: 40,
        ..EngineModel::default()
    });
    let mut wanted = HashMap::new();
    for n in 0..50 {
        let wish = job(n % 20, n as u64, n % 7 + 1);
        wanted.insert(engine.submit(n as u64 * 1_000, wish), n % 7 + 1);
    }
    let mut tokens = HashMap::new();
    let mut finished = 0;
    for event in run(&mut engine) {
        match event {
            Event::FirstToken { job, .. } | Event::Token { job } => {
                *tokens.entry(job).or_insert(0) += 1;
            }
            Event::Finished { .. } => finished += 1,
        }
    }
    assert_eq!((tokens, finished), (wanted, 50));
    assert_eq!(engine.kv_usage(), 0.0);
}

#[test]
fn cached_tokens_grow_over_a_conversation() {
    let mut engine = Engine::new(EngineModel::default());
    let found: Vec<usize> = [2, 4, 7]
        .iter()
        .map(|&blocks| cached(&mut engine, job(blocks, 1, 1)))
        .collect();
    assert_eq!(found, [0, 2 * BLOCK_TOKENS, 4 * BLOCK_TOKENS]);
}

#[test]
fn the_last_token_is_always_computed() {
    let mut engine = Engine::new(EngineModel::default());
    let exact = Job {
        prompt_tokens: 3 * BLOCK_TOKENS,
        ..job(3, 1, 1)
    };
    cached(&mut engine, exact.clone());
    assert_eq!(cached(&mut engine, exact), 2 * BLOCK_TOKENS);
}

#[test]
fn the_tail_of_the_oldest_prompt_is_evicted_first() {
    let mut engine = Engine::new(EngineModel {
        kv_blocks: 10,
        ..EngineModel::default()
    });
    cached(&mut engine, job(4, 1, 1));
    cached(&mut engine, job(4, 2, 1));
    // Four blocks and one for the answer: three of the ten must go.
    cached(&mut engine, job(4, 3, 1));
    let probe = |engine: &mut Engine, seed| engine.kv.matched(&job(4, seed, 1).blocks);
    assert_eq!([1, 2, 3].map(|seed| probe(&mut engine, seed)), [1, 4, 4]);
}

#[test]
fn cancel_frees_blocks_and_lets_the_next_in() {
    let mut engine = Engine::new(EngineModel {
        max_sequences: 1,
        ..EngineModel::default()
    });
    let mut events = Vec::new();
    let first = engine.submit(0, job(4, 1, 1_000_000));
    let second = engine.submit(0, job(4, 2, 1));
    engine.step(0, &mut events);
    assert_eq!((engine.running(), engine.waiting()), (1, 1));
    assert!(engine.kv_usage() > 0.0);
    engine.cancel(first);
    assert_eq!(engine.kv_usage(), 0.0);
    let told = run(&mut engine);
    assert_eq!(told.last(), Some(&Event::Finished { job: second }));
    assert!(!told.contains(&Event::Token { job: first }));
}

#[test]
fn time_is_prefill_of_what_is_not_cached_then_decode_steps() {
    let check = |prompt_blocks: usize, warm_blocks: usize, output: usize, wanted_us: u64| {
        let mut engine = Engine::new(EngineModel::default());
        if warm_blocks > 0 {
            cached(&mut engine, job(warm_blocks, 1, 1));
        }
        engine.submit(0, job(prompt_blocks, 1, output));
        let mut last = 0;
        while let Some(at) = engine.next_at() {
            last = at;
            engine.step(at, &mut Vec::new());
        }
        assert_eq!(last, wanted_us, "{prompt_blocks} {warm_blocks} {output}");
    };
    check(5, 0, 1, 81 * 125);
    check(5, 0, 3, 81 * 125 + 2 * 10_200);
    check(5, 4, 1, 17 * 125);
}

#[test]
fn a_job_that_has_to_wait_for_room_evicts_nothing() {
    let mut engine = Engine::new(EngineModel {
        kv_blocks: 20,
        ..EngineModel::default()
    });
    cached(&mut engine, job(4, 1, 1));
    let mut events = Vec::new();
    engine.submit(0, job(4, 2, 100));
    engine.step(0, &mut events);
    engine.submit(0, job(10, 3, 1));
    engine.step(1_000_000, &mut events);
    assert_eq!((engine.waiting(), engine.totals().evicted_blocks), (1, 0));
}

#[test]
fn a_job_larger_than_the_cache_ends_all_the_same() {
    let mut engine = Engine::new(EngineModel {
        kv_blocks: 4,
        ..EngineModel::default()
    });
    for seed in 1..3 {
        assert_eq!(cached(&mut engine, job(9, seed, 1)), 0);
    }
}
