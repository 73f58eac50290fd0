//! Wrong files and every line that is said about them: in `wrong/*.txt` a file, `----`, the lines, `====`.

use super::*;

fn check(cases: &str) {
    let variables = [("HOST", "e9"), ("KEY", "two words")];
    for case in cases.split_terminator("====\n") {
        let (text, want) = case.split_once("----\n").unwrap();
        let got = load_with(text, &[], &variables)
            .map_or_else(|errors| errors.to_string(), |_| "nothing wrong".to_owned());
        assert_eq!(got, want.trim_end(), "\n{text}");
    }
}

#[test]
fn unknown_keys_are_found_at_every_level() {
    check(include_str!(
        "wrong/unknown_keys_are_found_at_every_level.txt"
    ));
}

#[test]
fn wrong_types_say_what_is_allowed() {
    check(include_str!("wrong/wrong_types_say_what_is_allowed.txt"));
}

#[test]
fn ranges_are_kept() {
    check(include_str!("wrong/ranges_are_kept.txt"));
}

#[test]
fn pods_are_checked() {
    check(include_str!("wrong/pods_are_checked.txt"));
}

#[test]
fn what_is_not_built_is_refused() {
    check(include_str!("wrong/what_is_not_built_is_refused.txt"));
}

#[test]
fn the_capture_must_be_writable() {
    check(include_str!("wrong/the_capture_must_be_writable.txt"));
}

#[test]
fn models_and_strategies_are_checked() {
    check(include_str!("wrong/models_and_strategies_are_checked.txt"));
}

#[test]
fn listeners_are_checked() {
    check(include_str!("wrong/listeners_are_checked.txt"));
}

#[test]
fn yaml_errors_name_line_and_column() {
    check(include_str!("wrong/yaml_errors_name_line_and_column.txt"));
}

#[test]
fn variables_in_strings_must_be_set() {
    check(include_str!("wrong/variables_in_strings_must_be_set.txt"));
}
