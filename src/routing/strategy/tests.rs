//! What tests of strategies share, and properties that every one of them has to have.

use super::super::blend::Plan;
use super::super::block::{BlockHash, PrefixBlocks};
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
            detail: None,
        })
        .collect()
}

/// Rows with one figure of their details set; NaN leaves it unknown.
pub(super) fn detailed(
    figures: &[f64],
    set: impl Fn(&mut PodDetail, Option<f64>),
) -> Vec<Candidate> {
    let mut table = rows(&vec![0; figures.len()], &[]);
    for (row, figure) in table.iter_mut().zip(figures) {
        let mut detail = PodDetail::default();
        set(&mut detail, Some(*figure).filter(|figure| !figure.is_nan()));
        row.detail = Some(Arc::new(detail));
    }
    table
}

/// Idle rows at 10.0.0.1:8000 and following.
pub(super) fn addressed(pods: usize) -> Vec<Candidate> {
    let mut table = rows(&vec![0; pods], &[]);
    for (at, row) in table.iter_mut().enumerate() {
        row.detail = Some(Arc::new(PodDetail {
            address: format!("10.0.0.{}:8000", at + 1),
            ..PodDetail::default()
        }));
    }
    table
}

pub(super) fn ten_blocks() -> PrefixBlocks {
    PrefixBlocks::from((1..=10).map(BlockHash).collect::<Vec<_>>())
}

/// A choice of which only the pod matters.
pub(super) fn choice(slot: PodSlot) -> Choice {
    Choice {
        slot,
        reason: Reason::BestScore,
        matched_blocks: 0,
        total_blocks: 0,
        uncached_tokens: 0,
        selection: None,
        candidates: 1,
        gate_fired: false,
    }
}

pub(super) fn scores(settings: &RoutingSettings, name: &str, rows: &[Candidate]) -> Vec<f64> {
    scores_for(settings, name, &Request::default(), rows)
}

pub(super) fn scores_for(
    settings: &RoutingSettings,
    name: &str,
    request: &Request<'_>,
    rows: &[Candidate],
) -> Vec<f64> {
    let mut scores = Vec::new();
    fill_scores(
        &*build(settings, name),
        request,
        candidates(rows),
        &mut scores,
    );
    scores
}

pub(super) fn check_scores(name: &str, rows: &[Candidate], expected: &[f64]) {
    assert_close(&scores(&RoutingSettings::default(), name, rows), expected);
}

pub(super) fn assert_close(found: &[f64], expected: &[f64]) {
    let close = |(found, expected): (&f64, &f64)| {
        found.is_nan() && expected.is_nan() || (found - expected).abs() < 1e-6
    };
    let equal = found.len() == expected.len() && found.iter().zip(expected).all(close);
    assert!(equal, "{found:?} is not {expected:?}");
}

/// Rows that a strategy ever takes without any blending.
pub(super) fn alone(name: &str, rows: &[Candidate]) -> Vec<usize> {
    alone_for(name, &Request::default(), rows)
}

pub(super) fn alone_for(name: &str, request: &Request<'_>, rows: &[Candidate]) -> Vec<usize> {
    let strategy = build(&RoutingSettings::default(), name);
    let mut taken = vec![false; rows.len()];
    for seed in 0..100 {
        let request = Request { seed, ..*request };
        let mut rng = Rng::new(seed);
        let pick = strategy.pick(&request, candidates(rows), &mut Vec::new(), &mut rng);
        taken[pick.row] = true;
    }
    (0..rows.len()).filter(|&row| taken[row]).collect()
}

pub(super) fn build(settings: &RoutingSettings, name: &str) -> Box<dyn Strategy> {
    let memory = Arc::new(Memory::new(7));
    (definition(name).build)(settings, &memory)
}

/// Share of the picks that each row gets over many seeds, blended as by default.
pub(super) fn shares(list: &str, rows: &[Candidate]) -> Vec<f64> {
    const PICKS: u32 = 4000;
    let settings = RoutingSettings::default();
    let plan = Plan::new(
        list,
        ALL,
        &settings,
        &crate::routing::Overrides::default(),
        &Arc::new(Memory::new(7)),
    )
    .unwrap();
    let blocks = PrefixBlocks::default();
    let mut counts = vec![0u32; rows.len()];
    for seed in 0..PICKS {
        let seed = u64::from(seed);
        let user = format!("user {seed}");
        let request = Request {
            user: Some(&user),
            ..request(&blocks, seed)
        };
        let pick = plan.pick(
            &request,
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
    let strategy = build(settings, name);
    let blocks = ten_blocks();
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
        prompt_tokens: 1000,
        user: Some("ann"),
        ..Request::default()
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
                    running_seconds: output_rate,
                    prefilling: [0, u32::MAX][at % 2],
                    pending_prefill: [0, 1, u64::MAX][at % 3],
                    prefill_rate: Some(kv_usage),
                    last_pick: [0, 1, u64::MAX][at % 3],
                    queued: Some(output_rate),
                    kv_usage: Some(kv_usage),
                    output_rate: Some(output_rate),
                },
                matched_blocks: [0, 3, u32::MAX][table.len() % 3],
                detail: (table.len() % 4 > 0).then(|| odd_detail(kv_usage, output_rate)),
            });
        }
    }
    let mut tables: Vec<_> = table.chunks(5).map(<[_]>::to_vec).collect();
    tables.push(table.clone());
    tables.push(table[..1].to_vec());
    tables.push(rows(&[0; 9], &[]));
    tables
}

fn odd_detail(one: f64, other: f64) -> Arc<PodDetail> {
    Arc::new(PodDetail {
        address: one.to_string(),
        cpu_cache_usage: Some(one),
        utilization: Some(one),
        busy: Some(one),
        queue_seconds: Some(one),
        prefill_seconds_per_token: Some(other),
        decode_seconds_per_token: Some(one),
        output_tokens: Some(other),
        weighted_token_rate: Some(other),
    })
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
fn scores_and_picks_of_equal_pods_do_not_depend_on_their_place() {
    for definition in ALL {
        let mut table = addressed(4);
        for row in &mut table {
            row.load = Load {
                in_flight: 3,
                running_seconds: 6.0,
                prefilling: 1,
                pending_prefill: 500,
                prefill_rate: Some(1000.0),
                kv_usage: Some(0.5),
                output_rate: Some(100.0),
                ..Load::default()
            };
            row.matched_blocks = 2;
        }
        let shares = shares(definition.name, &table);
        let fair = shares.iter().all(|share| (0.22..0.28).contains(share));
        assert!(fair, "{}: {shares:?}", definition.name);
    }
}

#[test]
fn every_strategy_is_accepted_and_documented() {
    let document = include_str!("../../../docs/strategies.md");
    for definition in ALL {
        let name = definition.name;
        assert!(crate::routing::check_strategy(name).is_ok(), "{name}");
        let row = |line: &str| line.starts_with("| ") && line.contains(&format!("`{name}`"));
        assert!(
            document.lines().any(row),
            "{name} has no row in docs/strategies.md"
        );
    }
}

#[test]
fn names_are_unique() {
    let mut names: Vec<_> = ALL.iter().map(|definition| definition.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), ALL.len());
}
