//! What a strategy may know of the request itself.

use super::block::PrefixBlocks;
use super::pod::PodSlot;

#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub blocks: &'a PrefixBlocks,
    /// Decides between equals: another one for each request, the same for the same pick again.
    pub seed: u64,
    pub now_ms: u64,
    /// Tokens of the prompt, counted or estimated; see [`Self::tokens_of`].
    pub prompt_tokens: u64,
    /// Whose request it is, for strategies that are fair between users.
    pub user: Option<&'a str>,
    pub session: Session<'a>,
}

/// What ties requests together that should meet the same pod.
#[derive(Clone, Copy, Debug, Default)]
pub struct Session<'a> {
    /// The pod that the client's session names; only ever one of our pods.
    pub pod: Option<PodSlot>,
    /// A key that the client chose.
    pub key: Option<&'a str>,
}

/// Bytes of a token, roughly, in what people and programs write. Of a `tiktoken` prompt exactly: its tokens are numbers
/// of four bytes.
const TOKEN_BYTES: u64 = 4;

impl Request<'_> {
    /// The tokens of a prompt of so many bytes.
    pub fn tokens_of(bytes: usize) -> u64 {
        (bytes as u64).div_ceil(TOKEN_BYTES)
    }

    /// Tokens that a pod has to read which holds so many of the prompt's leading blocks; at least one, since engines
    /// always compute the last.
    pub(super) fn uncached_tokens(&self, matched_blocks: u32) -> u64 {
        let total = self.blocks.total_blocks() as u64;
        let missing = total.saturating_sub(u64::from(matched_blocks));
        let share = match total {
            0 => 1.0,
            total => missing as f64 / total as f64,
        };
        ((self.prompt_tokens as f64 * share) as u64).max(1)
    }
}

impl Default for Request<'_> {
    fn default() -> Self {
        Self {
            blocks: PrefixBlocks::NONE,
            seed: 0,
            now_ms: 0,
            prompt_tokens: 0,
            user: None,
            session: Session::default(),
        }
    }
}
