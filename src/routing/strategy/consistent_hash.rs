//! `consistent-hash`: the same key meets the same pod, with bounded loads.
//!
//! The key is the request's session key, else its user, else the beginning of its prompt. Keys fall to pods by rendezvous
//! hashing, so that pods that come and go move only the keys they must; a pod that has more than 1.25 times its share of
//! the running requests passes them on to the key's next pod, always the same. Without a key: the fewest requests.
//!
//! For caches of any kind behind the pods, and where several gateways must agree without talking; on prompts they do so only
//! with one `hash_seed`. Not in the reference.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::*;

pub(super) const DEFINITION: Definition = Definition {
    name: "consistent-hash",
    kind: Kind::Scorer,
    blending: Blending::Pin,
    needs_prefix: true,
    needs_detail: true,
    build: |settings, _| {
        let block_size = settings.prefix_cache.block_size.max(1);
        Box::new(ConsistentHash {
            blocks: BEGINNING.div_ceil(block_size),
        })
    },
};

/// Bytes of a prompt that are its key: short, so that the turns of a conversation have the same.
const BEGINNING: usize = 128;
const BOUND: f64 = 1.25;

struct ConsistentHash {
    /// Blocks of a prompt that are its key.
    blocks: usize,
}

impl ConsistentHash {
    fn key(&self, request: &Request<'_>) -> Option<u64> {
        let text = request.session.key.or(request.user);
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            return Some(xxh3_64_with_seed(text.as_bytes(), 0));
        }
        let hashes = request.blocks.hashes();
        let last = hashes.len().min(self.blocks).checked_sub(1)?;
        Some(hashes[last].0)
    }

    fn pod_of(&self, request: &Request<'_>, rows: &[Candidate]) -> Option<usize> {
        let key = self.key(request)?;
        let running = |row: &Candidate| f64::from(row.load.in_flight);
        let all: f64 = rows.iter().map(running).sum();
        let limit = (BOUND * (all + 1.0) / rows.len() as f64).ceil();
        let open = rows
            .iter()
            .enumerate()
            .filter(|(_, row)| running(row) < limit);
        let weighed = open.map(|(at, row)| (weight(key, row), std::cmp::Reverse(at)));
        weighed.max().map(|(_, std::cmp::Reverse(at))| at)
    }
}

impl Strategy for ConsistentHash {
    fn polarity(&self) -> Polarity {
        Polarity::Most
    }

    fn score(&self, request: &Request<'_>, candidates: Candidates<'_>, scores: &mut [f64]) {
        scores.fill(0.0);
        if let Some(row) = self.pod_of(request, candidates.rows()) {
            scores[row] = 1.0;
        }
    }

    fn pick(
        &self,
        request: &Request<'_>,
        candidates: Candidates<'_>,
        _: &mut Vec<f64>,
        rng: &mut Rng,
    ) -> Pick {
        match self.pod_of(request, candidates.rows()) {
            Some(row) => Pick::new(row, Reason::Session),
            None => fewest_requests(candidates, rng),
        }
    }
}

fn weight(key: u64, row: &Candidate) -> u64 {
    match row.detail.as_deref() {
        Some(detail) => xxh3_64_with_seed(detail.address.as_bytes(), key),
        None => xxh3_64_with_seed(&row.slot.0.to_le_bytes(), key),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use crate::routing::block::{BlockHash, PrefixBlocks};

    fn pod_of(key: &str, rows: &[Candidate]) -> usize {
        let request = Request {
            user: Some(key),
            ..Request::default()
        };
        let found = alone_for("consistent-hash", &request, rows);
        assert_eq!(found.len(), 1, "{key}");
        found[0]
    }

    #[test]
    fn a_pod_that_goes_takes_only_its_own_keys_along() {
        let (five, four) = (addressed(5), addressed(4));
        let mut counts = [0; 5];
        for key in 0..1000 {
            let key = key.to_string();
            let before = pod_of(&key, &five);
            counts[before] += 1;
            if before != 4 {
                assert_eq!(pod_of(&key, &four), before);
            }
        }
        assert!(
            counts.iter().all(|count| (150..250).contains(count)),
            "{counts:?}"
        );
    }

    #[test]
    fn a_pod_with_more_than_its_share_passes_keys_on() {
        let mut table = addressed(4);
        let first = pod_of("key", &table);
        table[first].load.in_flight = 1;
        let second = pod_of("key", &table);
        assert_ne!(
            second, first,
            "one of one request is more than a quarter and a bit"
        );
        table.iter_mut().for_each(|row| row.load.in_flight = 8);
        table[first].load.in_flight = 10;
        assert_eq!(
            pod_of("key", &table),
            first,
            "10 are less than 1.25 * 35 / 4, rounded up"
        );
        table[first].load.in_flight = 12;
        assert_eq!(pod_of("key", &table), second);
    }

    #[test]
    fn the_beginning_of_a_prompt_is_a_key() {
        let table = addressed(8);
        let of = |hashes: &[u64]| {
            let hashes: Vec<_> = hashes.iter().copied().map(BlockHash).collect();
            let blocks = PrefixBlocks::from(hashes);
            let request = Request {
                blocks: &blocks,
                ..Request::default()
            };
            alone_for("consistent-hash", &request, &table)
        };
        assert_eq!(of(&[5]), of(&[5, 6, 7]));
        assert_eq!(of(&[]).len(), 8);
    }
}
