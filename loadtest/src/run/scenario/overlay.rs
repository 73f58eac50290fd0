//! Settings of the command line over those of the file.

use anyhow::{Context, Result, bail};
use serde_yaml_ng::{Mapping, Value};

/// The scenario's text with each `path.to.key=VALUE` put in; values are YAML.
pub(super) fn apply(text: &str, settings: &[String]) -> Result<String> {
    let mut document: Value = serde_yaml_ng::from_str(text)?;
    for setting in settings {
        let (path, value) = setting
            .split_once('=')
            .with_context(|| format!("--set {setting}: has no =; allowed: path.to.key=VALUE"))?;
        let value: Value =
            serde_yaml_ng::from_str(value).with_context(|| format!("--set {setting}"))?;
        *place(&mut document, path)? = value;
    }
    Ok(serde_yaml_ng::to_string(&document)?)
}

/// Where a path leads; keys that are missing are made. A number is a place in a list.
fn place<'a>(document: &'a mut Value, path: &str) -> Result<&'a mut Value> {
    let mut place = document;
    for key in path.split('.') {
        if place.is_null() {
            *place = Value::Mapping(Mapping::new());
        }
        place = match place {
            Value::Mapping(map) => map.entry(key.into()).or_insert(Value::Null),
            Value::Sequence(list) => {
                let length = list.len();
                let item = key.parse().ok().and_then(|at: usize| list.get_mut(at));
                item.with_context(|| {
                    format!("--set {path}: {key} is not one of the {length} items")
                })?
            }
            _ => bail!("--set {path}: there is nothing below {key}"),
        };
    }
    Ok(place)
}
