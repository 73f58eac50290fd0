//! What the configuration says about a model's requests: the profile, the strategy, how many a second.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::HeaderValue;
use pingora_http::header_value_from_slice;

use super::pace::Pace;
use crate::config::{AUTO, Model, Profile};

/// The settings of a model. A reload makes new ones, with their limits counted from anew.
pub(super) struct ModelRules {
    model: Model,
    profiles: BTreeMap<String, Arc<ProfileRules>>,
}

/// A profile, with its place in the count of requests a second.
pub(super) struct ProfileRules {
    /// For a header.
    pub(super) name: HeaderValue,
    pub(super) profile: Profile,
    pace: Pace,
}

/// What `config-profile: auto` goes by; `None` is not known.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Size {
    pub(super) prompt_tokens: Option<u64>,
    pub(super) max_tokens: Option<u64>,
}

impl ModelRules {
    pub(super) fn new(model: Model, now: Instant) -> Self {
        let profiles = model.profiles.iter().map(|(name, profile)| {
            let rules = ProfileRules {
                name: header_value_from_slice(name.as_bytes()),
                profile: profile.clone(),
                pace: Pace::new(now),
            };
            (name.clone(), Arc::new(rules))
        });
        Self {
            profiles: profiles.collect(),
            model,
        }
    }

    /// The profile that a request asks for: by name, or by its size; the default one if there is none such.
    pub(super) fn profile(
        &self,
        asked: Option<&str>,
        size: impl FnOnce() -> Size,
    ) -> Option<&Arc<ProfileRules>> {
        let named = match asked {
            Some(name) if name.eq_ignore_ascii_case(AUTO) => self.fitting(size()),
            Some(name) => self.profiles.get(name),
            None => None,
        };
        named.or_else(|| self.profiles.get(self.model.default_profile.as_deref()?))
    }

    /// The most specific of the profiles that fit; of equals the first by name.
    fn fitting(&self, size: Size) -> Option<&Arc<ProfileRules>> {
        let fit = |rules: &&Arc<ProfileRules>| {
            let fits = &rules.profile.fits;
            fits.takes(size.prompt_tokens, size.max_tokens)
        };
        let by_rank = |rules: &&Arc<ProfileRules>| rules.profile.fits.rank();
        self.profiles.values().rev().filter(fit).max_by_key(by_rank)
    }

    /// The strategy, if anything here has a say: locked, as requested, the profile's, the model's.
    pub(super) fn strategy<'a>(
        &'a self,
        requested: Option<&'a str>,
        profile: Option<&'a Profile>,
    ) -> Option<&'a str> {
        self.model
            .locked_strategy
            .as_deref()
            .or(requested)
            .or_else(|| profile?.routing_strategy.as_deref())
            .or_else(|| profile?.has_limit_per_pod().then_some(EVEN))
            .or(self.model.strategy.as_deref())
    }
}

/// What limits for each pod need when nobody names a strategy: with any other most pods would stay below theirs.
const EVEN: &str = "least-request";

