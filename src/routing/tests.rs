//! The router as a whole.

use super::*;

const SCOPE: Scope<'static> = Scope {
    model: "m",
    cache_salt: None,
};

struct Bench {
    router: Router,
    scratch: Scratch,
    seed: u64,
}

impl Bench {
    fn new(change: impl FnOnce(&mut RoutingSettings)) -> Self {
        let mut settings = RoutingSettings::default();
        settings.prefix_cache.block_size = 4;
        change(&mut settings);
        Self {
            router: Router::new(settings, 8, 7),
            scratch: Scratch::default(),
            seed: 0,
        }
    }

    fn blocks(&self, text: &str) -> PrefixBlocks {
        let mut blocks = PrefixBlocks::default();
        self.router
            .hash(SCOPE, |show| show(text.as_bytes()), &mut blocks);
        blocks
    }

    fn choose(&mut self, strategy: &str, text: &str, counts: &[u32]) -> Choice {
        let blocks = self.blocks(text);
        let plan = self.router.plan(strategy, &Overrides::default()).unwrap();
        self.seed += 1;
        let request = Request {
            blocks: &blocks,
            seed: self.seed,
            ..Request::default()
        };
        self.router
            .route(&plan, &request, &pods(counts), &mut self.scratch)
            .unwrap()
    }

    fn send(&mut self, strategy: &str, text: &str, counts: &[u32]) -> Choice {
        let choice = self.choose(strategy, text, counts);
        self.router.record(choice.slot, &self.blocks(text), 0);
        choice
    }
}

fn pods(counts: &[u32]) -> Vec<PodView> {
    let pod = |(slot, &in_flight): (usize, &u32)| PodView {
        slot: PodSlot(slot as u16),
        load: Load {
            in_flight,
            ..Load::default()
        },
        ..PodView::default()
    };
    counts.iter().enumerate().map(pod).collect()
}

const STANDALONE: &str = "prefix-cache,load-balance:0";

#[test]
fn a_prompt_follows_its_prefix_until_the_pod_is_too_busy() {
    let mut bench = Bench::new(|settings| settings.prefix_cache.standard_deviation_factor = 1.0);
    let first = bench.send(STANDALONE, "abcdegfh", &[0; 4]);
    assert_eq!(first.selection, Some(Selection::LeastRequestFallback));
    bench.send(STANDALONE, "wxyz", &[0; 4]);
    let again = bench.send(STANDALONE, "abcdegfh", &[0; 4]);
    assert_eq!((again.slot, again.matched_blocks), (first.slot, 2));
    assert_eq!(again.selection, Some(Selection::PrefixMatch));

    let mut counts = [0, 0, 0, 0];
    counts[usize::from(first.slot.0)] = 2;
    counts[(usize::from(first.slot.0) + 1) % 4] = 1;
    let spilled = bench.send(STANDALONE, "abcd", &counts);
    assert_eq!(
        counts[usize::from(spilled.slot.0)],
        0,
        "an idle pod takes over"
    );
    assert_eq!(spilled.selection, Some(Selection::PrefixMatchSkipped));
    assert_eq!(spilled.reason, Reason::LeastRequestFallback);
    let followed = bench.send(STANDALONE, "abcdefghijkl", &counts);
    assert_eq!(
        (
            followed.slot,
            followed.matched_blocks,
            followed.total_blocks
        ),
        (spilled.slot, 1, 3)
    );
}

#[test]
fn an_only_candidate_is_taken_without_scoring_and_recorded() {
    for strategy in ["prefix-cache", STANDALONE] {
        let mut bench = Bench::new(|_| {});
        let only = bench.send(strategy, "abcdefgh", &[3]);
        assert_eq!(
            (only.slot, only.reason),
            (PodSlot(0), Reason::OnlyCandidate)
        );
        let later = bench.send(strategy, "abcdefgh", &[1, 0, 0]);
        assert_eq!(
            (later.slot, later.reason),
            (PodSlot(0), Reason::PrefixMatch)
        );
    }
}

#[test]
fn the_gate_takes_a_request_from_a_warm_pod_at_a_gap_of_eight() {
    let mut bench = Bench::new(|_| {});
    bench
        .router
        .record(PodSlot(0), &bench.blocks("abcdefgh"), 0);
    let stays = bench.choose("prefix-cache", "abcdefgh", &[7, 0]);
    assert_eq!((stays.slot, stays.gate_fired), (PodSlot(0), false));
    let leaves = bench.choose("prefix-cache", "abcdefgh", &[9, 0]);
    assert_eq!(
        (leaves.slot, leaves.gate_fired, leaves.candidates),
        (PodSlot(1), true, 1)
    );
    // Matches are looked up for what the gate has left, as in the reference.
    assert_eq!(leaves.selection, Some(Selection::LeastRequestFallback));
}

