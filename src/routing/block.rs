//! Chained hashes of a prompt's blocks.
//!
//! A block is `block_size` bytes of the prompt; its hash is XXH3-64 of those bytes seeded with the
//! hash of the block before, so one hash stands for the whole prefix up to and with its block. The
//! first parent is made of the seed, the model's name and the cache salt: nothing learned under
//! one model or salt counts for another. Equal input gives equal hashes on every replica and after
//! a restart.
//!
//! The prompt comes as pieces borrowed from the request body. Blocks inside a piece are hashed in
//! place; only a block that spans pieces is gathered. A trailing partial block is ignored.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Stands for a block and every block before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockHash(pub u64);

/// What separates equal prompts that must not share anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope<'a> {
    /// Name of the model or adapter as the engine is asked for it.
    pub model: &'a str,
    pub cache_salt: Option<&'a str>,
}

/// The hashes of one prompt, in order. Kept by the caller and filled again for each request.
#[derive(Clone, Debug, Default)]
pub struct PrefixBlocks {
    hashes: Vec<BlockHash>,
    total_blocks: usize,
    bytes: usize,
    /// Start of a block whose end is in a piece to come.
    partial: Vec<u8>,
    parent: u64,
}

impl PrefixBlocks {
    pub fn hashes(&self) -> &[BlockHash] {
        &self.hashes
    }

    /// Full blocks of the prompt, those beyond the hashed ones included.
    pub fn total_blocks(&self) -> usize {
        self.total_blocks
    }

    /// Length of the prompt that was hashed, as tokenized; 0 for blocks that were hashed elsewhere.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn clear(&mut self) {
        self.hashes.clear();
        self.partial.clear();
        self.total_blocks = 0;
        self.bytes = 0;
    }
}

