//! Reads `models`: aliases, strategies and profiles.

use std::collections::{BTreeMap, HashMap};

use super::problem::Wrong;
use super::reader::{Map, Node};
use super::{Model, StrategyCheck, profiles, rule};

/// Which `config-profile` chooses by the size of the request.
pub const AUTO: &str = "auto";
/// The profile that needs no `default_profile` to be the default.
const DEFAULT: &str = "default";

pub(super) fn models(node: &Node<'_>, strategy: StrategyCheck<'_>) -> BTreeMap<String, Model> {
    let entries = node.named();
    let names: Vec<&str> = entries.iter().map(|(name, _)| *name).collect();
    let mut owners: HashMap<String, &str> = names
        .iter()
        .map(|name| ((*name).to_owned(), *name))
        .collect();
    let mut models = BTreeMap::new();
    for (name, node) in &entries {
        if name.is_empty() {
            node.add(
                "has no name",
                "the name under which engines serve the model",
            );
        }
        let Some(model) = node.map(|map| model(map, strategy)) else {
            continue;
        };
        for alias in &model.aliases {
            if let Some(owner) = owners.insert(alias.clone(), name) {
                node.add(
                    format!("has the alias {alias:?}, which already stands for {owner:?}"),
                    "every name and alias once",
                );
            }
        }
        models.insert((*name).to_owned(), model);
    }
    models
}

fn model(map: &mut Map<'_, '_>, check: StrategyCheck<'_>) -> Model {
    let mut model = Model::default();
    map.set(&mut model.aliases, "aliases", |node| {
        node.list_of(|node| node.text(rule::not_empty))
    });
    map.set(&mut model.strategy, "strategy", |node| {
        strategy(node, check).map(Some)
    });
    map.set(
        &mut model.locked_strategy,
        "lockedRoutingStrategy",
        |node| strategy(node, check).map(Some),
    );
    let default_profile = map.take("default_profile");
    let their_default = map.take("defaultProfile");
    let profiles = map.take("profiles");
    for (name, node) in profiles.iter().flat_map(Node::named) {
        if name.eq_ignore_ascii_case(AUTO) {
            node.add(
                "has the name that asks for a choice by size",
                "any other name",
            );
        }
        // It is told in a header.
        if let Err(wrong) = rule::header_token(name) {
            node.add(format!("has a name that {}", wrong.what), wrong.allowed);
        }
        let profile = node
            .map(|map| profiles::profile(map, check))
            .unwrap_or_default();
        model.profiles.insert(name.to_owned(), profile);
    }
    if let (Some(_), Some(twice)) = (&default_profile, &their_default) {
        twice.add("is given beside default_profile", "one of them");
    }
    if let Some(node) = default_profile.or(their_default) {
        model.default_profile = node.text(|text| profile_name(text, &model));
    } else if model.profiles.contains_key(DEFAULT) {
        model.default_profile = Some(DEFAULT.to_owned());
    }
    model
}

fn profile_name(text: &str, model: &Model) -> Result<String, Wrong> {
    if model.profiles.contains_key(text) {
        return Ok(text.to_owned());
    }
    let known: Vec<_> = model.profiles.keys().map(String::as_str).collect();
    let allowed = if known.is_empty() {
        "no profile is listed".to_owned()
    } else {
        known.join(", ")
    };
    Err(Wrong::new("is not a profile of this model", allowed))
}

pub(super) fn strategy(node: &Node<'_>, check: StrategyCheck<'_>) -> Option<String> {
    node.text(|text| {
        rule::not_empty(text)?;
        check(text).map_err(|why| Wrong::new(format!("is not a strategy: {why}"), ""))?;
        Ok(text.to_owned())
    })
}

/// Reports names that a list holds more than once.
pub(super) fn report_twice(node: &Node<'_>, names: &[String]) {
    let mut seen = std::collections::HashSet::new();
    for name in names {
        if !seen.insert(name) {
            node.add(format!("has {name:?} twice"), "every name once");
        }
    }
}
