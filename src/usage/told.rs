//! The object under `usage`, in the words of every API.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// What the object tells. What is not a count is passed over, as a key that is not known.
#[derive(Default)]
pub(super) struct Told {
    pub(super) prompt: Option<u64>,
    pub(super) completion: Option<u64>,
    pub(super) cached: Option<u64>,
}

impl<'de> Deserialize<'de> for Told {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Keys)
    }
}

struct Keys;

impl<'de> Visitor<'de> for Keys {
    type Value = Told;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of counts")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Told, A::Error> {
        let mut told = Told::default();
        // The words of OpenAI's first API win over those of the later ones.
        let (mut input, mut output) = (None, None);
        let (mut of_prompt, mut of_input, mut read) = (None, None, None);
        while let Some(key) = map.next_key::<std::borrow::Cow<'de, str>>()? {
            match &*key {
                "prompt_tokens" => told.prompt = count(map.next_value()?),
                "completion_tokens" => told.completion = count(map.next_value()?),
                "input_tokens" => input = count(map.next_value()?),
                "output_tokens" => output = count(map.next_value()?),
                "prompt_tokens_details" => of_prompt = cached(map.next_value()?),
                "input_tokens_details" => of_input = cached(map.next_value()?),
                "cache_read_input_tokens" => read = count(map.next_value()?),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        told.prompt = told.prompt.or(input);
        told.completion = told.completion.or(output);
        told.cached = of_prompt.or(of_input).or(read);
        Ok(told)
    }
}

fn count(raw: &RawValue) -> Option<u64> {
    raw.get().parse().ok()
}

fn cached(details: &RawValue) -> Option<u64> {
    #[derive(serde::Deserialize)]
    struct Details<'a> {
        #[serde(borrow)]
        cached_tokens: Option<&'a RawValue>,
    }
    let details: Details<'_> = serde_json::from_str(details.get()).ok()?;
    count(details.cached_tokens?)
}