#[test]
fn a_prompt_with_what_followed_it_is_hashed_as_the_next_prompt() {
    let bench = Bench::new(|_| {});
    for (prompt, answer) in [("abcdefgh", "ijkl"), ("abcdef", "ghijklmnop"), ("", "abcd")] {
        let mut blocks = bench.blocks(prompt);
        assert!(
            bench
                .router
                .extend([&b" "[..], answer.as_bytes()], &mut blocks)
        );
        let next = bench.blocks(&format!("{prompt} {answer}"));
        assert_eq!(blocks.hashes(), next.hashes());
        assert_eq!(blocks.total_blocks(), next.total_blocks());
    }
}

#[test]
fn a_profile_changes_the_factor_of_the_standalone_selection() {
    let bench = Bench::new(|settings| {
        settings.prefix_cache.standard_deviation_factor = 1.0;
        settings.load_balance.imbalance_min_gap = 1000;
    });
    bench
        .router
        .record(PodSlot(3), &bench.blocks("abcdefgh"), 0);
    for (factor, expected) in [(None, false), (Some(4.0), true)] {
        let overrides = Overrides {
            standard_deviation_factor: factor,
            ..Overrides::default()
        };
        let plan = bench.router.plan(STANDALONE, &overrides).unwrap();
        let blocks = bench.blocks("abcdefgh");
        let request = Request {
            blocks: &blocks,
            seed: 0,
            ..Request::default()
        };
        let pods = pods(&[1, 1, 1, 10]);
        let choice = bench
            .router
            .route(&plan, &request, &pods, &mut Scratch::default())
            .unwrap();
        assert_eq!(choice.slot == PodSlot(3), expected);
    }
}

#[test]
fn a_profile_changes_the_gate_and_the_blend_of_its_requests_alone() {
    let bench = Bench::new(|_| {});
    let blocks = bench.blocks("abcdefgh");
    bench.router.record(PodSlot(1), &blocks, 0);
    let gate_off = Overrides {
        load_balance: LoadBalanceOverrides {
            imbalance_min_gap: Some(100),
            ..LoadBalanceOverrides::default()
        },
        ..Overrides::default()
    };
    let blend_off = Overrides {
        auto_blend: AutoBlendOverrides {
            load_balance_weight: Some(0),
            ..AutoBlendOverrides::default()
        },
        ..gate_off
    };
    for (overrides, run, slot) in [
        (Overrides::default(), "prefix-cache:5,load-balance:4", 0),
        (gate_off, "prefix-cache:5,load-balance:4", 1),
        (blend_off, "prefix-cache", 1),
        (Overrides::default(), "prefix-cache:5,load-balance:4", 0),
    ] {
        let plan = bench.router.plan("prefix-cache", &overrides).unwrap();
        let request = Request {
            blocks: &blocks,
            ..Request::default()
        };
        let choice = bench
            .router
            .route(&plan, &request, &pods(&[0, 9]), &mut Scratch::default())
            .unwrap();
        assert_eq!((plan.run(), choice.slot), (run, PodSlot(slot)));
    }
}

#[test]
fn what_metrics_need_is_there_in_every_mode() {
    for strategy in ["prefix-cache", STANDALONE, "prefix-cache,least-request"] {
        let mut bench = Bench::new(|_| {});
        let cold = bench.choose(strategy, "abcdefghijkl", &[0, 0]);
        assert_eq!(cold.selection, Some(Selection::LeastRequestFallback));
        assert_eq!(cold.match_bucket(), MatchBucket::Zero);
        bench
            .router
            .record(PodSlot(1), &bench.blocks("abcdefgh"), 0);
        let warm = bench.choose(strategy, "abcdefghijkl", &[0, 0]);
        assert_eq!(warm.selection, Some(Selection::PrefixMatch));
        assert_eq!(
            (warm.match_bucket(), warm.total_blocks),
            (MatchBucket::To75, 3)
        );
    }
    let mut bench = Bench::new(|_| {});
    let blind = bench.choose("least-request", "abcdefgh", &[0, 0]);
    assert_eq!((blind.selection, blind.total_blocks), (None, 0));
}

