//! The environment: values for `${NAME}` in the file, and the reference's variables, which win over it.

mod table;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use self::table::{Effect, VARIABLES};
use super::problem::{Problems, Wrong};
use super::reader::closest;
use super::{Config, StrategyCheck};

type Outcome = Result<(), Wrong>;

/// What a variable may need beside its own value.
struct Given<'a> {
    strategy: StrategyCheck<'a>,
    environment: &'a Environment,
}

impl Given<'_> {
    /// Another variable's value; one that is not text is reported where it is its own turn.
    fn variable(&self, name: &str) -> Option<&str> {
        self.environment.0.get(name)?.to_str()
    }
}

/// The variables of the process, as they are given: nothing here asks the process itself. There is no
/// `Debug`, since many a variable is a secret.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, OsString>);

impl FromIterator<(OsString, OsString)> for Environment {
    /// A name that is not UTF-8 is none that we know.
    fn from_iter<I: IntoIterator<Item = (OsString, OsString)>>(variables: I) -> Self {
        Self(
            variables
                .into_iter()
                .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
                .collect(),
        )
    }
}

impl Environment {
    /// Lets the reference's variables win over what the file says, with a note for each that is set.
    pub(super) fn override_file(
        &self,
        config: &mut Config,
        check: StrategyCheck<'_>,
        problems: &Problems,
    ) {
        let given = Given {
            strategy: check,
            environment: self,
        };
        for (name, value) in &self.0 {
            match VARIABLES.iter().find(|variable| variable.name == name) {
                Some(variable) => match take(&variable.effect, config, value, &given) {
                    Ok(note) => config.notes.push(format!("{name}{note}")),
                    Err(wrong) => problems.add(name, wrong),
                },
                None if name.starts_with("AIBRIX_") => {
                    let known: Vec<_> = VARIABLES.iter().map(|variable| variable.name).collect();
                    let guess = closest(name, &known)
                        .map_or(String::new(), |near| format!(", did you mean {near}?"));
                    config
                        .notes
                        .push(format!("{name}: set, but not known here{guess}"));
                }
                None => {}
            }
        }
    }

    /// Replaces every `${NAME}`; `$${` stands for `${` itself.
    pub(super) fn replace(&self, text: &str) -> Result<String, Wrong> {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find("${") {
            let (before, after) = rest.split_at(at);
            let after = &after[2..];
            if let Some(before) = before.strip_suffix('$') {
                out.push_str(before);
                out.push_str("${");
                rest = after;
                continue;
            }
            out.push_str(before);
            let (name, after) = after
                .split_once('}')
                .ok_or_else(|| Wrong::new("has ${ without }", "${NAME}, or $${ for ${ itself"))?;
            out.push_str(self.text(name)?);
            rest = after;
        }
        out.push_str(rest);
        Ok(out)
    }

    fn text(&self, name: &str) -> Result<&str, Wrong> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        if name.is_empty() || !name.bytes().all(plain) {
            return Err(Wrong::new(
                format!("has ${{{name}}}, which names no variable"),
                "letters, digits and underscores",
            ));
        }
        let value = self.0.get(name).ok_or_else(|| {
            Wrong::new(
                format!("needs the environment variable {name}, which is not set"),
                format!("set {name}, or write the value here"),
            )
        })?;
        as_text(value).map_err(|wrong| wrong.of(&format!("the environment variable {name}")))
    }
}

fn as_text(value: &OsStr) -> Result<&str, Wrong> {
    value
        .to_str()
        .ok_or_else(|| Wrong::new("is not UTF-8", "UTF-8 text"))
}

/// What a set variable does; the rest of the note about it, after its name.
fn take(
    effect: &Effect,
    config: &mut Config,
    value: &OsStr,
    given: &Given<'_>,
) -> Result<String, Wrong> {
    match effect {
        Effect::Overrides { key, apply, .. } => {
            let text = as_text(value).map_err(|wrong| wrong.of("the value"))?;
            apply(config, text, given).map_err(|wrong| wrong.of(&format!("{text:?}")))?;
            Ok(format!("={text} is set and wins over {key}"))
        }
        Effect::SwitchesOn(what) => {
            let text = as_text(value).map_err(|wrong| wrong.of("the value"))?;
            if flag(text).map_err(|wrong| wrong.of(&format!("{text:?}")))? {
                return Err(Wrong::new(
                    format!("switches on {what}, which is not supported by this version"),
                    "false",
                ));
            }
            Ok(format!(": set, has no effect here: {what} is off anyway"))
        }
        // The value is not looked at: it may be a secret.
        Effect::Nothing(why) => Ok(format!(": set, has no effect here: {why}")),
    }
}

/// A yes or no as the reference reads it.
fn flag(text: &str) -> Result<bool, Wrong> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(Wrong::new(
            "is not true or false",
            "true, false, t, f, 1, 0",
        )),
    }
}

/// The table as `docs/environment.md` has it.
#[cfg(test)]
pub(super) fn documented() -> String {
    let mut out = String::from(
        "| variable | YAML key | default here | default there | here it |\n| --- | --- | --- | --- | --- |\n",
    );
    for variable in VARIABLES {
        let (key, ours, what) = match &variable.effect {
            Effect::Overrides { key, ours, .. } => (
                format!("`{key}`"),
                format!("`{ours}`"),
                "wins over the key".to_owned(),
            ),
            Effect::SwitchesOn(what) => (
                "-".to_owned(),
                "`false`".to_owned(),
                format!("is an error when true: this version does not have {what}"),
            ),
            Effect::Nothing(why) => (
                "-".to_owned(),
                "-".to_owned(),
                format!("has no effect: {why}"),
            ),
        };
        out += &format!(
            "| `{}` | {key} | {ours} | {} | {what} |\n",
            variable.name, variable.theirs
        );
    }
    out
}

#[cfg(test)]
mod tests;
