//! What tests of strategies share, and properties that every one of them has to have.

use super::super::blend::Plan;
use super::super::block::PrefixBlocks;
use super::*;

pub(in crate::routing) fn rows(counts: &[u32], matched: &[u32]) -> Vec<Candidate> {
    let matched = matched.iter().copied().chain(std::iter::repeat(0));
    counts
        .iter()
        .zip(matched)
        .enumerate()
        .map(|(at, (&in_flight, matched_blocks))| Candidate {
            slot: PodSlot(at as u16),
            load: Load {
                in_flight,
                ..Load::default()
            },
            matched_blocks,
        })
        .collect()
}

pub(super) fn scores(settings: &RoutingSettings, name: &str, rows: &[Candidate]) -> Vec<f64> {
    let strategy = (definition(name).build)(settings, &Overrides::default());
    let blocks = PrefixBlocks::default();
    let mut scores = Vec::new();
    fill_scores(
        &*strategy,
        &request(&blocks, 0),
        candidates(rows),
        &mut scores,
    );
    scores
}

/// Share of the picks that each row gets over many seeds, blended as by default.
pub(super) fn shares(list: &str, rows: &[Candidate]) -> Vec<f64> {
    const PICKS: u32 = 4000;
    let settings = RoutingSettings::default();
    let plan = Plan::new(list, ALL, &settings, &Overrides::default()).unwrap();
    let blocks = PrefixBlocks::default();
    let mut counts = vec![0u32; rows.len()];
    for seed in 0..PICKS {
        let seed = u64::from(seed);
        let pick = plan.pick(
            &request(&blocks, seed),
            candidates(rows),
            &mut Default::default(),
            &mut Rng::new(seed),
        );
        counts[pick.row] += 1;
    }
    counts
        .iter()
        .map(|&count| f64::from(count) / f64::from(PICKS))
        .collect()
}

pub(super) fn pick_with(
    settings: &RoutingSettings,
    name: &str,
    rows: &[Candidate],
    seed: u64,
) -> Pick {
    let strategy = (definition(name).build)(settings, &Overrides::default());
    let blocks = PrefixBlocks::default();
    let mut rng = Rng::new(seed);
    strategy.pick(
        &request(&blocks, seed),
        candidates(rows),
        &mut Vec::new(),
        &mut rng,
    )
}

fn definition(name: &str) -> &'static Definition {
    ALL.iter()
        .find(|definition| definition.name == name)
        .unwrap()
}

fn request(blocks: &PrefixBlocks, seed: u64) -> Request<'_> {
    Request {
        blocks,
        seed,
        now_ms: 0,
    }
}

fn candidates(rows: &[Candidate]) -> Candidates<'_> {
    Candidates::new(rows).unwrap()
}

/// Loads at the edges of what can be measured, with and without matches.
fn odd_tables() -> Vec<Vec<Candidate>> {
    let odd = [
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        -1.0,
        0.0,
        0.95,
        1.0,
        f64::MAX,
    ];
    let mut table = Vec::new();
    for (at, &kv_usage) in odd.iter().enumerate() {
        for &output_rate in &odd {
            table.push(Candidate {
                slot: PodSlot(table.len() as u16),
                load: Load {
                    in_flight: [0, 1, u32::MAX][at % 3],
                    last_pick: [0, 1, u64::MAX][at % 3],
                    queued: Some(output_rate),
                    kv_usage: Some(kv_usage),
                    output_rate: Some(output_rate),
                },
                matched_blocks: [0, 3, u32::MAX][table.len() % 3],
            });
        }
    }
    let mut tables: Vec<_> = table.chunks(5).map(<[_]>::to_vec).collect();
    tables.push(table.clone());
    tables.push(table[..1].to_vec());
    tables.push(rows(&[0; 9], &[]));
    tables
}

#[test]
fn every_strategy_stays_in_range_and_repeats_its_pick() {
    let settings = RoutingSettings::default();
    for definition in ALL {
        for table in odd_tables() {
            for seed in 0..5 {
                let pick = pick_with(&settings, definition.name, &table, seed);
                assert!(pick.row < table.len(), "{}", definition.name);
                assert_eq!(pick, pick_with(&settings, definition.name, &table, seed));
            }
        }
    }
}

#[test]
fn matches_do_not_move_a_strategy_that_says_it_needs_none() {
    let settings = RoutingSettings::default();
    for definition in ALL.iter().filter(|definition| !definition.needs_prefix) {
        for table in odd_tables() {
            let mut unmatched = table.clone();
            unmatched.iter_mut().for_each(|row| row.matched_blocks = 0);
            assert_eq!(
                pick_with(&settings, definition.name, &table, 3),
                pick_with(&settings, definition.name, &unmatched, 3),
            );
        }
    }
}

#[test]
fn idle_pods_share_cold_traffic_under_every_strategy() {
    for definition in ALL {
        let shares = shares(definition.name, &rows(&[0; 4], &[]));
        let fair = shares.iter().all(|share| (0.22..0.28).contains(share));
        assert!(fair, "{}: {shares:?}", definition.name);
    }
}

#[test]
fn unscored_rows_never_win() {
    struct Odd;
    impl Strategy for Odd {
        fn score(&self, _: &Request<'_>, _: Candidates<'_>, scores: &mut [f64]) {
            scores.copy_from_slice(&[f64::NAN, f64::NEG_INFINITY, 7.0, f64::INFINITY]);
        }
    }
    let (blocks, rows) = (PrefixBlocks::default(), rows(&[0, 0, 9, 0], &[]));
    for seed in 0..50 {
        let mut rng = Rng::new(seed);
        let pick = Odd.pick(
            &request(&blocks, seed),
            candidates(&rows),
            &mut Vec::new(),
            &mut rng,
        );
        assert_eq!(pick, Pick::new(2, Reason::BestScore));
    }
}

#[test]
fn names_are_unique() {
    let mut names: Vec<_> = ALL.iter().map(|definition| definition.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), ALL.len());
}
