//! Walks a YAML tree and knows, at every point, the path to name in a message.
//!
//! - [`Node::map`] hands out a [`Map`] and afterwards reports every key that nobody took: a typo is
//!   never passed over, and no caller can forget to ask.
//! - A refused value is a recorded problem and `None`; reading goes on, so that all problems come at once.
//! - `${NAME}` in a string is replaced when the string is read. Messages show the text as the file has
//!   it, so what the environment holds stays out of them.

use serde_yaml_ng::{Mapping, Value};

use super::environment::Environment;
use super::problem::{Problems, Wrong};

/// What every node shares.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) problems: &'a Problems,
    pub(super) environment: &'a Environment,
}

/// A value and the path that leads to it.
pub(super) struct Node<'a> {
    path: String,
    value: &'a Value,
    context: Context<'a>,
}

impl<'a> Node<'a> {
    pub(super) fn root(value: &'a Value, context: Context<'a>) -> Self {
        Self {
            path: String::new(),
            value,
            context,
        }
    }

    fn child(&self, path: String, value: &'a Value) -> Self {
        Self {
            path,
            value,
            context: self.context,
        }
    }

    pub(super) fn path(&self) -> &str {
        if self.path.is_empty() {
            "the file"
        } else {
            &self.path
        }
    }

    pub(super) fn context(&self) -> Context<'a> {
        self.context
    }

    pub(super) fn add(&self, what: impl Into<String>, allowed: impl Into<String>) {
        self.context
            .problems
            .add(self.path(), Wrong::new(what, allowed));
    }

    /// Reports a value of the wrong kind.
    pub(super) fn wrong_kind(&self, allowed: &str) {
        self.add(format!("is {}", kind(self.value)), allowed);
    }

    pub(super) fn is_none(&self) -> bool {
        self.value.as_str() == Some("none")
    }

    pub(super) fn is_map(&self) -> bool {
        self.value.is_mapping()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.value.is_null() || self.value.as_sequence().is_some_and(Vec::is_empty)
    }

    pub(super) fn is_text(&self) -> bool {
        self.value.is_string()
    }

    /// Reads a map by `read`, then reports the keys it did not take. Nothing (`key:`) is an empty map.
    pub(super) fn map<T>(&self, read: impl FnOnce(&mut Map<'_, 'a>) -> T) -> Option<T> {
        static EMPTY: std::sync::LazyLock<Mapping> = std::sync::LazyLock::new(Mapping::new);
        let entries = match self.value {
            Value::Mapping(entries) => entries,
            Value::Null => &EMPTY,
            other => {
                self.add(format!("is {}", kind(other)), "a map of keys and values");
                return None;
            }
        };
        let mut map = Map {
            node: self,
            entries,
            taken: Vec::new(),
        };
        let value = read(&mut map);
        map.report_unknown();
        Some(value)
    }

    /// The entries of a map whose keys are names that the operator gives.
    pub(super) fn named(&self) -> Vec<(&'a str, Self)> {
        match self.value {
            Value::Mapping(entries) => entries
                .iter()
                .filter_map(|(key, value)| match key {
                    Value::String(name) => {
                        Some((name.as_str(), self.child(join(&self.path, name), value)))
                    }
                    other => {
                        self.add_odd_key(other);
                        None
                    }
                })
                .collect(),
            Value::Null => Vec::new(),
            other => {
                self.add(format!("is {}", kind(other)), "a map of names");
                Vec::new()
            }
        }
    }

    /// The items of a list. Nothing (`key:`) is an empty list.
    pub(super) fn list(&self) -> Option<Vec<Self>> {
        match self.value {
            Value::Sequence(items) => Some(
                items
                    .iter()
                    .enumerate()
                    .map(|(i, item)| self.child(format!("{}[{i}]", self.path), item))
                    .collect(),
            ),
            Value::Null => Some(Vec::new()),
            other => {
                self.add(format!("is {}", kind(other)), "a list");
                None
            }
        }
    }

    /// Reads a list in which every item follows the rule; wrong items are reported and left out.
    pub(super) fn list_of<T>(&self, read: impl Fn(&Self) -> Option<T>) -> Option<Vec<T>> {
        Some(self.list()?.iter().filter_map(read).collect())
    }

    /// A number, a yes or no, or a string, by `rule`.
    pub(super) fn scalar<T>(&self, rule: impl Fn(&str) -> Result<T, Wrong>) -> Option<T> {
        let (text, shown) = match self.value {
            Value::Bool(flag) => (flag.to_string(), flag.to_string()),
            Value::Number(number) => (number.to_string(), number.to_string()),
            Value::String(text) => (self.replaced(text)?, format!("{text:?}")),
            other => return self.refuse_kind(other, &rule),
        };
        self.apply(&text, Some(&shown), rule)
    }

    /// A string by `rule`: a number is refused, since YAML would already have changed how it is written.
    pub(super) fn text<T>(&self, rule: impl Fn(&str) -> Result<T, Wrong>) -> Option<T> {
        match self.value {
            Value::String(text) => {
                self.apply(&self.replaced(text)?, Some(&format!("{text:?}")), rule)
            }
            Value::Number(_) | Value::Bool(_) => {
                self.add(
                    format!("is {}", kind(self.value)),
                    "a string; put it in quotes if it is meant as one",
                );
                None
            }
            other => self.refuse_kind(other, &rule),
        }
    }

    /// [`Node::text`] for a value that messages must not show.
    pub(super) fn secret_text<T>(&self, rule: impl Fn(&str) -> Result<T, Wrong>) -> Option<T> {
        match self.value {
            Value::String(text) => self.apply(&self.replaced(text)?, None, rule),
            _ => self.text(rule),
        }
    }

    fn apply<T>(
        &self,
        text: &str,
        shown: Option<&str>,
        rule: impl Fn(&str) -> Result<T, Wrong>,
    ) -> Option<T> {
        rule(text)
            .map_err(|wrong| {
                let wrong = match shown {
                    Some(shown) => wrong.of(shown),
                    None => wrong,
                };
                self.context.problems.add(self.path(), wrong);
            })
            .ok()
    }

    /// Refuses a value that is no scalar, with what the rule allows: every rule but the one for any text refuses empty text.
    fn refuse_kind<T>(&self, value: &Value, rule: impl Fn(&str) -> Result<T, Wrong>) -> Option<T> {
        let allowed = rule("").err().map(|wrong| wrong.allowed);
        self.add(
            format!("is {}", kind(value)),
            allowed.unwrap_or_else(|| "a string".to_owned()),
        );
        None
    }

    /// Replaces `${NAME}` by the environment's value; `$${` stands for `${`.
    fn replaced(&self, text: &str) -> Option<String> {
        match self.context.environment.replace(text) {
            Ok(text) => Some(text),
            Err(wrong) => {
                self.context.problems.add(self.path(), wrong);
                None
            }
        }
    }

    fn add_odd_key(&self, key: &Value) {
        let shown = match key {
            Value::Bool(flag) => flag.to_string(),
            Value::Number(number) => number.to_string(),
            other => kind(other).to_owned(),
        };
        self.add(
            format!("has the key {shown}, which is not a string"),
            "strings; put the key in quotes if it is meant as one",
        );
    }
}

