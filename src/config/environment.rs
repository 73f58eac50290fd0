//! The environment: values for `${NAME}` in the file, and the reference's variables, which win over it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use super::problem::Wrong;

/// The variables of the process, as they are given: nothing here asks the process itself.
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
