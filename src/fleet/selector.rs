//! Label selectors in Kubernetes' syntax: which pods a request may go to.
//!
//! `tier=gold,zone in (a, b),!canary`: requirements joined by commas, all of which must hold. A pod without the label
//! meets `!=` and `notin`, as in Kubernetes. The text comes from clients, so it is bounded, and an error repeats no more
//! than a part of it.
//!
//! Deliberately not here: where the text comes from, and what an answer to a bad one looks like.

mod parse;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use parse::Parser;

/// A selector ready to be held against the labels of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    text: String,
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    condition: Condition,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Condition {
    Exists,
    Absent,
    In(Vec<String>),
    NotIn(Vec<String>),
    Above(i64),
    Below(i64),
}

/// Why a text is no selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "incorrect label selector {text:?}: {problem}; good ones are comma-separated requirements such as \
     tier=gold, tier!=gold, tier in (gold, silver), tier notin (gold), tier, !tier"
)]
pub struct SelectorError {
    text: String,
    problem: Problem,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Problem {
    #[error("it is longer than {LONGEST} bytes")]
    TooLong,
    #[error("{0} is where the key of a label should be")]
    NoKey(String),
    #[error("{0:?} is not the key of a label")]
    Key(String),
    #[error("{0:?} is not the value of a label")]
    Value(String),
    #[error("{0} follows {1:?}, where an operator or a comma should be")]
    NoOperator(String, String),
    #[error("{0} is where a value should be")]
    NoValue(String),
    #[error("{0} is where a ( should be")]
    NoList(String),
    #[error("{0} is where a comma or a ) should be")]
    OpenList(String),
    #[error("{0} is where a comma should be")]
    NoComma(String),
    #[error("{0:?} is not a whole number")]
    Number(String),
}

/// Longest text that is read: more than any header that names a few labels.
const LONGEST: usize = 4096;
/// How much of a wrong text an error repeats.
const SHOWN: usize = 100;

impl Selector {
    /// Reads a selector; a text of nothing but blanks selects every pod.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let read = if text.len() > LONGEST {
            Err(Problem::TooLong)
        } else {
            Parser::new(text).selector()
        };
        let text = text.trim().chars().take(SHOWN).collect();
        match read {
            Ok(requirements) => Ok(Self { text, requirements }),
            Err(problem) => Err(SelectorError { text, problem }),
        }
    }

    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.requirements.iter().all(|requirement| {
            let value = labels.get(&requirement.key).map(String::as_str);
            requirement.condition.holds(value)
        })
    }
}

/// As it was given, cut where it is long.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Condition {
    fn holds(&self, value: Option<&str>) -> bool {
        let listed = |list: &[String]| value.is_some_and(|value| list.iter().any(|v| v == value));
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match self {
            Self::Exists => value.is_some(),
            Self::Absent => value.is_none(),
            Self::In(list) => listed(list),
            Self::NotIn(list) => !listed(list),
            Self::Above(bound) => number().is_some_and(|number| number > *bound),
            Self::Below(bound) => number().is_some_and(|number| number < *bound),
        }
    }
}