#[test]
fn match_buckets_are_of_exact_shares() {
    let mut choice = Bench::new(|_| {}).choose("prefix-cache", "", &[0]);
    for (matched, total, expected) in [
        (0, 0, "0"),
        (0, 9, "0"),
        (1, 250, "1-25"),
        (1, 4, "1-25"),
        (251, 1000, "26-50"),
        (1, 2, "26-50"),
        (2, 3, "51-75"),
        (3, 4, "51-75"),
        (751, 1000, "76-100"),
        (5, 5, "76-100"),
    ] {
        (choice.matched_blocks, choice.total_blocks) = (matched, total);
        assert_eq!(
            choice.match_bucket().as_str(),
            expected,
            "{matched} of {total}"
        );
    }
}

#[test]
fn models_do_not_share_what_they_hold() {
    let mut bench = Bench::new(|_| {});
    bench.send("prefix-cache", "abcdefgh", &[0, 0]);
    let mut other = PrefixBlocks::default();
    let adapter = Scope {
        model: "m-adapter",
        cache_salt: None,
    };
    bench
        .router
        .hash(adapter, |show| show(b"abcdefgh"), &mut other);
    let plan = bench
        .router
        .plan("prefix-cache", &Overrides::default())
        .unwrap();
    let request = Request {
        blocks: &other,
        seed: 0,
        ..Request::default()
    };
    let choice = bench
        .router
        .route(&plan, &request, &pods(&[0, 0]), &mut bench.scratch)
        .unwrap();
    assert_eq!(choice.matched_blocks, 0);
}

#[test]
fn a_forgotten_pod_holds_nothing_when_its_slot_is_used_again() {
    let mut bench = Bench::new(|_| {});
    let sent = bench.send("prefix-cache", "abcdefgh", &[0, 0]);
    bench.router.forget(sent.slot);
    assert_eq!(
        bench
            .choose("prefix-cache", "abcdefgh", &[0, 0])
            .matched_blocks,
        0
    );
    assert_eq!(bench.router.index().len(), 0);
}

#[test]
fn sixty_cold_prompts_are_spread_over_idle_pods() {
    let mut bench = Bench::new(|_| {});
    let mut counts = [0; 3];
    for prompt in 0..60 {
        let choice = bench.send("prefix-cache", &format!("{prompt:04} and more"), &[0; 3]);
        counts[usize::from(choice.slot.0)] += 1;
    }
    assert!(
        counts.iter().all(|count| (10..=30).contains(count)),
        "{counts:?}"
    );
}

#[test]
fn a_hot_prefix_outlives_a_flood_and_its_head_lives_as_long_as_its_tail() {
    let mut bench = Bench::new(|settings| settings.prefix_cache.max_blocks = 100);
    let hot = "the hot prefix of thirty-two by.";
    bench.router.record(PodSlot(0), &bench.blocks(hot), 0);
    for prompt in 0..2000 {
        bench.send(
            "least-request",
            &format!("{prompt:08} flood of cold prompts"),
            &[0; 3],
        );
        if prompt % 10 == 0 {
            bench.router.record(PodSlot(0), &bench.blocks(hot), 0);
        }
        assert!(bench.router.index().len() <= 100);
        let choice = bench.choose("prefix-cache", hot, &[0; 3]);
        assert_eq!((choice.slot, choice.matched_blocks), (PodSlot(0), 8));
    }
}

#[test]
fn no_pods_is_an_error_and_a_bad_strategy_names_good_ones() {
    let bench = Bench::new(|_| {});
    let plan = bench
        .router
        .plan(" prefix-cache ", &Overrides::default())
        .unwrap();
    assert_eq!(plan.requested(), "prefix-cache");
    let blocks = PrefixBlocks::default();
    let request = Request {
        blocks: &blocks,
        seed: 0,
        ..Request::default()
    };
    let nowhere = bench
        .router
        .route(&plan, &request, &[], &mut Scratch::default());
    assert_eq!(nowhere, Err(RouteError::NoPod));
    let refused = check_strategy("fastest").unwrap_err().to_string();
    let names: Vec<_> = strategy::ALL.iter().map(|one| one.name).collect();
    assert_eq!(
        refused,
        format!(
            "incorrect routing strategy \"fastest\": there is no strategy \"fastest\"; good ones are {}; and, of all but \
             random, power-of-two, round-robin, slo, slo-pack-load, slo-least-load, slo-least-load-pulling, lists with \
             weights, like prefix-cache:5,load-balance:4",
            names.join(", ")
        )
    );
}

