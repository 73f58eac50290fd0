use std::time::Duration;

use hdrhistogram::Histogram;

use super::*;
use crate::compare::load::Seen;
use crate::compare::plan::{self, Measure};

const MEASURES: [Measure; 3] = [Measure::Throughput, Measure::Latency, Measure::Relay];

fn report(rounds: usize) -> Report {
    Report::new(Setting {
        seconds: 2.0,
        rounds,
        engines: 4,
        cores: Cores {
            balancer: 0,
            load: 1,
        },
    })
}

/// The test of 1 KiB bodies, not streamed.
fn test(measure: Measure) -> Test {
    plan::tests(&[measure], &[1], 32)[0]
}

fn cpu(us: f64) -> Figures {
    Figures {
        cpu_us_per_request: Some(us),
        ..Figures::default()
    }
}

fn time(us: f64) -> Figures {
    Figures {
        p50_us: us,
        p99_us: 2.0 * us,
        p999_us: 3.0 * us,
        ..Figures::default()
    }
}

fn ratio(report: &Report, figure: &str, against: &str) -> serde_json::Value {
    let json = report.json();
    let ratios = json["ratios"].as_array().unwrap();
    let wanted = |ratio: &&serde_json::Value| {
        ratio["figure"] == figure && ratio["against"] == against && ratio["body_kib"] == 1
    };
    ratios.iter().find(wanted).unwrap().clone()
}

#[test]
fn figures_follow_from_what_was_seen() {
    let mut latency = Histogram::new_with_bounds(1, 60_000_000, 3).unwrap();
    for us in 1..=1000 {
        latency.record(us).unwrap();
    }
    let seen = Seen {
        requests: 1000,
        events: 4000,
        elapsed: Duration::from_secs(2),
        latency,
    };
    let figures = Figures::new(&seen, Some(Duration::from_millis(100)), Some(3 << 20));
    let expected = Figures {
        requests_per_second: 500.0,
        events_per_second: 2000.0,
        busy: Some(0.05),
        cpu_us_per_request: Some(100.0),
        cpu_us_per_event: Some(25.0),
        p50_us: 500.0,
        p99_us: 990.0,
        p999_us: 999.0,
        memory_mib: Some(3.0),
    };
    assert_eq!(figures, expected);
    let idle = Seen {
        requests: 0,
        events: 0,
        ..seen
    };
    let figures = Figures::new(&idle, Some(Duration::ZERO), None);
    assert_eq!(figures.cpu_us_per_request, None);
}

#[test]
fn ratios_are_taken_within_rounds() {
    // The machine slows down by half after the first round; the ratio of the medians would be 40 to 40.
    let mut report = report(3);
    let test = test(Measure::Throughput);
    let rounds = [(20.0, 10.0), (40.0, 40.0), (80.0, 40.0)];
    for (round, (own, bare)) in rounds.into_iter().enumerate() {
        report.add(&test, WARMGATE, round, cpu(own));
        report.add(&test, BARE, round, cpu(bare));
    }
    let ratio = ratio(&report, "CPU a request", BARE);
    assert_eq!(ratio["rounds"], serde_json::json!([1.0, 2.0, 2.0]));
    assert_eq!(ratio["ratio"], 2.0);
    assert_eq!(ratio["verdict"], "MISSED");
}

#[test]
fn a_round_that_failed_for_one_is_left_out_for_both() {
    let mut report = report(3);
    let test = test(Measure::Latency);
    for (round, direct) in [100.0, 200.0, 300.0].into_iter().enumerate() {
        report.add(&test, DIRECT, round, time(direct));
        report.add(&test, "nginx", round, time(direct + 10.0));
        if round != 0 {
            report.add(&test, WARMGATE, round, time(direct + 15.0));
        }
    }
    let ratio = ratio(&report, "added latency p50", "nginx");
    assert_eq!(ratio["rounds"], serde_json::json!([1.5, 1.5]));
    assert_eq!(ratio["verdict"], "holds, aim reached");
    let table = &report.tables[0];
    assert_eq!(table.median(WARMGATE, Figure::AddedMedian), Some(15.0));
    assert_eq!(table.median(WARMGATE, Figure::Added99), Some(30.0));
    assert_eq!(table.median(WARMGATE, Figure::Added999), Some(45.0));
}

#[test]
fn who_adds_nothing_is_not_compared_with() {
    let mut report = report(1);
    let test = test(Measure::Latency);
    report.add(&test, DIRECT, 0, time(100.0));
    report.add(&test, "nginx", 0, time(99.0));
    report.add(&test, WARMGATE, 0, time(120.0));
    let ratio = ratio(&report, "added latency p50", "nginx");
    assert_eq!(ratio["ratio"], serde_json::Value::Null);
    assert_eq!(ratio["verdict"], "not measured");
}

