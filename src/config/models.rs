//! Reads `models`: aliases, strategies and profiles. Profiles keep the reference's JSON names.

use std::collections::{BTreeMap, HashMap};

use super::problem::Wrong;
use super::reader::{Map, Node};
use super::rule;
use super::{Model, Profile, StrategyCheck};

/// Keys of the reference's profiles that this version does not have yet.
const PROFILE_LATER: &[&str] = &[
    "requestsPerSecond",
    "requestsPerSecondPerReplica",
    "requestsInflight",
    "promptTokensGte",
    "promptTokensLt",
    "maxTokensGte",
    "maxTokensLt",
];
const ROUTING_LATER: &[&str] = &[
    "loadBalance",
    "autoBlend",
    "preble",
    "vtc",
    "pd",
    "promptLengthBucketing",
    "promptLenBucketMinLength",
    "promptLenBucketMaxLength",
    "combined",
    "prefillScorePolicy",
    "decodeScorePolicy",
];

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
    let default_profile = map.take("default_profile");
    let profiles = map.take("profiles");
    for (name, node) in profiles.iter().flat_map(Node::named) {
        let profile = node.map(|map| profile(map, check)).unwrap_or_default();
        model.profiles.insert(name.to_owned(), profile);
    }
    if let Some(node) = default_profile {
        model.default_profile = node.text(|text| {
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
        });
    }
    model
}

fn profile(map: &mut Map<'_, '_>, check: StrategyCheck<'_>) -> Profile {
    let mut profile = Profile::default();
    map.set(&mut profile.routing_strategy, "routingStrategy", |node| {
        strategy(node, check).map(Some)
    });
    if let Some(node) = map.take("routingConfig") {
        node.map(|map| routing_config(map, &mut profile));
    }
    map.refuse(PROFILE_LATER, "routingStrategy, routingConfig");
    profile
}

fn routing_config(map: &mut Map<'_, '_>, profile: &mut Profile) {
    if let Some(node) = map.take("prefixCache") {
        node.map(|map| {
            map.scalar(
                &mut profile.standard_deviation_factor,
                "standardDeviationFactor",
                |text| rule::above(0.0)(text).map(Some),
            );
        });
    }
    map.refuse(ROUTING_LATER, "prefixCache");
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