#[test]
fn the_index_outlives_a_reload_that_leaves_its_blocks_what_they_are() {
    let bench = Bench::new(|_| {});
    let blocks = bench.blocks("abcdefgh");
    bench.router.record(PodSlot(0), &blocks, 0);
    let held = |pod_capacity, change: &dyn Fn(&mut RoutingSettings)| {
        let mut settings = bench.router.settings().clone();
        change(&mut settings);
        let router = bench.router.with_settings(settings, pod_capacity);
        let mut again = PrefixBlocks::default();
        router.hash(SCOPE, |show| show(b"abcdefgh"), &mut again);
        let same = again.hashes() == blocks.hashes();
        (same, router.index().len(), router.index().pod_capacity())
    };
    assert_eq!(
        held(8, &|settings| settings.strategy = "random".to_owned()),
        (true, 2, 64)
    );
    assert_eq!(
        held(8, &|settings| settings.auto_blend.load_balance_weight = 0),
        (true, 2, 64)
    );
    assert_eq!(held(65, &|_| {}), (true, 2, 128));
    assert_eq!(
        held(8, &|settings| settings.prefix_cache.max_blocks = 9),
        (true, 0, 64)
    );
    assert_eq!(
        held(8, &|settings| settings.prefix_cache.block_size = 8),
        (false, 0, 64)
    );
    assert_eq!(
        held(8, &|settings| settings.prefix_cache.hash_seed = Some(1)),
        (false, 0, 64)
    );
}

#[test]
fn plans_are_kept_and_their_number_is_bounded() {
    let bench = Bench::new(|_| {});
    let plan = |text: &str| bench.router.plan(text, &Overrides::default()).unwrap();
    assert!(Arc::ptr_eq(&plan("prefix-cache"), &plan("prefix-cache")));
    for weight in 0..10_000 {
        plan(&format!("prefix-cache:{weight},load-balance:1"));
    }
    assert!(bench.router.plans.len() <= CACHED_PLANS);
}

#[test]
fn an_explanation_shows_the_choice_and_changes_nothing() {
    let mut bench = Bench::new(|_| {});
    bench
        .router
        .record(PodSlot(1), &bench.blocks("abcdefgh"), 0);
    let plan = bench
        .router
        .plan("prefix-cache", &Overrides::default())
        .unwrap();
    let blocks = bench.blocks("abcdefgh");
    let request = Request {
        blocks: &blocks,
        seed: 1,
        ..Request::default()
    };
    let explained = bench
        .router
        .explain(&plan, &request, &pods(&[0, 1, 5]))
        .unwrap();
    assert_eq!(
        explained.choice,
        bench.choose("prefix-cache", "abcdefgh", &[0, 1, 5])
    );
    assert_eq!(explained.pods.len(), explained.choice.candidates);
    let [prefix, load] = &explained.parts[..] else {
        panic!()
    };
    assert_eq!(
        (prefix.strategy, load.strategy),
        ("prefix-cache", "load-balance")
    );
    assert_eq!(prefix.scores, [0.0, 2.0, 0.0]);
    assert_eq!(prefix.normalised, [0.0, 1.0, 0.0]);
    assert_eq!(bench.router.index().len(), 2);
}

#[test]
fn with_a_latency_goal_a_full_pod_is_no_candidate_not_even_the_only_one() {
    let mut bench = Bench::new(|settings| settings.slo.pod_requests = Some(2));
    let mut route = |strategy: &str, counts: &[u32]| {
        let plan = bench.router.plan(strategy, &Overrides::default()).unwrap();
        let request = Request::default();
        let choice = bench
            .router
            .route(&plan, &request, &pods(counts), &mut bench.scratch);
        choice.map(|choice| choice.slot.0)
    };
    for strategy in ["slo", "slo-least-load-pulling", "slo-pack-load"] {
        assert_eq!(route(strategy, &[2, 1, 3]), Ok(1));
        assert_eq!(route(strategy, &[2]), Err(RouteError::AllFull));
        assert_eq!(route(strategy, &[]), Err(RouteError::NoPod));
    }
    assert_eq!(route("slo-pack-load", &[0, 1, 2]), Ok(1));
    assert_eq!(route("slo", &[0, 1, 2]), Ok(0));
    assert_eq!(route("slo-least-load", &[20, 10]), Ok(1));
    assert_eq!(route("least-request", &[20]), Ok(0));
}
