use proptest::prelude::*;

use super::*;

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

fn check(text: &str, expected: &[&str]) {
    let pods = [
        ("plain", labels(&[])),
        ("gold", labels(&[("tier", "gold"), ("gpu-mem", "80")])),
        ("silver", labels(&[("tier", "silver"), ("gpu-mem", "24")])),
        (
            "canary",
            labels(&[("tier", "gold"), ("example.com/canary", "")]),
        ),
        ("odd", labels(&[("in", "notin"), ("gpu-mem", "many")])),
    ];
    let selector = Selector::parse(text).unwrap_or_else(|error| panic!("{error}"));
    let matched: Vec<_> = pods
        .iter()
        .filter(|(_, labels)| selector.matches(labels))
        .map(|(name, _)| *name)
        .collect();
    assert_eq!(matched, expected, "{text:?}");
}

#[test]
fn every_operator_selects_as_in_kubernetes() {
    let all = ["plain", "gold", "silver", "canary", "odd"];
    check("", &all);
    check("  ", &all);
    check("tier", &["gold", "silver", "canary"]);
    check("!tier", &["plain", "odd"]);
    check("! tier", &["plain", "odd"]);
    check("tier=gold", &["gold", "canary"]);
    check("tier==gold", &["gold", "canary"]);
    check(" tier = gold ", &["gold", "canary"]);
    check("tier!=gold", &["plain", "silver", "odd"]);
    check("tier in (gold, silver)", &["gold", "silver", "canary"]);
    check("tier in(silver)", &["silver"]);
    check("tier notin (gold,silver)", &["plain", "odd"]);
    check("gpu-mem>24", &["gold"]);
    check("gpu-mem < 80", &["silver"]);
    check("gpu-mem>-1", &["gold", "silver"]);
}

#[test]
fn requirements_are_joined_by_and() {
    check("tier=gold,!example.com/canary", &["gold"]);
    check(
        "tier in (gold,silver), gpu-mem != 80",
        &["silver", "canary"],
    );
    check("tier=gold,tier=silver", &[]);
    check("tier,tier,tier", &["gold", "silver", "canary"]);
}

#[test]
fn values_may_be_empty_and_operators_may_be_names() {
    check("example.com/canary=", &["canary"]);
    check("example.com/canary=,tier=gold", &["canary"]);
    check("example.com/canary in ()", &["canary"]);
    check("example.com/canary in (,a)", &["canary"]);
    check("example.com/canary!=", &["plain", "gold", "silver", "odd"]);
    check("in", &["odd"]);
    check("in in (notin)", &["odd"]);
    check("in=notin", &["odd"]);
    check(
        "!in,tier notin (in)",
        &["plain", "gold", "silver", "canary"],
    );
}

#[track_caller]
fn check_wrong(text: &str, expected: &str) {
    let error = Selector::parse(text).unwrap_err().to_string();
    let shown = format!("incorrect label selector {text:?}: {expected}; good ones are ");
    assert!(error.starts_with(&shown), "{error}");
}

#[test]
fn errors_name_the_text_and_what_is_wrong_with_it() {
    check_wrong(",", "a comma is where the key of a label should be");
    check_wrong("a,", "the end is where the key of a label should be");
    check_wrong("a,,b", "a comma is where the key of a label should be");
    check_wrong("!", "the end is where the key of a label should be");
    check_wrong("!!a", "a ! is where the key of a label should be");
    check_wrong("=b", "a = is where the key of a label should be");
    check_wrong("(a)", "a ( is where the key of a label should be");
    check_wrong(
        "a b",
        "\"b\" follows \"a\", where an operator or a comma should be",
    );
    check_wrong(
        "a IN (b)",
        "\"IN\" follows \"a\", where an operator or a comma should be",
    );
    check_wrong("a=b c", "\"c\" is where a comma should be");
    check_wrong("!a=b", "a = is where a comma should be");
    check_wrong("a=b=c", "a = is where a comma should be");
    check_wrong("a=(b)", "a ( is where a value should be");
    check_wrong("a=!b", "a ! is where a value should be");
    check_wrong("a in b", "\"b\" is where a ( should be");
    check_wrong("a in", "the end is where a ( should be");
    check_wrong("a in (b", "the end is where a comma or a ) should be");
    check_wrong("a in (b c)", "\"c\" is where a comma or a ) should be");
    check_wrong("a in ((b))", "a ( is where a comma or a ) should be");
    check_wrong("a>b", "\"b\" is not a whole number");
    check_wrong("a>", "the end is where a value should be");
    check_wrong("a<1.5", "\"1.5\" is not a whole number");
}

#[test]
fn keys_and_values_are_those_kubernetes_takes() {
    let longest = "x".repeat(63);
    for good in ["a", "A.b_c-9", "a/b", "a-b.c0/D", &longest] {
        assert!(Selector::parse(good).is_ok(), "{good}");
    }
    let too_long = "x".repeat(64);
    for bad in [
        "-a", "a.", "a/", "/a", "a/b/c", "A/b", "a..b/c", "-a/b", "a_b/c", "ä", "a*", "a;b",
        &too_long,
    ] {
        check_wrong(bad, &format!("{bad:?} is not the key of a label"));
    }
    for bad in ["-a", "a/b", "a:b", "\u{fc}", &too_long] {
        check_wrong(
            &format!("k={bad}"),
            &format!("{bad:?} is not the value of a label"),
        );
        check_wrong(
            &format!("k in (v,{bad})"),
            &format!("{bad:?} is not the value of a label"),
        );
    }
}

#[test]
fn a_long_text_is_refused_and_not_repeated() {
    let error = Selector::parse(&"a,".repeat(3000)).unwrap_err().to_string();
    assert!(error.contains("longer than 4096 bytes"), "{error}");
    assert!(error.len() < 500, "{error}");
}

proptest! {
    #[test]
    fn no_text_panics_and_negation_is_the_opposite(text in "[a-c!=,()<> in1]{0,24}", value in "[a-c]?") {
        let labels = labels(&[("a", &value)]);
        if let Ok(selector) = Selector::parse(&text) {
            selector.matches(&labels);
        }
        let holds = |text: String| Selector::parse(&text).unwrap().matches(&labels);
        for key in ["a", "b"] {
            prop_assert_ne!(holds(format!("{key}={value}")), holds(format!("{key}!={value}")));
            prop_assert_ne!(holds(format!("{key} in (x,{value})")), holds(format!("{key} notin (x,{value})")));
            prop_assert_ne!(holds(key.to_owned()), holds(format!("!{key}")));
        }
    }
}
