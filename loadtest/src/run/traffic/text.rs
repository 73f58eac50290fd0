//! Text of an exact length that means nothing.

use rand::Rng;

/// Bytes of a token, as simulated engines count.
pub(super) const TOKEN_BYTES: usize = 4;

const CONSONANTS: &[u8; 16] = b"bdfghjklmnprstvz";
const VOWELS: &[u8; 4] = b"aeio";

/// So many tokens: words of three letters, each with a space.
pub(super) fn words(tokens: usize, random: &mut impl Rng) -> String {
    let mut text = String::with_capacity(tokens * TOKEN_BYTES);
    let mut left = tokens;
    while left > 0 {
        // A word takes ten bits: six words a draw.
        let mut bits = random.next_u64();
        for _ in 0..left.min(6) {
            for letter in [
                CONSONANTS[(bits & 15) as usize],
                VOWELS[(bits >> 4 & 3) as usize],
                CONSONANTS[(bits >> 6 & 15) as usize],
                b' ',
            ] {
                text.push(char::from(letter));
            }
            bits >>= 10;
        }
        left -= left.min(6);
    }
    text
}
