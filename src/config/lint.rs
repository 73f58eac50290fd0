//! Settings that hold, but cannot do what they seem to be meant for.
//!
//! Only what follows from the settings alone is warned of, never taste: a rule here can be proved, and its message says
//! the way out. `warmgate check` prints these, and so does the log at the start.

mod idle;
mod served;
mod strategies;
#[cfg(test)]
mod tests;

use std::time::Duration;

use self::served::Served;
use super::{Config, Fits};

/// One line a warning, `path.to.key: what is bad; what to do`.
pub(super) fn lint(config: &Config) -> Vec<String> {
    let served = Served::new(config);
    let named = strategies::all(config, &served);
    let mut warnings = Warnings(Vec::new());
    health(config, &served, &mut warnings);
    timeouts(config, &mut warnings);
    index(config, &mut warnings);
    models(config, &served, &mut warnings);
    idle::standalone_prefix_cache(config, &named, &mut warnings);
    strategies::metrics(&named, &mut warnings);
    strategies::goals(config, &named, &mut warnings);
    warnings.0
}

struct Warnings(Vec<String>);

impl Warnings {
    fn add(&mut self, path: impl std::fmt::Display, what: impl std::fmt::Display) {
        self.0
            .push(format!("{path}: {what}").replace(char::is_control, " "));
    }
}

fn health(config: &Config, served: &Served<'_>, warnings: &mut Warnings) {
    let health = &config.health;
    if health.timeout > health.interval {
        warnings.add(
            "health.timeout",
            format!(
                "{:?} is longer than health.interval ({:?}), so a check may still run when the next is due; make it shorter",
                health.timeout, health.interval
            ),
        );
    }
    let all_kept = |pods: usize| (pods as f64 * health.min_available).ceil() as usize >= pods;
    let groups = served.groups().into_iter();
    let fixed = groups.filter(|group| group.pods.len() > 1 && all_kept(group.pods.len()));
    // What lets one go of the fewest does of more.
    if let Some(group) = fixed.min_by_key(|group| group.pods.len()) {
        let pods = group.pods.len();
        warnings.add(
            "health.min_available",
            format!(
                "{} of {} are all of them, so no check ever takes one out; at most {} lets one go",
                health.min_available,
                group.shown(),
                rounded_down((pods - 1) as f64 / pods as f64),
            ),
        );
    }
}

fn timeouts(config: &Config, warnings: &mut Warnings) {
    let timeouts = &config.timeouts;
    let Some(whole) = timeouts.request else {
        return;
    };
    for (key, part) in [
        ("timeouts.first_byte", timeouts.first_byte),
        ("timeouts.idle", timeouts.idle),
    ] {
        if let Some(part) = part.filter(|part| *part >= whole) {
            warnings.add(
                key,
                format!(
                    "{part:?} can never pass, since timeouts.request ends every request after {whole:?}; make it shorter, or none"
                ),
            );
        }
    }
    let tries = (config.retry.attempts + 1).min(config.pods.len());
    let connecting = timeouts.connect.unwrap_or(Duration::ZERO);
    if connecting.saturating_mul(u32::try_from(tries).unwrap_or(u32::MAX)) >= whole {
        warnings.add(
            "timeouts.request",
            format!(
                "{whole:?} is over before {tries} pods could be tried for {connecting:?} each (timeouts.connect, retry.attempts); make it longer"
            ),
        );
    }
}

/// The longest prompt that models of today read, in bytes; what more a body holds is pictures and sound.
const LONGEST_PROMPT: usize = 4 << 20;
/// Below this many bytes a prompt is short.
const SHORT_PROMPT: usize = 4096;

fn index(config: &Config, warnings: &mut Warnings) {
    let prefix = &config.routing.prefix_cache;
    let longest = config.limits.body.min(LONGEST_PROMPT);
    let blocks = longest.div_ceil(prefix.block_size);
    if prefix.max_blocks < blocks {
        warnings.add(
            "routing.prefix_cache.max_blocks",
            format!(
                "one prompt of {longest} bytes has {blocks} blocks of {}, more than the {} that the index holds for all; allow more, or make blocks larger",
                prefix.block_size, prefix.max_blocks
            ),
        );
    }
    if prefix.block_size > SHORT_PROMPT {
        warnings.add(
            "routing.prefix_cache.block_size",
            format!(
                "prompts shorter than {} bytes have no whole block and are never matched; make blocks smaller",
                prefix.block_size
            ),
        );
    }
    if prefix.ttl < config.health.interval {
        warnings.add(
            "routing.prefix_cache.ttl",
            format!(
                "after {:?} a prompt is forgotten, sooner than a pod is checked once (health.interval, {:?}), though engines keep it; make it longer",
                prefix.ttl, config.health.interval
            ),
        );
    }
    if config.routing.load_balance.kv_critical_free >= 1.0 {
        warnings.add(
            "routing.load_balance.kv_critical_free",
            "with 1 a pod that holds anything at all is the last choice, so load-balance cannot tell pods apart; make it smaller",
        );
    }
}

fn models(config: &Config, served: &Served<'_>, warnings: &mut Warnings) {
    for (name, model) in &config.models {
        let path = format!("models.{name}");
        if served.groups_of(name, model).is_empty() {
            warnings.add(
                &path,
                "no pod serves a model of this name, so its settings are for nothing; correct the name, or the models of a pod",
            );
        }
        if model.locked_strategy.is_some() {
            let without_effect = model
                .profiles
                .iter()
                .filter(|(_, profile)| profile.routing_strategy.is_some());
            for (profile, _) in without_effect {
                warnings.add(
                    format!("{path}.profiles.{profile}.routingStrategy"),
                    "lockedRoutingStrategy wins over it for every request; leave one of them out",
                );
            }
        }
        let bounded: Vec<_> = model
            .profiles
            .iter()
            .filter(|(_, profile)| profile.fits != Fits::default())
            .collect();
        for (at, (profile, settings)) in bounded.iter().enumerate() {
            let first = bounded[..at]
                .iter()
                .find(|(_, earlier)| earlier.fits == settings.fits);
            if let Some((first, _)) = first {
                warnings.add(
                    format!("{path}.profiles.{profile}"),
                    format!("has the bounds of {first}, so that config-profile: auto never takes it; change or leave out its bounds"),
                );
            }
        }
    }
}

/// To two digits, so that what is told to be enough is.
fn rounded_down(share: f64) -> f64 {
    (share * 100.0).floor() / 100.0
}
