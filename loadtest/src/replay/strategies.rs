//! What `--strategies` asks for.
//!
//! Commas stand between strategies and, in weighted lists, within one. A text without a colon is
//! names: `random,prefix-cache` are two strategies. A text with a colon is one list:
//! `prefix-cache:5,load-balance:4`. Lists among others are told apart by `;`, blanks, or by giving
//! the option again.

use warmgate::routing::{StrategyError, check_strategy, strategy};

/// In the order asked for, each once; all there are where none is asked for.
pub(super) fn split(texts: &[String]) -> Result<Vec<String>, StrategyError> {
    let pieces = texts
        .iter()
        .flat_map(|text| text.split(|c: char| c == ';' || c.is_whitespace()))
        .filter(|piece| !piece.is_empty());
    let mut found: Vec<String> = Vec::new();
    for piece in pieces {
        let names: Vec<&str> = if piece.contains(':') {
            vec![piece]
        } else {
            piece.split(',').collect()
        };
        for name in names {
            check_strategy(name)?;
            if !found.iter().any(|one| one == name) {
                found.push(name.to_owned());
            }
        }
    }
    if found.is_empty() {
        found.extend(strategy::ALL.iter().map(|one| one.name.to_owned()));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(texts: &[&str], expected: &[&str]) {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        assert_eq!(split(&texts).unwrap(), expected, "{texts:?}");
    }

    #[test]
    fn names_are_parted_by_commas_and_lists_are_not() {
        check(&["random,prefix-cache"], &["random", "prefix-cache"]);
        check(
            &["prefix-cache:5,load-balance:4"],
            &["prefix-cache:5,load-balance:4"],
        );
        check(
            &[
                "random,least-request;prefix-cache:5,load-balance:4 prefix-cache",
                "random",
            ],
            &[
                "random",
                "least-request",
                "prefix-cache:5,load-balance:4",
                "prefix-cache",
            ],
        );
        let all: Vec<&str> = strategy::ALL.iter().map(|one| one.name).collect();
        check(&[], &all);
        check(&[" ; "], &all);
    }

    #[test]
    fn what_is_no_strategy_is_told() {
        let error = split(&["random,best".to_owned()]).unwrap_err().to_string();
        assert!(
            error.contains("best") && error.contains("least-request"),
            "{error}"
        );
        assert!(split(&["random,".to_owned()]).is_err());
    }
}
