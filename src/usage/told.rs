//! The object under `usage`, in the words of every API.

use crate::json::{Raw, Walk};

/// What the object tells. What is not a count is passed over, as a key that is not known.
#[derive(Default)]
pub(super) struct Told {
    pub(super) prompt: Option<u64>,
    pub(super) completion: Option<u64>,
    pub(super) cached: Option<u64>,
}

impl Told {
    /// `None` for what is no object.
    pub(super) fn read(object: &[u8]) -> Option<Self> {
        let mut told = Self::default();
        // The words of OpenAI's first API win over those of the later ones.
        let (mut input, mut output) = (None, None);
        let (mut of_prompt, mut of_input, mut read) = (None, None, None);
        let mut walk = Walk::new(object);
        walk.object(|walk, key| {
            match &*key.unescaped() {
                b"prompt_tokens" => told.prompt = walk.value()?.count(),
                b"completion_tokens" => told.completion = walk.value()?.count(),
                b"input_tokens" => input = walk.value()?.count(),
                b"output_tokens" => output = walk.value()?.count(),
                b"prompt_tokens_details" => of_prompt = cached(walk.value()?),
                b"input_tokens_details" => of_input = cached(walk.value()?),
                b"cache_read_input_tokens" => read = walk.value()?.count(),
                _ => _ = walk.pass()?,
            }
            Some(())
        })?;
        walk.end()?;
        told.prompt = told.prompt.or(input);
        told.completion = told.completion.or(output);
        told.cached = of_prompt.or(of_input).or(read);
        Some(told)
    }
}

fn cached(details: Raw<'_>) -> Option<u64> {
    let mut tokens = None;
    Walk::new(details.bytes).object(|walk, key| {
        match key.is("cached_tokens") {
            true => tokens = walk.value()?.count(),
            false => _ = walk.pass()?,
        }
        Some(())
    })?;
    tokens
}
