//! What is wrong with a configuration, one line a problem.

use std::cell::RefCell;
use std::fmt;

/// Every problem of a configuration. `Display` prints one a line:
/// `path.to[3].key: what is wrong; what is allowed`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigErrors(Vec<Problem>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Problem {
    path: String,
    wrong: Wrong,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = format!("{}: {}", self.path, self.wrong.what);
        if !self.wrong.allowed.is_empty() {
            line += "; allowed: ";
            line += &self.wrong.allowed;
        }
        // One problem is one line, and no terminal is steered, whatever names the file holds.
        f.write_str(&line.replace(char::is_control, " "))
    }
}

/// Why a value is refused, and what would not be. Rules leave the value itself out of `what`: whoever
/// reports the problem knows whether it may be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wrong {
    pub(super) what: String,
    /// Empty: `what` says it already.
    pub(super) allowed: String,
}

impl Wrong {
    pub(super) fn new(what: impl Into<String>, allowed: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            allowed: allowed.into(),
        }
    }

    /// For what the contract knows and this version does not do.
    pub(super) fn unsupported(allowed: impl Into<String>) -> Self {
        Self::new("is not supported by this version", allowed)
    }

    /// The same with the refused value in front: `"x" is not a size`.
    pub(super) fn of(self, shown: &str) -> Self {
        Self {
            what: format!("{shown} {}", self.what),
            ..self
        }
    }
}

/// Collects problems while the parts of the configuration are read.
#[derive(Debug, Default)]
pub(super) struct Problems(RefCell<Vec<Problem>>);

impl Problems {
    pub(super) fn add(&self, path: impl Into<String>, wrong: Wrong) {
        self.0.borrow_mut().push(Problem {
            path: path.into(),
            wrong,
        });
    }

    pub(super) fn into_result<T>(self, value: T) -> Result<T, ConfigErrors> {
        let found = self.0.into_inner();
        if found.is_empty() {
            Ok(value)
        } else {
            Err(ConfigErrors(found))
        }
    }
}
