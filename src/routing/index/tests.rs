//! The index against a naive model, its golden cases, and readers beside writers.

mod trace;

use std::collections::HashMap;
use std::time::Duration;

use proptest::prelude::*;

use super::*;

const HOUR: Duration = Duration::from_secs(3600);

/// Chain hashes of a path in a tree of prompts: equal paths, equal hashes.
pub(super) fn chain(path: &[u8]) -> Vec<BlockHash> {
    let mut parent = 1;
    let step = |label: &u8| {
        parent = xxhash_rust::xxh3::xxh3_64_with_seed(&[*label], parent);
        BlockHash(parent)
    };
    path.iter().map(step).collect()
}

pub(super) fn depths(
    index: &PrefixIndex,
    blocks: &[BlockHash],
    now_ms: u64,
    pods: &[u16],
) -> Vec<u32> {
    let mut matches = Matches::default();
    let slots = pods.iter().map(|&pod| PodSlot(pod));
    index.longest_match(blocks, now_ms, slots, &mut matches);
    pods.iter()
        .map(|&pod| matches.depth(PodSlot(pod)))
        .collect()
}

#[test]
fn depth_is_the_number_of_leading_blocks_held() {
    let index = PrefixIndex::new(100, HOUR, 3);
    let full = chain(b"abc");
    assert_eq!(depths(&index, &full[..2], 0, &[1, 2]), [0, 0]);
    index.record(PodSlot(1), &full[..2], 0);
    for (blocks, expected) in [(0, 0), (1, 1), (2, 2), (3, 2)] {
        assert_eq!(depths(&index, &full[..blocks], 0, &[1, 2]), [expected, 0]);
    }
    assert_eq!(
        depths(&index, &chain(b"bc"), 0, &[1]),
        [0],
        "a suffix is no prefix"
    );
    index.record(PodSlot(2), &full, 0);
    assert_eq!(depths(&index, &full, 0, &[2, 1, 0]), [3, 2, 0]);
    assert_eq!(index.len(), 3);
    assert_eq!(depths(&index, &full, 0, &[0]), [0], "only pods asked about");
}

#[test]
fn one_block_of_many_counts_and_two_hundred_pods_have_their_own_depths() {
    let path: Vec<u8> = (0..250).collect();
    let blocks = chain(&path);
    let index = PrefixIndex::new(1000, HOUR, 200);
    for pod in 0..200 {
        index.record(PodSlot(pod), &blocks[..usize::from(pod)], 0);
    }
    let pods: Vec<u16> = (0..200).collect();
    let expected: Vec<u32> = (0..200).collect();
    assert_eq!(depths(&index, &blocks, 0, &pods), expected);
    index.record(PodSlot(256), &blocks, 0);
    assert_eq!(
        depths(&index, &blocks, 0, &[256, 1]),
        [0, 1],
        "beyond the capacity"
    );
}

#[test]
fn the_least_recently_recorded_goes_first_and_looking_up_saves_nothing() {
    let index = PrefixIndex::new(2, HOUR, 1);
    let [a, b, c] = [chain(b"a"), chain(b"b"), chain(b"c")];
    index.record(PodSlot(0), &a, 0);
    index.record(PodSlot(0), &b, 1000);
    assert_eq!(depths(&index, &a, 1000, &[0]), [1]);
    index.record(PodSlot(0), &c, 2000);
    assert_eq!(depths(&index, &a, 2000, &[0]), [0]);
    index.record(PodSlot(0), &b, 3000);
    index.record(PodSlot(0), &a, 4000);
    assert_eq!(
        depths(&index, &b, 4000, &[0]),
        [1],
        "refreshed by its second record"
    );
    assert_eq!(depths(&index, &c, 4000, &[0]), [0]);
    assert_eq!((index.len(), index.evictions()), (2, 2));
}

