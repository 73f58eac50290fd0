//! What strategies remember from one request to the next.
//!
//! Shared by all plans of a process and kept over reloads. Written only when a request is sent, and bounded: of what is
//! full the oldest goes.

mod histogram;
mod users;

use parking_lot::Mutex;

pub(super) use self::histogram::{Entry, Histogram, Sent};
pub(super) use self::users::{UserId, Users};

use super::pod::PodSlot;

#[derive(Debug)]
pub struct Memory {
    pub(super) histogram: Mutex<Histogram>,
    pub(super) users: Mutex<Users>,
    seed: u64,
}

impl Memory {
    /// `seed`: users cannot be made to look like one another by who does not know it.
    pub(super) fn new(seed: u64) -> Self {
        Self {
            histogram: Mutex::default(),
            users: Mutex::default(),
            seed,
        }
    }

    pub(super) fn user_id(&self, name: &str) -> UserId {
        UserId::new(name, self.seed)
    }

    /// The pod's slot is to be given to another.
    pub(super) fn forget(&self, slot: PodSlot) {
        self.histogram.lock().forget(slot);
    }
}
