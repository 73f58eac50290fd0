//! Settings that hold, but cannot do what they seem to be meant for.
//!
//! Only what follows from the settings alone is warned of, never taste: a rule here can be proved, and its message says
//! the way out. `warmgate check` prints these, and so does the log at the start.

mod idle;
#[cfg(test)]
mod tests;

use std::time::Duration;

use super::{Config, Fits};

/// One line a warning, `path.to.key: what is bad; what to do`.
pub(super) fn lint(config: &Config) -> Vec<String> {
    let mut warnings = Warnings(Vec::new());
    health(config, &mut warnings);
    timeouts(config, &mut warnings);
    index(config, &mut warnings);
    models(config, &mut warnings);
    idle::standalone_prefix_cache(config, &mut warnings);
    metrics(config, &mut warnings);
    warnings.0
}

struct Warnings(Vec<String>);

impl Warnings {
    fn add(&mut self, path: impl std::fmt::Display, what: impl std::fmt::Display) {
        self.0
            .push(format!("{path}: {what}").replace(char::is_control, " "));
    }
}

fn health(config: &Config, warnings: &mut Warnings) {
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
    let pods = config.pods.len();
    let kept = (pods as f64 * health.min_available).ceil() as usize;
    if pods > 1 && kept >= pods {
        warnings.add(
            "health.min_available",
            format!(
                "{} of {pods} pods are all of them, so no check ever takes one out; at most {} lets one go",
                health.min_available,
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
    let tries = config.retry.attempts + 1;
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

fn models(config: &Config, warnings: &mut Warnings) {
    // Only when every pod is told what it serves is that all there is.
    let served: Option<Vec<_>> = config.pods.iter().map(|pod| pod.models.as_ref()).collect();
    let served: Option<Vec<&String>> = served.map(|lists| lists.into_iter().flatten().collect());
    for (name, model) in &config.models {
        let path = format!("models.{name}");
        if served
            .as_ref()
            .is_some_and(|served| !served.contains(&name))
        {
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

/// Strategies that know nothing but what engines tell in their metrics.
const BY_METRICS: &[&str] = &[
    "least-kv-cache",
    "least-gpu-cache",
    "least-utilization",
    "least-latency",
    "least-busy-time",
    "throughput",
];

fn metrics(config: &Config, warnings: &mut Warnings) {
    let Some(silent) = config.pods.iter().find(|pod| pod.metrics.is_none()) else {
        return;
    };
    for (path, strategy, _) in strategies(config) {
        let names = strategy.split(',').map(|item| match item.split_once(':') {
            Some((name, _)) => name.trim(),
            None => item.trim(),
        });
        for name in names.filter(|name| BY_METRICS.contains(name)) {
            warnings.add(
                &path,
                format!(
                    "{name} goes by the engines' metrics, which pod {} has not (metrics: none); give its path, or take another strategy",
                    silent.name
                ),
            );
        }
    }
}

/// Every strategy that the file names, with its path and the profile that names it.
fn strategies(config: &Config) -> Vec<(String, &str, Option<&super::Profile>)> {
    let mut all = vec![(
        "routing.strategy".to_owned(),
        config.routing.strategy.as_str(),
        None,
    )];
    for (name, model) in &config.models {
        let own = [
            ("strategy", &model.strategy),
            ("lockedRoutingStrategy", &model.locked_strategy),
        ];
        for (key, strategy) in own {
            all.extend(
                strategy
                    .as_deref()
                    .map(|strategy| (format!("models.{name}.{key}"), strategy, None)),
            );
        }
        for (profile, settings) in &model.profiles {
            let strategy = settings.routing_strategy.as_deref();
            all.extend(strategy.map(|strategy| {
                let path = format!("models.{name}.profiles.{profile}.routingStrategy");
                (path, strategy, Some(settings))
            }));
        }
    }
    all
}

/// To two digits, so that what is told to be enough is.
fn rounded_down(share: f64) -> f64 {
    (share * 100.0).floor() / 100.0
}