// The reference records heads first and so evicts heads before tails; here tails go first.
#[test]
fn a_tail_goes_before_its_head() {
    let index = PrefixIndex::new(6, HOUR, 1);
    let long = chain(b"abcd");
    index.record(PodSlot(0), &long, 0);
    for (other, left) in [
        (&b"u"[..], 4),
        (b"v", 4),
        (b"w", 3),
        (b"x", 2),
        (b"y", 1),
        (b"z", 0),
    ] {
        index.record(PodSlot(0), &chain(other), 1);
        assert_eq!(depths(&index, &long, 1, &[0]), [left]);
    }
}

#[test]
fn making_room_for_a_longer_prompt_spares_its_own_prefix() {
    let index = PrefixIndex::new(6, HOUR, 2);
    index.record(PodSlot(1), &chain(b"ab"), 0);
    index.record(PodSlot(0), &chain(b"wxyz"), 1);
    index.record(PodSlot(0), &chain(b"abcd"), 2);
    assert_eq!(depths(&index, &chain(b"abcd"), 2, &[0, 1]), [4, 2]);
    assert_eq!(depths(&index, &chain(b"wxyz"), 2, &[0]), [2]);
}

#[test]
fn what_was_just_recorded_is_not_written_again_but_what_follows_it_is() {
    let index = PrefixIndex::new(1000, HOUR, 2);
    let long = chain(&[1, 2, 3, 4, 5]);
    index.record(PodSlot(0), &long[..3], 1_000);
    index.record(PodSlot(0), &long, 1_050);
    assert_eq!(depths(&index, &long, 1_050, &[0, 1]), [5, 0]);
    // The other pod was not noted, however fresh the blocks are.
    index.record(PodSlot(1), &long[..4], 1_051);
    assert_eq!(depths(&index, &long, 1_051, &[0, 1]), [5, 4]);
    // After the moment the head's time is renewed, so it lives as long as its tail.
    index.record(PodSlot(0), &long, 1_200);
    let last = 1_200 + 3_600_000;
    assert_eq!(depths(&index, &long, last, &[0, 1]), [5, 4]);
    assert_eq!(depths(&index, &long, last + 1, &[0, 1]), [0, 0]);
}

#[test]
fn where_blocks_live_shortly_a_hot_prompt_is_refreshed_at_once() {
    let index = PrefixIndex::new(100, HOUR, 1);
    let hot = chain(&[0, 0, 0]);
    // A thousand blocks a second: a block lives 100 ms, as long as the longest moment.
    for round in 0..100 {
        let now = 1_000 + u64::from(round) * 50;
        for other in 0..50 {
            index.record(PodSlot(0), &chain(&[1 + round, 1 + other])[1..], now - 1);
        }
        // The index is full from the third round on.
        let held = if round > 3 {
            3
        } else {
            depths(&index, &hot, now, &[0])[0]
        };
        assert_eq!(depths(&index, &hot, now, &[0]), [held], "round {round}");
        index.record(PodSlot(0), &hot, now);
    }
}

#[test]
fn blocks_older_than_the_ttl_do_not_match_and_come_back_empty() {
    let index = PrefixIndex::new(100, Duration::from_millis(10), 2);
    let blocks = chain(b"ab");
    index.record(PodSlot(0), &blocks, 5);
    assert_eq!(depths(&index, &blocks, 15, &[0]), [2]);
    assert_eq!(depths(&index, &blocks, 16, &[0]), [0]);
    index.record(PodSlot(1), &blocks[..1], 16);
    assert_eq!(depths(&index, &blocks, 16, &[0, 1]), [0, 1]);
    assert_eq!(
        (index.len(), index.evictions()),
        (1, 1),
        "the tail was swept out"
    );
}

#[test]
fn a_cleared_pod_is_gone_and_others_stay() {
    let index = PrefixIndex::new(100, HOUR, 130);
    let (shared, own) = (chain(b"abc"), chain(b"xyz"));
    index.record(PodSlot(129), &shared, 0);
    index.record(PodSlot(1), &shared[..2], 0);
    index.record(PodSlot(129), &own, 0);
    index.clear(PodSlot(129));
    assert_eq!(depths(&index, &shared, 0, &[129, 1]), [0, 2]);
    assert_eq!(depths(&index, &own, 0, &[129, 1]), [0, 0]);
    assert_eq!((index.len(), index.evictions()), (2, 0));
    index.clear(PodSlot(500));
}

