//! How many requests were open at regular moments, told afterwards: only an answer says which pod it came from.

use std::time::Duration;

#[derive(Default)]
pub(crate) struct Load {
    /// By how much the number of open requests differs from that of the moment before.
    changes: Vec<i64>,
}

/// Time between two moments.
pub(crate) const TICK: Duration = Duration::from_millis(100);

impl Load {
    /// A request that was open from then to then.
    pub(super) fn add(&mut self, from: Duration, to: Duration) {
        // It counts at the moments after its begin, up to its end.
        self.change(tick(from), 1);
        self.change(tick(to), -1);
    }

    fn change(&mut self, tick: usize, by: i64) {
        if self.changes.len() <= tick {
            self.changes.resize(tick + 1, 0);
        }
        self.changes[tick] += by;
    }

    /// Open requests at each moment.
    pub(crate) fn open(&self) -> Vec<u64> {
        let mut open = 0;
        let each = self.changes.iter().map(|change| {
            open += change;
            // Never below nothing: every end has its begin.
            u64::try_from(open).unwrap_or(0)
        });
        each.collect()
    }
}

/// The first moment at or after a time.
fn tick(at: Duration) -> usize {
    at.as_micros().div_ceil(TICK.as_micros()) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_counts_at_the_moments_at_which_it_was_open() {
        let mut load = Load::default();
        let ms = Duration::from_millis;
        load.add(ms(50), ms(250));
        load.add(ms(100), ms(220));
        // Between two moments: nobody looks.
        load.add(ms(110), ms(190));
        assert_eq!(load.open(), [0, 2, 2, 0]);
    }
}
