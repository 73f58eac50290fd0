//! Handles by name, and counters by label value, both resolved once.
//!
//! Readers never wait for writers. A handle is made at its first use.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use prometheus::IntCounter;

type ByName<T> = HashMap<Box<str>, Arc<T>, foldhash::fast::RandomState>;

/// One handle a name.
pub(super) struct Handles<T> {
    current: ArcSwap<ByName<T>>,
    writing: Mutex<()>,
}

impl<T> Handles<T> {
    pub(super) fn new() -> Self {
        Self {
            current: ArcSwap::default(),
            writing: Mutex::new(()),
        }
    }

    /// `None`: the name is new and there are `limit` names already.
    pub(super) fn get(&self, name: &str, limit: usize, make: impl FnOnce() -> T) -> Option<Arc<T>> {
        if let Some(handle) = self.current.load().get(name) {
            return Some(Arc::clone(handle));
        }
        let _writing = self.writing.lock();
        let current = self.current.load();
        if let Some(handle) = current.get(name) {
            return Some(Arc::clone(handle));
        }
        if current.len() >= limit {
            return None;
        }
        let handle = Arc::new(make());
        let mut next = ByName::clone(&current);
        next.insert(name.into(), Arc::clone(&handle));
        self.current.store(Arc::new(next));
        Some(handle)
    }

    pub(super) fn retain(&self, keep: impl Fn(&str) -> bool, removed: impl Fn(&str, &T)) {
        let _writing = self.writing.lock();
        let current = self.current.load();
        if current.keys().all(|name| keep(name)) {
            return;
        }
        let mut next = ByName::default();
        for (name, handle) in current.iter() {
            if keep(name) {
                next.insert(name.clone(), Arc::clone(handle));
            } else {
                removed(name, handle);
            }
        }
        self.current.store(Arc::new(next));
    }
}

/// The counters of a family whose other labels are fixed, by the value of what is left. The first
/// `N` values are found by comparing; a family has few.
pub(super) struct ByValue<K, const N: usize> {
    cells: [OnceLock<(K, IntCounter)>; N],
}

impl<K: Copy + PartialEq, const N: usize> ByValue<K, N> {
    pub(super) fn new() -> Self {
        Self {
            cells: [const { OnceLock::new() }; N],
        }
    }

    pub(super) fn inc(&self, value: K, resolve: impl Fn(K) -> IntCounter) {
        for cell in &self.cells {
            let (known, counter) = cell.get_or_init(|| (value, resolve(value)));
            if *known == value {
                counter.inc();
                return;
            }
        }
        resolve(value).inc();
    }

    pub(super) fn values(&self) -> impl Iterator<Item = K> + '_ {
        self.cells
            .iter()
            .filter_map(|cell| cell.get().map(|(value, _)| *value))
    }
}

impl<K: Copy + PartialEq, const N: usize> Default for ByValue<K, N> {
    fn default() -> Self {
        Self::new()
    }
}
