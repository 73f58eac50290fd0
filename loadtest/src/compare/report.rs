//! What the comparison found: tables of everything, and the ratios that matter with the bar of each.
//!
//! Whatever sets two measurements against each other does so within a round, where the machine did the same for both;
//! the median is taken of that, not before.

mod figures;
mod json;
mod markdown;
mod ratios;

use serde::Serialize;

use super::balancer::{BARE, WARMGATE};
use super::cores::Cores;
use super::plan::Test;
use super::target::DIRECT;
use figures::Figure;

pub(super) use figures::Figures;

/// How it was measured.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Setting {
    pub(super) seconds: f64,
    pub(super) rounds: usize,
    pub(super) engines: usize,
    pub(super) cores: Cores,
}

pub(super) struct Report {
    setting: Setting,
    balancers: Vec<Compared>,
    tables: Vec<Table>,
    skipped: Vec<Skipped>,
    failures: Vec<Failure>,
}

#[derive(Serialize)]
struct Compared {
    name: &'static str,
    version: String,
    about: &'static str,
}

#[derive(Serialize)]
struct Skipped {
    balancer: &'static str,
    why: String,
}

#[derive(Serialize)]
struct Failure {
    balancer: &'static str,
    test: String,
    /// What the first one said.
    why: String,
    rounds: usize,
}

/// All measurements of a test.
struct Table {
    test: Test,
    rows: Vec<Row>,
}

struct Row {
    balancer: &'static str,
    /// By round; `None` where it failed.
    rounds: Vec<Option<Figures>>,
}

impl Report {
    pub(super) fn new(setting: Setting) -> Self {
        Self {
            setting,
            balancers: Vec::new(),
            tables: Vec::new(),
            skipped: Vec::new(),
            failures: Vec::new(),
        }
    }

    pub(super) fn compared(&mut self, name: &'static str, version: String, about: &'static str) {
        self.balancers.push(Compared {
            name,
            version,
            about,
        });
    }

    pub(super) fn skipped(&mut self, balancer: &'static str, why: String) {
        self.skipped.push(Skipped { balancer, why });
    }

    pub(super) fn add(&mut self, test: &Test, balancer: &'static str, round: usize, new: Figures) {
        let rounds = self.setting.rounds;
        let rows = self.rows(test);
        let place = match rows.iter().position(|row| row.balancer == balancer) {
            Some(place) => place,
            None => {
                rows.push(Row {
                    balancer,
                    rounds: vec![None; rounds],
                });
                rows.len() - 1
            }
        };
        if let Some(figures) = rows[place].rounds.get_mut(round) {
            *figures = Some(new);
        }
    }

    fn rows(&mut self, test: &Test) -> &mut Vec<Row> {
        let place = match self.tables.iter().position(|table| table.test == *test) {
            Some(place) => place,
            None => {
                self.tables.push(Table {
                    test: *test,
                    rows: Vec::new(),
                });
                self.tables.len() - 1
            }
        };
        &mut self.tables[place].rows
    }

    /// True when it is the first of this balancer in this test.
    pub(super) fn failed(&mut self, test: &Test, balancer: &'static str, why: &str) -> bool {
        let test = test.title();
        let same = |known: &&mut Failure| known.balancer == balancer && known.test == test;
        if let Some(known) = self.failures.iter_mut().find(same) {
            known.rounds += 1;
            return false;
        }
        self.failures.push(Failure {
            balancer,
            test,
            why: why.to_owned(),
            rounds: 1,
        });
        true
    }

    /// Those of our own that could not be measured, without which the figures of the others say nothing.
    pub(super) fn missing_own(&self) -> Vec<&'static str> {
        let skipped = self.skipped.iter().map(|skipped| skipped.balancer);
        let failed = self.failures.iter().map(|failure| failure.balancer);
        let mut names: Vec<&str> = skipped
            .chain(failed)
            .filter(|name| [WARMGATE, BARE, DIRECT].contains(name))
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

impl Table {
    fn figures(&self, balancer: &str, round: usize) -> Option<&Figures> {
        let row = self.rows.iter().find(|row| row.balancer == balancer)?;
        row.rounds.get(round)?.as_ref()
    }

    fn rounds(&self) -> std::ops::Range<usize> {
        0..self.rows.first().map_or(0, |row| row.rounds.len())
    }

    fn median(&self, balancer: &str, figure: Figure) -> Option<f64> {
        median(
            self.rounds()
                .filter_map(|round| figure.of(self, balancer, round))
                .collect(),
        )
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    Some(f64::midpoint(values[last / 2], values[last.div_ceil(2)]))
}

#[cfg(test)]
mod tests;
