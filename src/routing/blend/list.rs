//! Reading `prefix-cache:5,load-balance:4`: names with weights, as the header and the
//! configuration give them.

use std::fmt;

use super::super::strategy::{Definition, Kind};

const MAX_WEIGHT: u64 = 1_000_000;
/// How much of a wrong value an error repeats.
const SHOWN: usize = 100;

/// A strategy that is not to be had, with what is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("incorrect routing strategy {value:?}: {problem}; good ones are {good}")]
pub struct StrategyError {
    value: String,
    problem: Problem,
    good: Good,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Problem {
    #[error("it is empty")]
    Empty,
    #[error("an item of the list is empty")]
    EmptyItem,
    #[error("it has a line break or another control character")]
    Control,
    #[error("the weight {0:?} is not a whole number from 0 to {MAX_WEIGHT}")]
    Weight(String),
    #[error("{0:?} has more than one colon")]
    Colons(String),
    #[error("all weights are 0")]
    AllZero,
    #[error("there is no strategy {0:?}")]
    Unknown(String),
    #[error("{0} can only stand alone")]
    NotInLists(&'static str),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Good {
    names: Vec<&'static str>,
    /// Those that can only stand alone.
    alone: Vec<&'static str>,
}

impl fmt::Display for Good {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (names, alone) = (self.names.join(", "), self.alone.join(", "));
        write!(
            out,
            "{names}; and, of all but {alone}, lists with weights, like prefix-cache:5,load-balance:4"
        )
    }
}

/// What a strategy string asks for.
pub(in crate::routing) struct List {
    /// In order, each name once, weights above 0; never empty.
    pub(super) items: Vec<Item>,
    /// Every name in the string, those with weight 0 included.
    pub(super) mentioned: Vec<&'static str>,
}

#[derive(Clone, Copy)]
pub(super) struct Item {
    pub(super) definition: &'static Definition,
    pub(super) weight: u64,
}

impl List {
    pub(super) fn parse(text: &str, table: &'static [Definition]) -> Result<Self, StrategyError> {
        Self::read(text, table).map_err(|problem| StrategyError {
            value: text.chars().take(SHOWN).collect(),
            problem,
            good: Good {
                names: table.iter().map(|definition| definition.name).collect(),
                alone: alone(table),
            },
        })
    }

    /// The one item, if there is no other.
    pub(super) fn only(&self) -> Option<&Item> {
        match self.items.as_slice() {
            [only] => Some(only),
            _ => None,
        }
    }

    pub(super) fn mentions(&self, name: &str) -> bool {
        self.mentioned.contains(&name)
    }

    fn read(text: &str, table: &'static [Definition]) -> Result<Self, Problem> {
        if text.trim().is_empty() {
            return Err(Problem::Empty);
        }
        // It stands in headers and log lines as it is given.
        if text.contains(|c: char| c.is_control() && c != '\t') {
            return Err(Problem::Control);
        }
        let mut list = Self {
            items: Vec::new(),
            mentioned: Vec::new(),
        };
        for item in text.split(',') {
            list.add(item.trim(), table)?;
        }
        let exclusive = |item: &&Item| item.definition.kind == Kind::Exclusive;
        if let Some(item) = list.items.iter().find(exclusive) {
            list.items = vec![Item { weight: 1, ..*item }];
        }
        if list.items.is_empty() {
            return Err(Problem::AllZero);
        }
        let alone = |item: &&Item| item.definition.kind == Kind::Chooser;
        match list.items.iter().find(alone) {
            Some(item) if list.items.len() > 1 => Err(Problem::NotInLists(item.definition.name)),
            _ => Ok(list),
        }
    }

    fn add(&mut self, item: &str, table: &'static [Definition]) -> Result<(), Problem> {
        let (name, weight) = match item.split_once(':') {
            Some((_, weight)) if weight.contains(':') => {
                return Err(Problem::Colons(shown(item)));
            }
            Some((name, weight)) => (name.trim(), weight_of(weight.trim())?),
            None => (item, 1),
        };
        if name.is_empty() {
            return Err(Problem::EmptyItem);
        }
        let known = table.iter().find(|definition| definition.name == name);
        let definition = known.ok_or_else(|| Problem::Unknown(shown(name)))?;
        if !self.mentions(definition.name) {
            self.mentioned.push(definition.name);
        }
        // A name given twice counts with the sum of its weights: work per request stays bounded
        // by the number of strategies, whatever a client puts into the header.
        let same = |held: &&mut Item| held.definition.name == name;
        match self.items.iter_mut().find(same) {
            Some(held) => held.weight += weight,
            None if weight > 0 => self.items.push(Item { definition, weight }),
            None => {}
        }
        Ok(())
    }
}

fn weight_of(text: &str) -> Result<u64, Problem> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(weight) if digits && weight <= MAX_WEIGHT => Ok(weight),
        _ => Err(Problem::Weight(shown(text))),
    }
}

fn alone(table: &'static [Definition]) -> Vec<&'static str> {
    let alone = table
        .iter()
        .filter(|definition| definition.kind != Kind::Scorer);
    alone.map(|definition| definition.name).collect()
}

fn shown(text: &str) -> String {
    text.chars().take(SHOWN).collect()
}
