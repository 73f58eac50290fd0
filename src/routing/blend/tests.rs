//! Golden cases of strategy strings, the auto-blend and weighted totals.

use super::super::block::PrefixBlocks;
use super::super::pod::Load;
use super::super::strategy::tests::rows;
use super::super::strategy::{ALL, Candidate, Polarity};
use super::*;

/// Names that the rules of lists and blends speak of, those included that do not exist yet.
const TABLE: &[Definition] = &[
    named("prefix-cache", Kind::Scorer, Blending::Prefix),
    named("load-balance", Kind::Scorer, Blending::Alone),
    named("least-request", Kind::Scorer, Blending::Load),
    named("least-latency", Kind::Scorer, Blending::Load),
    named("least-kv-cache", Kind::Scorer, Blending::Load),
    named("throughput", Kind::Scorer, Blending::Load),
    named("prefix-cache-preble", Kind::Scorer, Blending::Load),
    named("session-affinity", Kind::Scorer, Blending::Pin),
    named("random", Kind::Chooser, Blending::Load),
    named("power-of-two", Kind::Chooser, Blending::Load),
    named("pd", Kind::Exclusive, Blending::Load),
    named("slo-least-load", Kind::Exclusive, Blending::Load),
];

const fn named(name: &'static str, kind: Kind, blending: Blending) -> Definition {
    Definition {
        name,
        kind,
        blending,
        needs_prefix: false,
        needs_detail: false,
        build: |_, _| Box::new(Fixed(Polarity::Least, Vec::new())),
    }
}

/// Scores given beforehand.
struct Fixed(Polarity, Vec<f64>);

impl Strategy for Fixed {
    fn polarity(&self) -> Polarity {
        self.0
    }

    fn score(&self, _: &Request<'_>, _: Candidates<'_>, scores: &mut [f64]) {
        scores.copy_from_slice(&self.1);
    }
}

fn planned(text: &str, table: &'static [Definition], settings: &RoutingSettings) -> Plan {
    let memory = Arc::new(Memory::new(0));
    Plan::new(text, table, settings, &Overrides::default(), &memory).unwrap()
}

fn items(text: &str) -> Vec<(&'static str, u64)> {
    let list = List::parse(text, TABLE).unwrap();
    list.items
        .iter()
        .map(|item| (item.definition.name, item.weight))
        .collect()
}

#[test]
fn lists_are_names_with_weights() {
    assert_eq!(items("prefix-cache"), [("prefix-cache", 1)]);
    let two = [("prefix-cache", 6), ("least-latency", 4)];
    assert_eq!(items("prefix-cache:6,least-latency:4"), two);
    assert_eq!(items(" prefix-cache : 6 ,\tleast-latency:4 "), two);
    assert_eq!(
        items("prefix-cache:3,least-latency")[1],
        ("least-latency", 1)
    );
    assert_eq!(
        items("prefix-cache:0,least-latency:10"),
        [("least-latency", 10)]
    );
    assert_eq!(items("least-request:2,pd:1,throughput:3"), [("pd", 1)]);
    assert_eq!(
        items("slo-least-load:7,least-latency:2"),
        [("slo-least-load", 1)]
    );
    assert_eq!(items("pd:0,least-request"), [("least-request", 1)]);
    assert_eq!(items("random:0,least-request"), [("least-request", 1)]);
    assert_eq!(items("throughput:1000000")[0].1, 1_000_000);
    assert_eq!(
        items("throughput:2,least-request,throughput:3")[0],
        ("throughput", 5)
    );
}

