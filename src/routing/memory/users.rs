//! Tokens that each user had in the last minutes.
//!
//! A user is a hash, its window a few slices of time, and there are at most so many users: whoever was seen longest ago is
//! forgotten first, and with a window of nothing anyway.

use std::collections::BTreeMap;

use foldhash::HashMap;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Parts of a window that age together.
const SLICES: usize = 8;
const MOST: usize = 65_536;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::routing) struct UserId(pub(in crate::routing) u64);

impl UserId {
    pub(super) fn new(name: &str, seed: u64) -> Self {
        Self(xxh3_64_with_seed(name.as_bytes(), seed))
    }
}

#[derive(Debug, Default)]
pub(in crate::routing) struct Users {
    known: HashMap<UserId, User>,
    /// By the number of their last request.
    by_age: BTreeMap<u64, UserId>,
    /// How many users have had so many tokens, as of each one's last request.
    totals: BTreeMap<u64, u32>,
    requests: u64,
}

#[derive(Clone, Debug, Default)]
struct User {
    request: u64,
    seen_ms: u64,
    /// Number of the slice that tokens are added to.
    slice: u64,
    tokens: [u64; SLICES],
}

impl User {
    /// Tokens of the window that ends with this slice.
    fn total(&self, slice: u64) -> u64 {
        let age = slice.saturating_sub(self.slice);
        let first = slice.saturating_sub(SLICES as u64 - 1);
        if age >= SLICES as u64 {
            return 0;
        }
        (first..=self.slice)
            .map(|slice| self.tokens[place(slice)])
            .fold(0, u64::saturating_add)
    }

    fn move_to(&mut self, slice: u64) {
        if slice < self.slice || slice - self.slice >= SLICES as u64 {
            self.tokens = [0; SLICES];
        } else {
            for passed in self.slice + 1..=slice {
                self.tokens[place(passed)] = 0;
            }
        }
        self.slice = slice;
    }
}

fn place(slice: u64) -> usize {
    (slice % SLICES as u64) as usize
}

fn slice_of(now_ms: u64, window_ms: u64) -> u64 {
    now_ms / (window_ms / SLICES as u64).max(1)
}

impl Users {
    pub(in crate::routing) fn tokens(&self, user: UserId, now_ms: u64, window_ms: u64) -> u64 {
        let slice = slice_of(now_ms, window_ms);
        self.known.get(&user).map_or(0, |user| user.total(slice))
    }

    /// Tokens of the lightest and of the heaviest user.
    pub(in crate::routing) fn range(&self) -> Option<(u64, u64)> {
        let (least, _) = self.totals.first_key_value()?;
        let (most, _) = self.totals.last_key_value()?;
        Some((*least, *most))
    }

    pub(in crate::routing) fn add(
        &mut self,
        user: UserId,
        tokens: u64,
        now_ms: u64,
        window_ms: u64,
    ) {
        let mut entry = self.remove(user).unwrap_or_default();
        let slice = slice_of(now_ms, window_ms);
        entry.move_to(slice);
        let sum = &mut entry.tokens[place(slice)];
        *sum = sum.saturating_add(tokens);
        self.requests += 1;
        entry.request = self.requests;
        entry.seen_ms = now_ms;
        self.by_age.insert(entry.request, user);
        *self.totals.entry(entry.total(slice)).or_default() += 1;
        self.known.insert(user, entry);
        self.forget_old(now_ms.saturating_sub(window_ms));
    }

    fn forget_old(&mut self, since_ms: u64) {
        while let Some((_, &oldest)) = self.by_age.first_key_value() {
            let idle = |user: &User| user.seen_ms < since_ms;
            if self.known.len() <= MOST && !self.known.get(&oldest).is_none_or(idle) {
                return;
            }
            if self.remove(oldest).is_none() {
                self.by_age.pop_first();
            }
        }
    }

    fn remove(&mut self, user: UserId) -> Option<User> {
        let entry = self.known.remove(&user)?;
        self.by_age.remove(&entry.request);
        let total = entry.total(entry.slice);
        if let Some(users) = self.totals.get_mut(&total) {
            *users -= 1;
            if *users == 0 {
                self.totals.remove(&total);
            }
        }
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: u64 = 8000;

    #[test]
    fn tokens_count_for_a_window() {
        let mut users = Users::default();
        let (ann, ben) = (UserId(1), UserId(2));
        users.add(ann, 10, 0, WINDOW);
        users.add(ann, 5, 4000, WINDOW);
        users.add(ben, 40, 4000, WINDOW);
        assert_eq!(users.range(), Some((15, 40)));
        let of_ann = |users: &Users, now| users.tokens(ann, now, WINDOW);
        assert_eq!(of_ann(&users, 7999), 15);
        assert_eq!(of_ann(&users, 8000), 5);
        assert_eq!(of_ann(&users, 11_999), 5);
        assert_eq!(of_ann(&users, 12_000), 0);
        assert_eq!(of_ann(&users, u64::MAX), 0);
        users.add(ann, 1, 13_000, WINDOW);
        assert_eq!(users.range(), Some((1, 1)), "ben was not seen for a window");
        assert_eq!(users.tokens(ben, 13_000, WINDOW), 0);
    }

    #[test]
    fn a_clock_or_a_window_that_jumps_does_no_harm() {
        let mut users = Users::default();
        for (now, window) in [
            (9000, 8000),
            (10, 8000),
            (u64::MAX, 8),
            (5, u64::MAX),
            (5, 0),
        ] {
            users.add(UserId(7), u64::MAX, now, window);
            assert_eq!(users.tokens(UserId(7), now, window), u64::MAX);
        }
    }

    #[test]
    fn a_million_users_stay_under_the_cap() {
        let mut users = Users::default();
        for user in 0..1_000_000 {
            users.add(UserId(user), user % 1000, user / 100, 3_600_000);
        }
        assert_eq!(users.known.len(), MOST);
        assert_eq!(users.by_age.len(), MOST);
        assert!(users.totals.len() <= 1000);
        assert_eq!(users.totals.values().sum::<u32>() as usize, MOST);
        assert_eq!(users.tokens(UserId(999_999), 9999, 3_600_000), 999);
    }
}
