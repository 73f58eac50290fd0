//! The blocks of a prompt are the same however it is cut into pieces.
#![no_main]

use libfuzzer_sys::fuzz_target;
use warmgate::routing::{BlockHasher, PrefixBlocks, Scope};

fuzz_target!(|data: &[u8]| {
    let [size, cut, limit, prompt @ ..] = data else {
        return;
    };
    let hasher = BlockHasher::new(usize::from(*size) + 1, 7, usize::from(*limit) + 1);
    let scope = Scope {
        model: "m",
        cache_salt: None,
    };
    let mut whole = PrefixBlocks::default();
    hasher.fill(scope, [prompt], &mut whole);
    let mut pieces = PrefixBlocks::default();
    hasher.fill(scope, prompt.chunks(usize::from(*cut) + 1), &mut pieces);
    assert_eq!(whole.hashes(), pieces.hashes());
    assert_eq!(
        whole.total_blocks(),
        prompt.len() / (usize::from(*size) + 1)
    );
    assert!(whole.hashes().len() <= usize::from(*limit) + 1);
});
