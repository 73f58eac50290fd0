//! Numbers, texts and block chains that are the same in every run.

use warmgate::routing::BlockHash;

/// SplitMix64: the same bytes in every run.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn text(&mut self, bytes: usize) -> Vec<u8> {
        (0..bytes)
            .map(|_| b'a' + (self.draw() % 26) as u8)
            .collect()
    }

    pub(crate) fn chain(&mut self, blocks: usize) -> Vec<BlockHash> {
        (0..blocks).map(|_| BlockHash(self.draw())).collect()
    }
}