#[test]
fn a_widened_index_holds_the_same_in_the_same_order() {
    let index = PrefixIndex::new(4, HOUR, 1);
    index.record(PodSlot(3), &chain(b"ab"), 0);
    index.record(PodSlot(0), &chain(b"xy"), 1);
    let wide = index.widened(100);
    assert_eq!((wide.pod_capacity(), wide.len()), (128, 4));
    assert_eq!(depths(&wide, &chain(b"ab"), 1, &[3, 0, 67]), [2, 0, 0]);
    assert_eq!(depths(&wide, &chain(b"xy"), 3_600_001, &[0]), [2]);
    assert_eq!(
        depths(&wide, &chain(b"xy"), 3_600_002, &[0]),
        [0],
        "time kept"
    );
    wide.record(PodSlot(99), &chain(b"q"), 2);
    assert_eq!(depths(&wide, &chain(b"ab"), 2, &[3]), [1], "order kept");
}

#[test]
fn memory_is_bounded_and_within_64_bytes_a_block() {
    let index = PrefixIndex::new(10_000, HOUR, 64);
    let before = index.bytes();
    assert!(before <= 64 * 10_000, "{before}");
    for start in 0..3000u32 {
        let hashes: Vec<_> = (0..20)
            .map(|at| BlockHash(u64::from(start * 20 + at + 1).wrapping_mul(0x9e37_79b9_97f4_a7c1)))
            .collect();
        index.record(PodSlot(0), &hashes, 0);
        assert!(index.len() <= 10_000);
    }
    assert_eq!((index.bytes(), index.len()), (before, 10_000));
}

#[test]
fn a_prompt_larger_than_the_index_keeps_its_head() {
    let index = PrefixIndex::new(10, HOUR, 1);
    let path: Vec<u8> = (0..30).collect();
    index.record(PodSlot(0), &chain(&path), 0);
    assert_eq!(depths(&index, &chain(&path), 0, &[0]), [10]);
}

#[test]
fn a_repeated_hash_does_no_harm() {
    let index = PrefixIndex::new(10, HOUR, 1);
    let repeated = [5, 5, 7, 5, 0, 0].map(BlockHash);
    for now in 0..3 {
        index.record(PodSlot(0), &repeated, now);
        index.record(PodSlot(0), &chain(b"abcdefg"), now);
    }
    assert_eq!(index.len(), 10);
}

#[test]
fn readers_and_writers_at_once_see_only_what_was_recorded() {
    let index = PrefixIndex::new(3000, HOUR, 8);
    std::thread::scope(|scope| {
        for pod in 0..4u16 {
            let index = &index;
            scope.spawn(move || {
                for round in 0..1500u16 {
                    // A head all share, then a tail of the pod's own.
                    let mut path = vec![1, 2, 3, 4];
                    path.extend([pod as u8 + 10, (round % 200) as u8, 9, 9, 9]);
                    let blocks = chain(&path);
                    index.record(PodSlot(pod), &blocks, u64::from(round));
                    let pods = [0, 1, 2, 3, 4];
                    let found = depths(index, &blocks, u64::from(round), &pods);
                    let own = usize::from(pod);
                    assert_eq!(found[4], 0, "pod 4 never recorded anything");
                    let others = (0..4).filter(|&other| other != own);
                    assert!(others.map(|other| found[other]).all(|depth| depth <= 4));
                    if round % 100 == 99 {
                        index.clear(PodSlot(pod));
                        let blocks_left = depths(index, &blocks, u64::from(round), &[pod]);
                        assert_eq!(blocks_left, [0], "only this thread records the pod");
                    }
                }
            });
        }
    });
    assert!(index.len() <= 3000);
    for pod in 0..4 {
        index.clear(PodSlot(pod));
    }
    assert_eq!(index.len(), 0);
}

/// Blocks in a plain list, least recently recorded first.
#[derive(Default)]
struct Model {
    order: Vec<BlockHash>,
    held: HashMap<BlockHash, (u64, Vec<u16>)>,
}