#[test]
fn wrong_lists_are_refused_with_the_good_names() {
    let check = |text: &str, problem: &str| {
        let error = List::parse(text, TABLE).err().unwrap().to_string();
        assert!(error.contains(problem), "{text}: {error}");
        assert!(error.contains("random, power-of-two, pd"), "{error}");
    };
    check("", "it is empty");
    check("  ", "it is empty");
    check("prefix-cache,,throughput", "an item of the list is empty");
    check("prefix-cache,", "an item of the list is empty");
    check(":3", "an item of the list is empty");
    check("throughput:1:2", "more than one colon");
    check("throughput,\nrandom", "a line break");
    check(
        "throughput:0.5",
        "\"0.5\" is not a whole number from 0 to 1000000",
    );
    check("throughput:-1", "\"-1\" is not a whole number");
    check("throughput:+1", "\"+1\" is not a whole number");
    check("throughput:", "\"\" is not a whole number");
    check("throughput:1000001", "\"1000001\" is not a whole number");
    check("throughput:99999999999999999999", "is not a whole number");
    check("throughput:0", "all weights are 0");
    check("throughput:0,random:0", "all weights are 0");
    check("least-load", "there is no strategy \"least-load\"");
    check("Random", "there is no strategy \"Random\"");
    check("throughput,nope:0", "there is no strategy \"nope\"");
    check("random,throughput", "random can only stand alone");
    check(&"x".repeat(5000), &format!("{:?}", "x".repeat(100)));
}

fn run(requested: &str, weights: AutoBlend) -> String {
    let settings = RoutingSettings {
        auto_blend: weights,
        ..RoutingSettings::default()
    };
    let plan = planned(requested, TABLE, &settings);
    assert_eq!(
        plan.requested(),
        requested,
        "what was asked for stays visible"
    );
    plan.run().to_owned()
}

#[test]
fn load_is_blended_into_what_was_asked_for() {
    let rows = [
        ("prefix-cache", "prefix-cache:5,load-balance:4"),
        ("prefix-cache:12345", "prefix-cache:5,load-balance:4"),
        (
            "prefix-cache,least-request:0",
            "prefix-cache:5,load-balance:4",
        ),
        (
            "prefix-cache:7,load-balance:2",
            "prefix-cache:7,load-balance:2",
        ),
        ("prefix-cache,load-balance:0", "prefix-cache,load-balance:0"),
        (
            "prefix-cache:2,least-latency",
            "prefix-cache:2,least-latency,load-balance:1",
        ),
        ("least-request", "least-request,load-balance:1"),
        (
            "least-latency",
            "least-latency,load-balance:1,least-request:1",
        ),
        (
            "least-request:0,throughput",
            "least-request:0,throughput,load-balance:1",
        ),
        (
            "session-affinity,least-kv-cache",
            "session-affinity,least-kv-cache,load-balance:1",
        ),
        (
            "prefix-cache-preble",
            "prefix-cache-preble,load-balance:1,least-request:1",
        ),
        (
            "load-balance,throughput",
            "load-balance,throughput,least-request:1",
        ),
        ("random", "random"),
        ("power-of-two", "power-of-two"),
        ("load-balance", "load-balance"),
        ("session-affinity", "session-affinity"),
        ("pd", "pd"),
        ("slo-least-load", "slo-least-load"),
        ("least-request,pd", "least-request,pd"),
    ];
    for (requested, expected) in rows {
        assert_eq!(run(requested, AutoBlend::default()), expected);
    }
}

#[test]
fn the_blend_knows_every_strategy_there_is() {
    let rows = [
        ("prefix-cache-preble", ",load-balance:1,least-request:1"),
        ("least-busy-time", ",load-balance:1,least-request:1"),
        ("least-kv-cache", ",load-balance:1,least-request:1"),
        ("least-gpu-cache", ",load-balance:1,least-request:1"),
        ("least-utilization", ",load-balance:1,least-request:1"),
        ("least-latency", ",load-balance:1,least-request:1"),
        ("throughput", ",load-balance:1,least-request:1"),
        ("vtc-basic", ",load-balance:1,least-request:1"),
        ("session-affinity:3,vtc-basic", ",load-balance:1"),
        ("consistent-hash,least-latency", ",load-balance:1"),
        ("least-work,throughput:0", ""),
        (
            "least-work:2,least-latency",
            ",load-balance:1,least-request:1",
        ),
        ("lmetric", ""),
        ("session-affinity", ""),
        ("consistent-hash", ""),
        ("round-robin", ""),
        ("power-of-two", ""),
        ("slo", ""),
        ("prefix-cache,slo-pack-load:3", ""),
    ];
    for (requested, added) in rows {
        let plan = planned(requested, ALL, &RoutingSettings::default());
        assert_eq!(plan.run(), format!("{requested}{added}"));
    }
    let gated = |text| planned(text, ALL, &RoutingSettings::default()).is_gated();
    assert!(gated("least-request") && gated("least-work,least-request") && gated("round-robin"));
    assert!(!gated("least-work") && !gated("lmetric") && !gated("slo-least-load"));
}