impl ProfileRules {
    /// Counts a request; the error says how long it should wait. `pods`: those that are ready.
    pub(super) fn admit(&self, pods: usize, now: Instant) -> Result<(), Duration> {
        let profile = &self.profile;
        let of_pods = profile
            .requests_per_second_per_replica
            .map(|limit| limit * pods.max(1) as f64);
        let limit = match (profile.requests_per_second, of_pods) {
            (Some(all), Some(of_pods)) => all.min(of_pods),
            (Some(limit), None) | (None, Some(limit)) => limit,
            (None, None) => return Ok(()),
        };
        self.pace.take(limit, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Bounds, Fits};

    fn rules(profiles: &[(&str, Profile)], default: Option<&str>) -> ModelRules {
        let profiles = profiles
            .iter()
            .map(|(name, profile)| ((*name).to_owned(), profile.clone()));
        let model = Model {
            default_profile: default.map(str::to_owned),
            profiles: profiles.collect(),
            strategy: Some("random".to_owned()),
            ..Model::default()
        };
        ModelRules::new(model, Instant::now())
    }

    fn fitting(prompt: [Option<u64>; 2], max: [Option<u64>; 2]) -> Profile {
        let bounds = |[least, below]: [Option<u64>; 2]| Bounds { least, below };
        Profile {
            fits: Fits {
                prompt_tokens: bounds(prompt),
                max_tokens: bounds(max),
            },
            ..Profile::default()
        }
    }

    const ANY: [Option<u64>; 2] = [None, None];

    #[test]
    fn a_profile_is_found_by_name_or_by_size_and_else_the_default_is_taken() {
        let rules = rules(
            &[
                ("base", Profile::default()),
                ("long", fitting([Some(8000), None], ANY)),
                ("longer", fitting([Some(20_000), None], ANY)),
                ("short", fitting([None, Some(100)], ANY)),
                ("short-answer", fitting([None, Some(100)], [None, Some(10)])),
                ("long-answer", fitting(ANY, [Some(2000), None])),
                ("too", fitting(ANY, [Some(2000), None])),
            ],
            Some("base"),
        );
        let check = |asked: Option<&str>, prompt: Option<u64>, max: Option<u64>, expected: &str| {
            let size = Size {
                prompt_tokens: prompt,
                max_tokens: max,
            };
            let found = rules
                .profile(asked, || size)
                .map(|found| found.name.clone());
            assert_eq!(found.unwrap(), expected, "{asked:?} {size:?}");
        };
        check(None, Some(9000), None, "base");
        check(Some("long"), Some(1), None, "long");
        check(Some("nope"), Some(9000), None, "base");
        for auto in ["auto", "AUTO"] {
            check(Some(auto), Some(7999), None, "base");
            check(Some(auto), Some(8000), None, "long");
            check(Some(auto), Some(20_000), None, "longer");
            check(Some(auto), Some(99), None, "short");
            check(Some(auto), Some(99), Some(9), "short-answer");
            check(Some(auto), Some(99), Some(10), "short");
            check(Some(auto), Some(500), Some(2000), "long-answer");
            check(Some(auto), None, Some(2000), "long-answer");
            check(Some(auto), None, None, "base");
        }
    }

    #[test]
    fn without_a_default_there_may_be_no_profile() {
        let rules = rules(&[("a", Profile::default())], None);
        assert!(rules.profile(None, Size::default).is_none());
        assert!(rules.profile(Some("auto"), Size::default).is_none());
        assert!(rules.profile(Some("a"), Size::default).is_some());
    }

    #[test]
    fn the_strategy_is_locked_requested_the_profile_s_or_the_model_s() {
        let mut rules = rules(&[], None);
        let plain = Profile::default();
        let own = Profile {
            routing_strategy: Some("prefix-cache".to_owned()),
            requests_inflight: Some(4),
            ..Profile::default()
        };
        let limited = Profile {
            requests_per_second_per_replica: Some(0.5),
            ..Profile::default()
        };
        assert_eq!(rules.strategy(Some("x"), Some(&own)), Some("x"));
        assert_eq!(rules.strategy(None, Some(&own)), Some("prefix-cache"));
        assert_eq!(rules.strategy(None, Some(&limited)), Some("least-request"));
        assert_eq!(rules.strategy(None, Some(&plain)), Some("random"));
        assert_eq!(rules.strategy(None, None), Some("random"));
        rules.model.locked_strategy = Some("load-balance".to_owned());
        assert_eq!(rules.strategy(Some("x"), Some(&own)), Some("load-balance"));
    }

    #[test]
    fn the_smaller_of_both_limits_counts() {
        let now = Instant::now();
        let admitted = |profile: &Profile, pods: usize| {
            let rules = rules(&[("a", profile.clone())], Some("a"));
            let rules = rules.profile(None, Size::default).unwrap();
            (0..50).filter(|_| rules.admit(pods, now).is_ok()).count()
        };
        let both = Profile {
            requests_per_second: Some(8.0),
            requests_per_second_per_replica: Some(1.5),
            ..Profile::default()
        };
        assert_eq!(admitted(&both, 2), 3);
        assert_eq!(admitted(&both, 10), 8);
        assert_eq!(admitted(&both, 0), 1);
        assert_eq!(admitted(&Profile::default(), 2), 50);
    }
}
