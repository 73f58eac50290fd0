//! Who the pods are, whether they are well, and how busy they are.
//!
//! The fleet publishes one immutable [`Snapshot`]; a request takes it once and sees one view of the world. Snapshots
//! share their [`Pod`]s, whose counters are atomics, so a count survives every change of the fleet. All changes go
//! through [`Fleet`], which rebuilds the snapshot under one lock; readers never wait for it.
//!
//! A pod that was removed keeps its slot until its last request has ended and the prefix index has forgotten it
//! ([`Fleet::reap`]), so that a newcomer never inherits what another pod had cached. The same address coming back is a newcomer.

mod busy;
pub(crate) mod client;
mod connector;
mod engine_history;
pub mod engine_stats;
pub mod health;
mod models;
pub mod output_rate;
mod peer;
mod pod;
pub mod prefill;
pub mod resolve;
mod rounds;
pub mod running_time;
mod selector;
pub mod settings;
mod snapshot;
mod view;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;

pub(crate) use connector::Handle as ConnectionHandle;
pub use connector::{EngineConnector, IdleConnections};
pub use peer::PeerError;
pub use pod::{InFlight, Pod};
pub use selector::{Selector, SelectorError};
pub use snapshot::{ModelPods, Snapshot, Wanted};

use crate::config::Config;
use crate::routing::PodSlot;
use settings::{HealthSettings, PodSpec};

pub struct Fleet {
    current: ArcSwap<Snapshot>,
    settings: ArcSwap<Settings>,
    roster: Mutex<Roster>,
    picks: AtomicU64,
    idle: Arc<IdleConnections>,
}

/// Idle connections to engines that the gateway keeps.
const IDLE_CONNECTIONS: usize = 1 << 16;

/// What the fleet needs of the configuration beside the pods.
#[derive(Clone, Debug)]
pub struct Settings {
    pub health: HealthSettings,
    pub connect_timeout: Option<Duration>,
    pub metrics_poll: Duration,
    /// Sent to the engines as Bearer with every question of ours.
    pub engine_key: Option<String>,
    /// Model names that the configuration knows, with their aliases.
    pub aliases: Vec<(String, Vec<String>)>,
}

#[derive(Default)]
struct Roster {
    pods: Vec<Arc<Pod>>,
    /// Removed pods whose slot is not free yet.
    retiring: Vec<Arc<Pod>>,
    free: BTreeSet<PodSlot>,
    slots: u16,
    /// Names that were served once: a request for one of them is not for an unknown model.
    seen_models: BTreeSet<String>,
}

impl Settings {
    pub fn of(config: &Config) -> Self {
        let aliases = config.models.iter();
        Self {
            health: config.health.clone(),
            connect_timeout: config.timeouts.connect,
            metrics_poll: config.metrics_poll,
            engine_key: config.auth.engine_key.clone(),
            aliases: aliases
                .map(|(name, model)| (name.clone(), model.aliases.clone()))
                .collect(),
        }
    }
}

impl Fleet {
    pub fn new(config: &Config) -> Self {
        let fleet = Self {
            current: ArcSwap::default(),
            settings: ArcSwap::from_pointee(Settings::of(config)),
            roster: Mutex::default(),
            picks: AtomicU64::new(0),
            idle: Arc::new(IdleConnections::new(IDLE_CONNECTIONS)),
        };
        fleet.apply(config);
        fleet
    }

    /// The view that a request goes by.
    pub fn snapshot(&self) -> Guard<Arc<Snapshot>> {
        self.current.load()
    }

    /// For the connector, which takes them from there.
    pub fn idle_connections(&self) -> &Arc<IdleConnections> {
        &self.idle
    }

    /// Numbers the choices of pods, from 1.
    pub fn next_pick(&self) -> u64 {
        self.picks.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub fn settings(&self) -> Guard<Arc<Settings>> {
        self.settings.load()
    }

    /// Makes the fleet what the configuration says. Pods that stay keep their counters and what is known of them;
    /// requests on pods that go run to their end.
    pub fn apply(&self, config: &Config) {
        self.settings.store(Arc::new(Settings::of(config)));
        let mut roster = self.roster.lock();
        roster.replace(&config.pods, config.timeouts.connect);
        self.publish(&mut roster);
    }

    /// Gives free the slots of removed pods without requests. `forget` must make the prefix index forget a slot.
    pub fn reap(&self, forget: impl Fn(PodSlot)) {
        let mut roster = self.roster.lock();
        let (idle, busy) = std::mem::take(&mut roster.retiring)
            .into_iter()
            .partition(|pod: &Arc<Pod>| pod.in_flight() == 0);
        roster.retiring = busy;
        for pod in idle {
            forget(pod.slot());
            roster.free.insert(pod.slot());
        }
    }

    /// Called after a pod's health or models have changed.
    pub(crate) fn refresh(&self) {
        self.publish(&mut self.roster.lock());
    }

    fn publish(&self, roster: &mut Roster) {
        let settings = self.settings.load();
        let snapshot = Snapshot::new(&roster.pods, &settings, &mut roster.seen_models);
        self.current.store(Arc::new(snapshot));
    }
}

impl Roster {
    fn replace(&mut self, specs: &[PodSpec], connect_timeout: Option<Duration>) {
        let old = std::mem::take(&mut self.pods);
        let (mut kept, mut pods) = (vec![false; old.len()], Vec::with_capacity(specs.len()));
        for spec in specs {
            let same = old
                .iter()
                .position(|pod| pod.name() == spec.name && pod.spec().url == spec.url);
            match same {
                Some(at) => {
                    kept[at] = true;
                    old[at].update(spec.clone(), connect_timeout);
                    pods.push(Arc::clone(&old[at]));
                }
                None => {
                    log::info!(
                        "pod {} added at {}:{}",
                        spec.name,
                        spec.url.host,
                        spec.url.port
                    );
                    pods.push(Arc::new(Pod::new(
                        self.take_slot(),
                        spec.clone(),
                        connect_timeout,
                    )));
                }
            }
        }
        for (pod, _) in old.into_iter().zip(kept).filter(|(_, kept)| !kept) {
            log::info!(
                "pod {} removed; {} requests run to their end there",
                pod.name(),
                pod.in_flight()
            );
            self.retiring.push(pod);
        }
        self.pods = pods;
    }

    fn take_slot(&mut self) -> PodSlot {
        self.free.pop_first().unwrap_or_else(|| {
            let slot = PodSlot(self.slots);
            self.slots = self.slots.saturating_add(1);
            slot
        })
    }
}