#[test]
fn blend_weights_are_settings_and_zero_switches_it_off() {
    // The reference's loader turns a 0 from the environment into 1; its documents say off.
    let off = AutoBlend {
        load_balance_weight: 0,
        ..AutoBlend::default()
    };
    for requested in ["prefix-cache", "least-request", "throughput"] {
        assert_eq!(run(requested, off), requested);
    }
    let other = AutoBlend {
        load_balance_weight: 3,
        least_request_weight: 0,
        prefix_cache_weight: 9,
        prefix_cache_load_balance_weight: 0,
    };
    assert_eq!(run("throughput", other), "throughput,load-balance:3");
    assert_eq!(run("prefix-cache", other), "prefix-cache:9,load-balance:0");
    let nothing = AutoBlend {
        prefix_cache_weight: 0,
        ..other
    };
    assert_eq!(
        run("prefix-cache", nothing),
        "prefix-cache",
        "a blend of nothing is not run"
    );
}

#[test]
fn a_plan_says_what_it_needs() {
    let plan = |text: &str| planned(text, ALL, &RoutingSettings::default());
    assert!(plan("prefix-cache").needs_prefix());
    assert!(!plan("prefix-cache").is_standalone_prefix_cache());
    assert!(plan("prefix-cache,load-balance:0").is_standalone_prefix_cache());
    assert!(!plan("least-request").needs_prefix());
    assert!(plan("random").is_gated());
    let exclusive = planned("pd", TABLE, &RoutingSettings::default());
    assert!(!exclusive.is_gated());
}

/// Totals of weighted scorers, and who may win.
fn check_totals(parts: &[(u64, Polarity, &[f64])], totals: &[f64], winners: &[usize]) {
    let sum: u64 = parts.iter().map(|part| part.0).sum();
    let part = |(weight, polarity, scores): &(u64, Polarity, &[f64])| Part {
        definition: &TABLE[0],
        share: *weight as f64 / sum as f64,
        strategy: Box::new(Fixed(*polarity, scores.to_vec())),
    };
    let idle = Part {
        definition: &TABLE[0],
        share: 0.0,
        strategy: Box::new(Fixed(Polarity::Most, vec![f64::NAN; totals.len()])),
    };
    let plan = Plan {
        load_balance: LoadBalance::default(),
        requested: String::new(),
        run: String::new(),
        // A plan of one part would leave the pick to it.
        parts: parts.iter().map(part).chain([idle]).collect(),
    };
    let (blocks, table) = (PrefixBlocks::default(), rows(&vec![0; totals.len()], &[]));
    let mut workspace = Workspace::default();
    let mut won = vec![false; totals.len()];
    for seed in 0..100 {
        let pick = plan.pick(
            &Request {
                blocks: &blocks,
                seed,
                ..Request::default()
            },
            Candidates::new(&table).unwrap(),
            &mut workspace,
            &mut Rng::new(seed),
        );
        won[pick.row] = true;
    }
    for (found, expected) in workspace.totals.iter().zip(totals) {
        assert!(
            (found - expected).abs() < 0.006,
            "{parts:?}: {:?}",
            workspace.totals
        );
    }
    let won: Vec<usize> = (0..won.len()).filter(|&row| won[row]).collect();
    assert_eq!(won, winners, "{parts:?}");
}

