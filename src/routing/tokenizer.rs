//! `tiktoken`: a prompt as token ids instead of bytes.
//!
//! `cl100k_base`, spellings of special tokens taken as ordinary text, each id as four bytes, most
//! significant first. Its table is loaded once for the process.
//!
//! The text is tokenized in segments of a fixed size from its start, so equal prefixes still give
//! equal ids. That bounds what one odd text can cost (the tokenizer's regular expression gives up
//! on a million blanks in a row) at the price of ids that may differ from the whole text's around a
//! segment's end. Slow next to hashing bytes: some milliseconds for 100 KiB.

use super::block::{BlockHasher, PrefixBlocks};

/// Bytes tokenized at once.
const SEGMENT: usize = 64 * 1024;

/// Loads the table, which takes a good part of a second, so that no request waits for it.
pub(super) fn load() {
    tiktoken_rs::cl100k_base_singleton();
}

/// Feeds the ids of the text to a chain that has begun.
pub(super) fn push_tokens(
    hasher: &BlockHasher,
    each_piece: impl FnOnce(&mut dyn FnMut(&[u8])),
    blocks: &mut PrefixBlocks,
) {
    let mut segment = Vec::new();
    let mut ids = Vec::new();
    each_piece(&mut |mut piece| {
        while segment.len() + piece.len() > SEGMENT {
            let (head, rest) = piece.split_at(SEGMENT - segment.len());
            segment.extend_from_slice(head);
            let whole = whole_characters(&segment);
            encode(&segment[..whole], &mut ids);
            hasher.push(&ids, blocks);
            segment.drain(..whole);
            piece = rest;
        }
        segment.extend_from_slice(piece);
    });
    encode(&segment, &mut ids);
    hasher.push(&ids, blocks);
}

/// Length of the bytes without a character that is cut off at their end.
fn whole_characters(bytes: &[u8]) -> usize {
    let starts = |byte: &u8| *byte & 0xc0 != 0x80;
    match bytes.iter().rev().take(4).position(starts) {
        Some(back) if bytes[bytes.len() - 1 - back] >= 0xc0 => bytes.len() - 1 - back,
        _ => bytes.len(),
    }
}

fn encode(text: &[u8], ids: &mut Vec<u8>) {
    let text = String::from_utf8_lossy(text);
    let tokens = tiktoken_rs::cl100k_base_singleton().encode_ordinary(&text);
    ids.clear();
    ids.extend(tokens.into_iter().flat_map(u32::to_be_bytes));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(text: &str) -> Vec<u8> {
        let mut ids = Vec::new();
        encode(text.as_bytes(), &mut ids);
        ids
    }

    fn hashes<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> PrefixBlocks {
        let hasher = BlockHasher::new(4, 0, usize::MAX);
        let mut blocks = PrefixBlocks::default();
        hasher.fill(SCOPE, [], &mut blocks);
        push_tokens(
            &hasher,
            |show| pieces.into_iter().for_each(show),
            &mut blocks,
        );
        blocks
    }

    const SCOPE: super::super::block::Scope<'static> = super::super::block::Scope {
        model: "m",
        cache_salt: None,
    };

    #[test]
    fn ids_are_cl100k_most_significant_byte_first() {
        assert_eq!(ids("hello world"), [0, 0, 0x3b, 0xeb, 0, 0, 0x07, 0x7d]);
        let expected = [9906u32, 11, 1917, 0].map(u32::to_be_bytes).concat();
        assert_eq!(ids("Hello, world!"), expected);
        assert!(ids("<|endoftext|>").len() > 4, "not the special token");
        assert!(ids("").is_empty());
    }

    #[test]
    fn four_bytes_are_a_token_and_the_cut_into_pieces_does_not_matter() {
        let text = "h\u{e9}llo w\u{f6}rld, how are you today? ".repeat(20);
        let whole = hashes([text.as_bytes()]);
        assert_eq!(whole.total_blocks(), ids(&text).len() / 4);
        let cut = hashes(text.as_bytes().chunks(3));
        assert_eq!(cut.hashes(), whole.hashes());
    }

    #[test]
    fn long_texts_are_cut_at_the_same_places_whatever_follows() {
        let text = "\u{1f600}ab ".repeat(30_000);
        let whole = hashes([text.as_bytes()]);
        let start = hashes([&text.as_bytes()[..SEGMENT + 10]]);
        let common = start.hashes().len() - 8;
        assert!(common > SEGMENT / 16);
        assert_eq!(start.hashes()[..common], whole.hashes()[..common]);
        assert_eq!(
            hashes(text.as_bytes().chunks(1000)).hashes(),
            whole.hashes()
        );
    }

    #[test]
    fn a_sea_of_blanks_is_no_trouble() {
        let blanks = vec![b' '; 3 * SEGMENT];
        assert!(hashes([&blanks[..]]).total_blocks() > 0);
    }
}