/// Blocks that were hashed elsewhere: a replayed trace, an engine's own hashes.
impl From<Vec<BlockHash>> for PrefixBlocks {
    fn from(hashes: Vec<BlockHash>) -> Self {
        Self {
            total_blocks: hashes.len(),
            hashes,
            ..Self::default()
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockHasher {
    block_size: usize,
    seed: u64,
    max_blocks: usize,
}

impl BlockHasher {
    /// `max_blocks`: how many blocks of one prompt are hashed; the index could not hold more.
    pub fn new(block_size: usize, seed: u64, max_blocks: usize) -> Self {
        Self {
            block_size: block_size.max(1),
            seed,
            max_blocks,
        }
    }

    pub fn fill<'a>(
        &self,
        scope: Scope<'_>,
        pieces: impl IntoIterator<Item = &'a [u8]>,
        blocks: &mut PrefixBlocks,
    ) {
        self.begin(scope, blocks);
        for piece in pieces {
            self.push(piece, blocks);
        }
    }

    pub(super) fn begin(&self, scope: Scope<'_>, blocks: &mut PrefixBlocks) {
        blocks.clear();
        let model = xxh3_64_with_seed(scope.model.as_bytes(), self.seed);
        // The complement keeps "no salt" and an empty salt apart.
        blocks.parent = scope
            .cache_salt
            .map_or(model, |salt| xxh3_64_with_seed(salt.as_bytes(), !model));
    }

    pub(super) fn push(&self, mut piece: &[u8], blocks: &mut PrefixBlocks) {
        blocks.bytes += piece.len();
        blocks.total_blocks = blocks.bytes / self.block_size;
        if blocks.hashes.len() >= self.max_blocks {
            return;
        }
        if !blocks.partial.is_empty() {
            let missing = self.block_size - blocks.partial.len();
            let (end, rest) = piece.split_at(missing.min(piece.len()));
            blocks.partial.extend_from_slice(end);
            if blocks.partial.len() < self.block_size {
                return;
            }
            blocks.parent = xxh3_64_with_seed(&blocks.partial, blocks.parent);
            blocks.hashes.push(BlockHash(blocks.parent));
            blocks.partial.clear();
            piece = rest;
        }
        let room = self.max_blocks - blocks.hashes.len();
        let whole = piece.chunks_exact(self.block_size);
        let rest = whole.remainder();
        let mut parent = blocks.parent;
        blocks.hashes.extend(whole.take(room).map(|block| {
            parent = xxh3_64_with_seed(block, parent);
            BlockHash(parent)
        }));
        blocks.parent = parent;
        if blocks.hashes.len() < self.max_blocks {
            blocks.partial.extend_from_slice(rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const M: Scope<'static> = Scope {
        model: "m",
        cache_salt: None,
    };

    fn hashes(block_size: usize, seed: u64, scope: Scope<'_>, bytes: &[u8]) -> Vec<u64> {
        let mut blocks = PrefixBlocks::default();
        BlockHasher::new(block_size, seed, usize::MAX).fill(scope, [bytes], &mut blocks);
        assert_eq!(blocks.total_blocks(), blocks.hashes().len());
        blocks.hashes().iter().map(|hash| hash.0).collect()
    }

    // Relations of the reference's hash table. The digests differ from it on purpose: the chain
    // is XXH3-64 and seeded with the model, the reference's is XXH64 without the model.
    #[test]
    fn equal_prefixes_give_equal_chains_and_nothing_else_does() {
        let chain = |bytes: &[u8]| hashes(4, 0, M, bytes);
        let base = chain(&[1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(base.len(), 2);
        assert_eq!(base, chain(&[1, 2, 3, 4, 5, 6, 7, 8]));
        assert_eq!(base, chain(&[1, 2, 3, 4, 5, 6, 7, 8, 9]), "partial block");
        assert_eq!(base[..1], chain(&[1, 2, 3, 4, 5, 6, 7]));
        assert_eq!(base, chain(&(1..=13).collect::<Vec<u8>>())[..2]);

        let tail = chain(&[1, 2, 3, 4, 5, 6, 7, 9]);
        assert_eq!(base[0], tail[0]);
        assert_ne!(base[1], tail[1]);
        let other_tail = chain(&[1, 2, 3, 4, 9, 10, 11, 12]);
        assert_eq!(base[0], other_tail[0]);
        assert_ne!(base[1], other_tail[1]);
        let head = chain(&[0, 2, 3, 4, 5, 6, 7, 8]);
        assert_ne!(base[0], head[0]);
        assert_ne!(base[1], head[1], "a hash covers all blocks before its own");
        let suffix = chain(&[5, 6, 7, 8, 9, 10, 11, 12]);
        assert!(suffix.iter().all(|hash| !base.contains(hash)));
    }

    #[test]
    fn seed_model_and_salt_separate_chains() {
        let text = b"the same four blocks of text";
        let scope = |model, cache_salt| Scope { model, cache_salt };
        let chains = [
            hashes(4, 0, M, text),
            hashes(4, 42, M, text),
            hashes(4, u64::MAX, M, text),
            hashes(4, 0, scope("m-adapter", None), text),
            hashes(4, 0, scope("m", Some("")), text),
            hashes(4, 0, scope("m", Some("tenant-a")), text),
            hashes(4, 0, scope("m", Some("tenant-b")), text),
            hashes(4, 0, scope("", Some("m")), text),
        ];
        for (at, one) in chains.iter().enumerate() {
            for other in &chains[at + 1..] {
                assert!(one.iter().zip(other).all(|(left, right)| left != right));
            }
        }
    }

    // Pinned, and computed with another implementation of XXH3: these must be the same on every
    // replica and in every version that shares an index.
    #[test]
    fn hashes_stay_what_they_are() {
        let salted = Scope {
            model: "m",
            cache_salt: Some("s"),
        };
        let ramp: Vec<u8> = (0..300).map(|at| (at % 256) as u8).collect();
        let check = |block_size, seed, scope: Scope<'_>, bytes: &[u8], expected: &[u64]| {
            let found = hashes(block_size, seed, scope, bytes);
            assert_eq!(
                found, expected,
                "{block_size} {seed} {scope:?}: {found:#018x?}"
            );
        };
        check(
            4,
            0,
            M,
            b"abcdefgh",
            &[0xe4ab_6b71_1fc6_d7b3, 0xce5e_4806_6a9c_7672],
        );
        check(
            4,
            42,
            M,
            b"abcdefgh",
            &[0x5007_5cba_8c94_fe6e, 0xa772_f636_039d_5366],
        );
        check(
            4,
            0,
            salted,
            b"abcdefgh",
            &[0x1235_5e14_1d0f_41ac, 0xc241_56d8_8d56_710c],
        );
        check(
            4,
            0,
            M,
            "h\u{e9}llo w\u{f6}rld".as_bytes(),
            &[
                0x9dfb_76a8_29f2_bb6b,
                0x63a6_d423_0381_9e7f,
                0x8866_0df2_e5b1_82ea,
            ],
        );
        check(128, 0, M, &[b'a'; 128], &[0x3bb5_c796_a6d9_c3db]);
        check(
            128,
            0,
            M,
            &ramp,
            &[0x595a_ef72_cbaf_3a6b, 0x416e_b7ee_d390_2d94],
        );
        check(256, 0, M, &ramp, &[0x6705_748e_a018_0d48]);
    }

    #[test]
    fn prompts_shorter_than_a_block_have_none() {
        assert!(hashes(128, 0, M, b"").is_empty());
        assert!(hashes(128, 0, M, &[7; 127]).is_empty());
        assert_eq!(hashes(128, 0, M, &[7; 128]).len(), 1);
    }

    #[test]
    fn the_cut_into_pieces_does_not_matter() {
        let text: Vec<u8> = (0..200).map(|at| (at * 7 % 251) as u8).collect();
        for block_size in [1, 3, 4, 16, 64, 199, 200, 201] {
            let whole = hashes(block_size, 9, M, &text);
            for piece in [1, 2, 5, 16, 63, 64, 65, 200] {
                let mut blocks = PrefixBlocks::default();
                BlockHasher::new(block_size, 9, usize::MAX).fill(
                    M,
                    text.chunks(piece).flat_map(|part| [part, &[]]),
                    &mut blocks,
                );
                let found: Vec<u64> = blocks.hashes().iter().map(|hash| hash.0).collect();
                assert_eq!(found, whole, "blocks of {block_size}, pieces of {piece}");
            }
        }
    }

    #[test]
    fn hashing_stops_at_the_cap_but_counts_on() {
        let hasher = BlockHasher::new(4, 0, 3);
        let mut blocks = PrefixBlocks::default();
        for pieces in [vec![&[1u8; 42][..]], vec![&[1; 11], &[1; 9], &[1; 22]]] {
            hasher.fill(M, pieces, &mut blocks);
            assert_eq!(blocks.hashes().len(), 3);
            assert_eq!(blocks.total_blocks(), 10);
        }
        hasher.fill(M, [&[1u8; 4][..]], &mut blocks);
        assert_eq!((blocks.hashes().len(), blocks.total_blocks()), (1, 1));
    }
}