/// A map while it is read.
pub(super) struct Map<'n, 'a> {
    node: &'n Node<'a>,
    entries: &'a Mapping,
    taken: Vec<&'static str>,
}

impl<'a> Map<'_, 'a> {
    /// The value of a key; it counts as known from now on.
    pub(super) fn take(&mut self, key: &'static str) -> Option<Node<'a>> {
        self.taken.push(key);
        let value = self.entries.get(key)?;
        Some(self.node.child(join(&self.node.path, key), value))
    }

    /// Reads the value of a key, if it is there.
    pub(super) fn with(&mut self, key: &'static str, read: impl FnOnce(&Node<'a>)) {
        if let Some(node) = self.take(key) {
            read(&node);
        }
    }

    /// Sets `slot` if the key is there and good.
    pub(super) fn set<T>(
        &mut self,
        slot: &mut T,
        key: &'static str,
        read: impl FnOnce(&Node<'a>) -> Option<T>,
    ) {
        if let Some(value) = self.take(key).and_then(|node| read(&node)) {
            *slot = value;
        }
    }

    /// [`Map::set`] for a number, a yes or no, or a string.
    pub(super) fn scalar<T>(
        &mut self,
        slot: &mut T,
        key: &'static str,
        rule: impl Fn(&str) -> Result<T, Wrong>,
    ) {
        self.set(slot, key, |node| node.scalar(rule));
    }

    /// [`Map::set`] for a string.
    pub(super) fn text<T>(
        &mut self,
        slot: &mut T,
        key: &'static str,
        rule: impl Fn(&str) -> Result<T, Wrong>,
    ) {
        self.set(slot, key, |node| node.text(rule));
    }

    /// Knows the keys, and reports those that are there as not supported yet.
    pub(super) fn refuse(&mut self, keys: &[&'static str], allowed: &str) {
        for key in keys {
            self.with(key, |node| {
                node.context
                    .problems
                    .add(node.path(), Wrong::unsupported(allowed));
            });
        }
    }

    /// Reports the map itself, as when a key that it needs is missing.
    pub(super) fn node(&self) -> &Node<'a> {
        self.node
    }

    fn report_unknown(&self) {
        for key in self.entries.keys() {
            match key {
                Value::String(name) if self.taken.contains(&name.as_str()) => {}
                Value::String(name) => {
                    let guess = closest(name, &self.taken)
                        .map_or(String::new(), |near| format!(", did you mean {near}?"));
                    self.node.context.problems.add(
                        join(&self.node.path, name),
                        Wrong::new(format!("unknown key{guess}"), self.taken.join(", ")),
                    );
                }
                other => self.node.add_odd_key(other),
            }
        }
    }
}

/// `path.key`; a key that could be taken for more than one is quoted.
fn join(path: &str, key: &str) -> String {
    let plain = !key.is_empty()
        && key
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
    match (plain, path.is_empty()) {
        (true, true) => key.to_owned(),
        (true, false) => format!("{path}.{key}"),
        (false, _) => format!("{path}[{key:?}]"),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "without a value",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Sequence(_) => "a list",
        Value::Mapping(_) => "a map",
        Value::Tagged(_) => "a value with a YAML tag",
    }
}

/// The known name that is at most a slip or two away.
pub(super) fn closest<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    let allowed = (name.chars().count() / 3).clamp(1, 3);
    known
        .iter()
        .map(|candidate| (distance(name, candidate), *candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Levenshtein distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_close_name_is_guessed_and_a_far_one_is_not() {
        let known = ["listen", "threads", "shutdown_grace"];
        assert_eq!(closest("lisen", &known), Some("listen"));
        assert_eq!(closest("thread", &known), Some("threads"));
        assert_eq!(closest("shutdown-grace", &known), Some("shutdown_grace"));
        assert_eq!(closest("port", &known), None);
    }

    #[test]
    fn odd_keys_are_quoted_in_paths() {
        assert_eq!(join("", "pods"), "pods");
        assert_eq!(join("models", "m-a"), "models.m-a");
        assert_eq!(join("models", "org/m.a"), "models[\"org/m.a\"]");
    }
}