#[test]
fn bars_have_their_direction() {
    let verdict = |own: f64, rival: f64| {
        let mut report = report(1);
        let test = test(Measure::Throughput);
        for (name, rate) in [(WARMGATE, own), ("envoy", rival)] {
            let figures = Figures {
                requests_per_second: rate,
                busy: Some(1.0),
                ..Figures::default()
            };
            report.add(&test, name, 0, figures);
        }
        ratio(&report, "requests a second on one core", "envoy")["verdict"].clone()
    };
    assert_eq!(verdict(140.0, 100.0), "MISSED");
    assert_eq!(verdict(150.0, 100.0), "holds");
    assert_eq!(verdict(200.0, 100.0), "holds, aim reached");
}

#[test]
fn who_waits_for_the_load_is_judged_by_what_its_core_could_do() {
    let mut report = report(1);
    let test = test(Measure::Throughput);
    for (name, busy) in [(WARMGATE, 1.0), ("nginx", 0.5)] {
        let figures = Figures {
            requests_per_second: 10_000.0,
            busy: Some(busy),
            ..Figures::default()
        };
        report.add(&test, name, 0, figures);
    }
    let ratio = ratio(&report, "requests a second on one core", "nginx");
    assert_eq!(ratio["ratio"], 0.5);
}

#[test]
fn medians_are_of_the_middle() {
    assert_eq!(median(vec![]), None);
    assert_eq!(median(vec![5.0]), Some(5.0));
    assert_eq!(median(vec![9.0, 1.0]), Some(5.0));
    assert_eq!(median(vec![9.0, 1.0, 2.0]), Some(2.0));
}

#[test]
fn the_text_has_a_table_a_test_and_tells_what_is_missing_once() {
    let mut report = report(2);
    report.compared(WARMGATE, "warmgate 0.1.0".to_owned(), "one thread");
    report.skipped("smg", "smg is not installed: pip install smg".to_owned());
    let test = test(Measure::Throughput);
    for round in 0..2 {
        let figures = Figures {
            requests_per_second: 2000.0,
            busy: Some(0.5),
            memory_mib: Some(12.3),
            ..cpu(250.0)
        };
        report.add(&test, WARMGATE, round, figures);
        let first = report.failed(&test, BARE, &format!("status 50{round}: oops"));
        assert_eq!(first, round == 0);
    }
    let text = report.markdown();
    for line in [
        "Balancers on core 0, load and 4 engines on core 1. Each figure is the median of 2 rounds of 2 s.",
        "| warmgate | one thread | warmgate 0.1.0 |",
        "### Throughput, bodies of 1 KiB",
        "| balancer | requests/s | core busy % | requests/s a full core | CPU us/request | memory MiB |",
        "| warmgate | 2000 | 50 | 4000 | 250.0 | 12 |",
        "| CPU a request | 1 | bare |  |  | <= 1.1 | <= 1 | not measured |",
        "Not compared: smg: smg is not installed: pip install smg",
        "Failed: bare, Throughput, bodies of 1 KiB, in 2 of 2 rounds: status 500: oops",
    ] {
        assert!(
            text.lines().any(|found| found == line),
            "no {line:?} in\n{text}"
        );
    }
    assert_eq!(text.matches("Failed:").count(), 1);
    assert_eq!(report.missing_own(), [BARE]);
}

#[test]
fn peers_that_are_missing_are_no_failure_of_the_run() {
    let mut report = report(1);
    let test = test(Measure::Throughput);
    report.skipped("nginx", "nginx is not installed".to_owned());
    report.failed(&test, "haproxy", "status 503");
    assert!(report.missing_own().is_empty());
    report.failed(&test, DIRECT, "the connection ended");
    report.skipped(WARMGATE, "is not there".to_owned());
    assert_eq!(report.missing_own(), [DIRECT, WARMGATE]);
}

#[test]
fn the_json_has_every_round_and_the_medians() {
    let mut report = report(2);
    let test = test(Measure::Relay);
    report.add(&test, BARE, 1, cpu(7.0));
    let json = report.json();
    let row = &json["measurements"][0];
    assert_eq!(row["balancer"], BARE);
    assert_eq!(row["test"], "Relay, 200 streams, an event each 10 ms");
    assert_eq!(row["streamed"], true);
    assert_eq!(row["rounds"][0], serde_json::Value::Null, "it failed");
    assert_eq!(row["rounds"][1]["cpu_us_per_request"], 7.0);
    assert_eq!(row["median"]["cpu_us_per_request"], 7.0);
    assert_eq!(row["median"]["added_p999_us"], serde_json::Value::Null);
    assert_eq!(json["setting"]["rounds"], 2);
}

#[test]
fn every_bar_belongs_to_a_test_that_is_made_by_default() {
    let mut report = report(1);
    for test in plan::tests(&MEASURES, &[1, 16, 256, 4096], 32) {
        let figures = |factor: f64| Figures {
            requests_per_second: factor,
            busy: Some(0.5),
            cpu_us_per_event: Some(factor),
            ..Figures {
                cpu_us_per_request: Some(factor),
                ..time(factor)
            }
        };
        report.add(&test, DIRECT, 0, figures(1.0));
        for balancer in crate::compare::balancer::ALL {
            report.add(&test, balancer.name, 0, figures(2.0));
        }
    }
    let json = report.json();
    for ratio in json["ratios"].as_array().unwrap() {
        assert_eq!(ratio["ratio"], 1.0, "{ratio}");
    }
}
