//! Hit rate on a public trace against an exact least-recently-refreshed index of the same size.

use std::collections::{BTreeMap, HashMap};
use std::io::Read;

use super::*;

/// One request's blocks, chained so that equal ids after different prefixes differ.
fn requests() -> Vec<(u64, Vec<BlockHash>)> {
    let packed = include_bytes!("../../../../tests/data/mooncake-conversation.jsonl.gz");
    let mut text = String::new();
    flate2::read::GzDecoder::new(&packed[..])
        .read_to_string(&mut text)
        .unwrap();
    let request = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let mut parent = 0;
        let ids = line["hash_ids"].as_array().unwrap().iter().map(|id| {
            let id = id.as_u64().unwrap().to_le_bytes();
            parent = xxhash_rust::xxh3::xxh3_64_with_seed(&id, parent);
            BlockHash(parent)
        });
        (line["timestamp"].as_u64().unwrap(), ids.collect())
    };
    text.lines().map(request).collect()
}

/// Refreshes whole prompts, deepest block first, and drops what is oldest.
#[derive(Default)]
struct Exact {
    tick: u64,
    by_age: BTreeMap<u64, BlockHash>,
    ages: HashMap<BlockHash, u64>,
}

impl Exact {
    fn depth(&self, blocks: &[BlockHash]) -> usize {
        blocks
            .iter()
            .take_while(|block| self.ages.contains_key(block))
            .count()
    }

    fn record(&mut self, blocks: &[BlockHash], max: usize) {
        for block in blocks.iter().rev() {
            self.tick += 1;
            if let Some(age) = self.ages.insert(*block, self.tick) {
                self.by_age.remove(&age);
            }
            self.by_age.insert(self.tick, *block);
        }
        while self.by_age.len() > max {
            if let Some((_, block)) = self.by_age.pop_first() {
                self.ages.remove(&block);
            }
        }
    }
}

#[test]
fn hit_rate_on_the_trace_is_that_of_an_exact_index() {
    let requests = requests();
    let total: usize = requests.iter().map(|(_, blocks)| blocks.len()).sum();
    assert_eq!((requests.len(), total), (12_031, 288_500));
    for (max, at_least) in [(2000, 0.05), (20_000, 0.2), (100_000, 0.3)] {
        let index = PrefixIndex::new(max, HOUR, 1);
        let mut exact = Exact::default();
        let (mut hits, mut exact_hits) = (0, 0);
        for (now, blocks) in &requests {
            hits += depths(&index, blocks, *now, &[0])[0] as usize;
            exact_hits += exact.depth(blocks);
            index.record(PodSlot(0), blocks, *now);
            exact.record(blocks, max);
        }
        let (rate, exact_rate) = (hits as f64 / total as f64, exact_hits as f64 / total as f64);
        println!("{max}: {rate} {exact_rate}");
        assert!(index.evictions() > 0);
        assert!(rate > at_least, "{max}: {rate}");
        assert!(
            (rate - exact_rate).abs() <= 0.01 * exact_rate,
            "{max}: {rate}, {exact_rate}"
        );
    }
}
