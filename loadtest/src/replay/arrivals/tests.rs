use super::*;

/// (seconds, prompt tokens, blocks); each block's hash stands for its chain.
fn turns(requests: &[(u64, usize, &[u64])]) -> Vec<Turn> {
    let turn = |&(at, prompt_tokens, blocks): &(u64, usize, &[u64])| Turn {
        at_us: at * 1_000_000,
        prompt_tokens,
        output_tokens: 1,
        blocks: blocks.iter().copied().map(BlockHash).collect(),
        ..Turn::default()
    };
    requests.iter().map(turn).collect()
}

fn check_sessions(requests: &[(u64, usize, &[u64])], expected: &[Option<usize>]) {
    assert_eq!(previous_turns(&turns(requests)), expected, "{requests:?}");
}

fn arrivals(turns: Vec<Turn>, timing: Timing, scale: f64, spread: bool) -> Arrivals {
    let trace = Trace {
        format: "test",
        block_tokens: 10,
        turns,
    };
    let engine = EngineModel {
        prefill_us: 1000.0,
        ..EngineModel::default()
    };
    Arrivals::new(&trace, timing, scale, spread, &engine)
}

#[test]
fn a_prompt_that_grows_is_a_session() {
    check_sessions(
        &[
            (0, 21, &[1, 2]),
            (1, 45, &[1, 2, 3, 4]),
            (2, 50, &[1, 2, 3, 4, 5]),
        ],
        &[None, Some(0), Some(1)],
    );
    // Longer, but not by a block.
    check_sessions(&[(0, 21, &[1, 2]), (1, 29, &[1, 2])], &[None, Some(0)]);
    // Two sessions that take turns.
    check_sessions(
        &[
            (0, 20, &[1, 2]),
            (0, 20, &[1, 7]),
            (1, 30, &[1, 7, 8]),
            (2, 30, &[1, 2, 3]),
        ],
        &[None, None, Some(1), Some(0)],
    );
}

#[test]
fn what_only_begins_alike_is_none() {
    // The second ends with what was known from the first.
    check_sessions(
        &[(0, 30, &[1, 2, 3]), (1, 15, &[1]), (2, 35, &[1, 8, 9])],
        &[None, None, None],
    );
    check_sessions(&[(0, 5, &[]), (1, 8, &[])], &[None, None]);
    // The same prompt again; two at one moment; two branches of one prompt.
    check_sessions(&[(0, 20, &[1, 2]), (1, 20, &[1, 2])], &[None, None]);
    check_sessions(&[(0, 20, &[1, 2]), (0, 30, &[1, 2, 3])], &[None, None]);
    check_sessions(
        &[(0, 20, &[1, 2]), (1, 30, &[1, 2, 3]), (2, 30, &[1, 2, 4])],
        &[None, Some(0), None],
    );
}

#[test]
fn a_recorded_session_needs_no_growing_prompt() {
    let mut turns = turns(&[(0, 20, &[1, 2]), (1, 30, &[1, 2, 3]), (2, 20, &[7])]);
    turns[0].session = Some(5);
    turns[2].session = Some(5);
    assert_eq!(previous_turns(&turns), [None, None, Some(0)]);
}

#[test]
fn recorded_times_are_kept_and_scaled() {
    let found = arrivals(
        turns(&[(0, 21, &[1, 2]), (10, 45, &[1, 2, 3, 4])]),
        Timing::Timestamps,
        0.5,
        false,
    );
    assert_eq!(found.fixed, [(0, 0), (5_000_000, 1)]);
    assert_eq!(found.next, [None, None]);
}

#[test]
fn a_pause_begins_where_the_answer_ended() {
    let mut turns = turns(&[
        (0, 2000, &[1, 2]),
        (10, 3000, &[1, 2, 3]),
        (20, 4000, &[1, 2, 3, 4]),
    ]);
    // Recorded; that of the first is what its 2000 tokens take alone.
    turns[1].took_us = Some(7_000_000);
    let found = arrivals(turns, Timing::ThinkTime, 0.5, false);
    assert_eq!(found.fixed, [(0, 0)]);
    assert_eq!(
        found.next,
        [Some((1, 4_000_000)), Some((2, 1_500_000)), None]
    );
}

#[test]
fn one_moment_is_spread_until_the_next() {
    let turns = turns(&[
        (0, 1, &[]),
        (0, 1, &[]),
        (0, 1, &[]),
        (3, 1, &[]),
        (4, 1, &[]),
        (4, 1, &[]),
    ]);
    let found = arrivals(turns, Timing::Timestamps, 1.0, true);
    let seconds: Vec<u64> = found.fixed.iter().map(|(at, _)| at / 1_000_000).collect();
    assert_eq!(seconds, [0, 1, 2, 3, 4, 4]);
}