#[test]
fn totals_are_weighted_sums_of_normalised_scores() {
    use Polarity::{Least, Most};
    const NAN: f64 = f64::NAN;
    let up: &[f64] = &[10.0, 20.0, 30.0];
    check_totals(&[(1, Most, up)], &[0.0, 0.5, 1.0], &[2]);
    check_totals(&[(1, Least, up)], &[1.0, 0.5, 0.0], &[0]);
    check_totals(
        &[
            (2, Most, &[100.0, 50.0, 0.0]),
            (8, Least, &[30.0, 20.0, 10.0]),
        ],
        &[0.2, 0.5, 0.8],
        &[2],
    );
    // Equal totals: the reference takes the smallest name, here each may win.
    check_totals(
        &[(1, Most, &[100.0, 50.0, NAN]), (1, Most, up)],
        &[0.5, 0.25, 0.5],
        &[0, 2],
    );
    check_totals(
        &[(1, Most, &[NAN; 3]), (1, Most, &[10.0, 30.0, 20.0])],
        &[0.0, 0.5, 0.25],
        &[1],
    );
    check_totals(&[(1, Most, &[10.0, 10.0, NAN])], &[1.0, 1.0, 0.0], &[0, 1]);
    check_totals(&[(1, Most, up), (3, Least, up)], &[0.75, 0.5, 0.25], &[0]);
    // As documented for throughput, "higher is better"; a strategy of ours will say which.
    check_totals(
        &[(10, Least, &[10.0, 2.0]), (1, Most, &[100.0, 10.0])],
        &[0.09, 0.91],
        &[1],
    );
    // .86 without drawing outliers in, .75 with it.
    check_totals(
        &[
            (1, Least, &[1.0, 50.0, 10.0]),
            (1, Least, &[1500.0, 15.0, 150.0]),
        ],
        &[0.5, 0.5, 0.75],
        &[2],
    );
    check_totals(&[(1, Most, &[NAN; 4])], &[0.0; 4], &[0, 1, 2, 3]);
}

fn check_default_blend(table: &[Candidate], totals: &[f64], winners: &[usize]) {
    let settings = RoutingSettings::default();
    let plan = planned("prefix-cache", ALL, &settings);
    let blocks = PrefixBlocks::default();
    let mut workspace = Workspace::default();
    let mut won = vec![false; table.len()];
    for seed in 0..100 {
        let request = Request {
            blocks: &blocks,
            seed,
            ..Request::default()
        };
        let candidates = Candidates::new(table).unwrap();
        let pick = plan.pick(&request, candidates, &mut workspace, &mut Rng::new(seed));
        won[pick.row] = true;
        let matched = table[pick.row].matched_blocks > 0;
        assert_eq!(pick.reason == Reason::PrefixMatch, matched);
    }
    for (found, expected) in workspace.totals.iter().zip(totals) {
        assert!((found - expected).abs() < 0.001, "{:?}", workspace.totals);
    }
    let won: Vec<usize> = (0..won.len()).filter(|&row| won[row]).collect();
    assert_eq!(won, winners);
}

#[test]
fn the_default_blend_weighs_matches_against_load() {
    let check = |matched: &[u32], counts: &[u32], totals: &[f64], winners: &[usize]| {
        check_default_blend(&rows(counts, matched), totals, winners);
    };
    // B1 and B2: the reference takes the smallest name of the equals.
    check(&[0, 0, 0], &[0, 0, 0], &[1.0, 1.0, 1.0], &[0, 1, 2]);
    check(&[0, 0, 0], &[2, 1, 1], &[0.556, 1.0, 1.0], &[1, 2]);
    check(&[100, 0, 0], &[7, 0, 0], &[0.556, 0.444, 0.444], &[0]);
    check(&[1, 0], &[7, 0], &[0.556, 0.444], &[0]);
    check(&[100, 50, 0], &[6, 0, 3], &[0.556, 0.722, 0.222], &[1]);
    check(
        &[100, 10, 5, 0],
        &[3, 0, 0, 0],
        &[0.556, 0.691, 0.568, 0.444],
        &[1],
    );
}

#[test]
fn kv_pressure_counts_in_the_default_blend() {
    let check = |matched, counts, kv_usage: &[f64], totals: &[f64], winner| {
        let mut table = rows(counts, matched);
        for (row, &kv_usage) in table.iter_mut().zip(kv_usage) {
            row.load = Load {
                kv_usage: Some(kv_usage),
                ..row.load
            };
        }
        check_default_blend(&table, totals, &[winner]);
    };
    // B9: the matching pod is taken although its KV cache is nearly full.
    check(
        &[100, 0, 0],
        &[1, 1, 1],
        &[0.95, 0.1, 0.1],
        &[0.556, 0.444, 0.444],
        0,
    );
    // B10
    check(
        &[50, 50, 0],
        &[4, 4, 4],
        &[0.8, 0.4, 0.0],
        &[0.556, 0.889, 0.444],
        1,
    );
}