impl Model {
    fn record(&mut self, pod: u16, blocks: &[BlockHash], now: u64, max: usize, ttl: u64) {
        let blocks = &blocks[..blocks.len().min(max)];
        for block in blocks {
            let (stamp, pods) = self.held.entry(*block).or_default();
            if now.saturating_sub(*stamp) > ttl {
                pods.clear();
            }
            *stamp = now;
            if !pods.contains(&pod) {
                pods.push(pod);
            }
        }
        self.order.retain(|block| !blocks.contains(block));
        self.order.extend(blocks.iter().rev());
        while self.order.len() > max {
            self.held.remove(&self.order.remove(0));
        }
    }

    fn clear(&mut self, pod: u16) {
        self.held
            .values_mut()
            .for_each(|(_, pods)| pods.retain(|held| *held != pod));
        self.held.retain(|_, (_, pods)| !pods.is_empty());
        self.order.retain(|block| self.held.contains_key(block));
    }

    fn depth(&self, pod: u16, blocks: &[BlockHash], now: u64, ttl: u64) -> u32 {
        let holds = |block: &&BlockHash| {
            let held = self.held.get(*block);
            held.is_some_and(|(stamp, pods)| now - stamp <= ttl && pods.contains(&pod))
        };
        blocks.iter().take_while(holds).count() as u32
    }
}

#[derive(Clone, Debug)]
enum Op {
    Record { pod: u16, path: Vec<u8> },
    Clear { pod: u16 },
    Wait { ms: u64 },
}

const PODS: [u16; 5] = [0, 1, 63, 64, 130];

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let path = prop::collection::vec(0..3u8, 0..12);
    let pod = || prop::sample::select(&PODS[..]);
    let op = prop_oneof![
        12 => (pod(), path).prop_map(|(pod, path)| Op::Record { pod, path }),
        1 => pod().prop_map(|pod| Op::Clear { pod }),
        3 => (0..20u64).prop_map(|ms| Op::Wait { ms }),
    ];
    prop::collection::vec(op, 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn behaves_as_the_naive_model(ops in ops(), max in 1..60usize, ttl in 5..200u64) {
        let index = PrefixIndex::new(max, Duration::from_millis(ttl), 131);
        let mut model = Model::default();
        let mut now = 1;
        let mut paths = vec![vec![0, 1, 2]];
        for op in ops {
            match op {
                Op::Record { pod, path } => {
                    index.record(PodSlot(pod), &chain(&path), now);
                    model.record(pod, &chain(&path), now, max, ttl);
                    paths.push(path);
                }
                Op::Clear { pod } => {
                    index.clear(PodSlot(pod));
                    model.clear(pod);
                }
                Op::Wait { ms } => now += ms,
            }
            prop_assert!(index.len() <= max);
            for path in paths.iter().rev().take(6) {
                let blocks = chain(path);
                let expected: Vec<u32> =
                    PODS.iter().map(|&pod| model.depth(pod, &blocks, now, ttl)).collect();
                prop_assert_eq!(depths(&index, &blocks, now, &PODS), expected);
            }
        }
    }
}

#[test]
fn a_flood_of_cold_prompts_never_reaches_a_hot_prefix_nor_the_limit() {
    const LIMIT: usize = 20_000;
    let index = PrefixIndex::new(LIMIT, Duration::from_secs(20 * 60), 64);
    let hot: Vec<BlockHash> = (0..32).map(|block| BlockHash(1 << 60 | block)).collect();
    let full = index.bytes();
    for prompt in 0..60_000_u64 {
        let cold: Vec<BlockHash> = (1..=32)
            .map(|block| BlockHash(prompt << 8 | block))
            .collect();
        index.record(PodSlot(1), &cold, prompt);
        if prompt % 100 == 0 {
            if prompt > 0 {
                assert_eq!(depths(&index, &hot, prompt, &[0]), [32], "prompt {prompt}");
            }
            index.record(PodSlot(0), &hot, prompt);
            assert!(index.len() <= LIMIT, "prompt {prompt}");
        }
    }
    assert_eq!(index.bytes(), full);
}
