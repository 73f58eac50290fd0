//! The strategies that the file names: where, for which pods, and what they cannot do without.

use super::super::{Config, Profile};
use super::Warnings;
use super::served::{Group, Served};

/// A strategy of the file.
pub(super) struct Named<'a> {
    pub(super) path: String,
    pub(super) strategy: &'a str,
    /// The profile that names it.
    pub(super) profile: Option<&'a Profile>,
    /// Pods between which it chooses.
    pub(super) groups: Vec<Group<'a>>,
}

pub(super) fn all<'a>(config: &'a Config, served: &Served<'a>) -> Vec<Named<'a>> {
    let mut all = vec![Named {
        path: "routing.strategy".to_owned(),
        strategy: &config.routing.strategy,
        profile: None,
        groups: without_own(config, served),
    }];
    for (name, model) in &config.models {
        let own = [
            ("strategy", &model.strategy),
            ("lockedRoutingStrategy", &model.locked_strategy),
        ];
        let own = own
            .into_iter()
            .filter_map(|(key, strategy)| Some((key.to_owned(), strategy.as_deref()?, None)));
        let profiles = model.profiles.iter().filter_map(|(profile, settings)| {
            let key = format!("profiles.{profile}.routingStrategy");
            Some((key, settings.routing_strategy.as_deref()?, Some(settings)))
        });
        all.extend(own.chain(profiles).map(|(key, strategy, profile)| Named {
            path: format!("models.{name}.{key}"),
            strategy,
            profile,
            groups: served.groups_of(name, model),
        }));
    }
    all
}

/// The groups whose requests can come to `routing.strategy`.
fn without_own<'a>(config: &'a Config, served: &Served<'a>) -> Vec<Group<'a>> {
    let mut groups = served.groups();
    for (name, model) in &config.models {
        if model.strategy.is_some() || model.locked_strategy.is_some() {
            groups.retain(|group| !group.serves(name, model));
        }
    }
    groups
}

/// Names of the list that are run: weight 0 takes one off.
fn names(strategy: &str) -> impl Iterator<Item = &str> {
    strategy.split(',').filter_map(|item| {
        let (name, weight) = item.split_once(':').unwrap_or((item, "1"));
        let runs = weight.trim().parse() != Ok(0_u64);
        runs.then(|| name.trim())
    })
}

/// Strategies that know nothing but what engines tell in their metrics.
const BY_METRICS: &[&str] = &["least-kv-cache", "least-gpu-cache", "least-utilization"];

/// A pod that is not scored never wins over one that is.
pub(super) fn metrics(named: &[Named<'_>], warnings: &mut Warnings) {
    for one in named {
        let pods = one.groups.iter().flat_map(|group| &group.pods);
        let Some(silent) = pods.into_iter().find(|pod| pod.metrics.is_none()) else {
            continue;
        };
        for name in names(one.strategy).filter(|name| BY_METRICS.contains(name)) {
            warnings.add(
                &one.path,
                format!(
                    "{name} goes by the engines' metrics, which pod {} has not (metrics: none); give its path, or take another strategy",
                    silent.name
                ),
            );
        }
    }
}

/// Strategies that go by `routing.slo.pod_requests`.
const BY_GOAL: &[&str] = &["slo", "slo-pack-load", "slo-least-load-pulling"];

pub(super) fn goals(config: &Config, named: &[Named<'_>], warnings: &mut Warnings) {
    if config.routing.slo.pod_requests.is_some() {
        return;
    }
    for one in named {
        if let Some(name) = names(one.strategy).find(|name| BY_GOAL.contains(name)) {
            warnings.add(
                &one.path,
                format!(
                    "{name} has no goal to keep without routing.slo.pod_requests and takes the fewest requests, as least-request does; set it, or take least-request"
                ),
            );
        }
    }
}
