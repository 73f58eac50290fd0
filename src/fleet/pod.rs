//! One pod: its identity, its counters, and what was last learned of it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption, Guard};
use http::HeaderValue;
use parking_lot::Mutex;
use pingora_core::upstreams::peer::HttpPeer;
use pingora_http::header_value_from_slice;

use super::engine_stats::{EngineStats, Failures};
use super::health::Health;
use super::models::Asked;
use super::output_rate::OutputRate;
use super::peer::{self, PeerError};
use super::settings::PodSpec;
use crate::routing::{Load, PodSlot, PodView};

pub struct Pod {
    slot: PodSlot,
    name: String,
    host_header: String,
    header_values: HeaderValues,
    spec: ArcSwap<PodSpec>,
    /// Connection data by resolved address; the error says why there is none.
    target: ArcSwap<Result<Target, PeerError>>,
    /// As the pod itself last told; `None` until it has.
    told_models: ArcSwapOption<Vec<String>>,
    in_flight: AtomicU32,
    last_pick: AtomicU64,
    output_tokens: AtomicU64,
    routable: AtomicBool,
    unresolved_told: AtomicBool,
    pub(super) asked: Asked,
    pub(super) metrics_failures: Mutex<Failures>,
    pub(super) health: Mutex<Health>,
    pub(super) stats: ArcSwapOption<EngineStats>,
    pub(super) output_rate: Mutex<OutputRate>,
}

struct Target {
    address: SocketAddr,
    shown: HeaderValue,
    peer: Box<HttpPeer>,
}

/// What does not change of a pod, ready to stand in a header.
struct HeaderValues {
    name: HeaderValue,
    host: HeaderValue,
}

impl Pod {
    pub(super) fn new(slot: PodSlot, spec: PodSpec, connect_timeout: Option<Duration>) -> Self {
        let pod = Self {
            slot,
            name: spec.name.clone(),
            header_values: HeaderValues {
                name: header_value_from_slice(spec.name.as_bytes()),
                host: header_value_from_slice(spec.url.host_header().as_bytes()),
            },
            host_header: spec.url.host_header(),
            spec: ArcSwap::from_pointee(spec),
            target: ArcSwap::from_pointee(Err(PeerError::Unresolved)),
            told_models: ArcSwapOption::empty(),
            in_flight: AtomicU32::new(0),
            last_pick: AtomicU64::new(0),
            output_tokens: AtomicU64::new(0),
            routable: AtomicBool::new(true),
            unresolved_told: AtomicBool::new(false),
            asked: Asked::default(),
            metrics_failures: Mutex::default(),
            health: Mutex::default(),
            stats: ArcSwapOption::empty(),
            output_rate: Mutex::default(),
        };
        if let Some(address) = pod.spec().url.literal_address() {
            pod.resolved(address, connect_timeout);
        }
        pod
    }

    /// Takes what a reload may change without the pod becoming another one.
    pub(super) fn update(&self, spec: PodSpec, connect_timeout: Option<Duration>) {
        self.spec.store(Arc::new(spec));
        let address = match &**self.target.load() {
            Ok(target) => target.address,
            Err(_) => return,
        };
        self.resolved(address, connect_timeout);
    }

    /// The pod's name leads to `address`.
    pub(super) fn resolved(&self, address: SocketAddr, connect_timeout: Option<Duration>) {
        let spec = self.spec();
        let target = peer::build(&spec.url, address, connect_timeout).map(|peer| Target {
            address,
            shown: header_value_from_slice(address.to_string().as_bytes()),
            peer,
        });
        if let Err(error) = &target {
            log::error!("pod {}: {error}", self.name);
        }
        self.target.store(Arc::new(target));
    }

    pub(super) fn address_now(&self) -> Option<SocketAddr> {
        match &**self.target.load() {
            Ok(target) => Some(target.address),
            Err(_) => None,
        }
    }

    /// Counts a request as running here until the guard is dropped. `pick`: the number of the choice, see [`Fleet::next_pick`].
    ///
    /// [`Fleet::next_pick`]: super::Fleet::next_pick
    pub fn admit(self: &Arc<Self>, pick: u64) -> InFlight {
        self.last_pick.store(pick, Ordering::Relaxed);
        self.in_flight.fetch_add(1, Ordering::AcqRel);
        InFlight {
            pod: Arc::clone(self),
        }
    }

    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::Acquire)
    }

    /// Output tokens of an answer that has ended.
    pub fn add_output_tokens(&self, tokens: u64) {
        self.output_tokens.fetch_add(tokens, Ordering::Relaxed);
    }

    pub(super) fn output_tokens(&self) -> u64 {
        self.output_tokens.load(Ordering::Relaxed)
    }

    /// What Pingora needs to connect; cheap, made when the address was resolved.
    pub fn peer(&self) -> Result<Box<HttpPeer>, PeerError> {
        match &**self.target.load() {
            Ok(target) => Ok(target.peer.clone()),
            Err(error) => Err(error.clone()),
        }
    }

    pub fn slot(&self) -> PodSlot {
        self.slot
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The address in use, `IP:PORT`; the configured host while it is not resolved.
    pub fn address(&self) -> String {
        match &**self.target.load() {
            Ok(target) => target.address.to_string(),
            Err(_) => self.host_header.clone(),
        }
    }

    /// [`Self::address`] for a header.
    pub fn address_value(&self) -> HeaderValue {
        match &**self.target.load() {
            Ok(target) => target.shown.clone(),
            Err(_) => self.host_value(),
        }
    }

    pub fn name_value(&self) -> HeaderValue {
        self.header_values.name.clone()
    }

    pub fn host_value(&self) -> HeaderValue {
        self.header_values.host.clone()
    }

    pub fn host_header(&self) -> &str {
        &self.host_header
    }

    pub fn spec(&self) -> Guard<Arc<PodSpec>> {
        self.spec.load()
    }

    /// The models it serves: as configured, else as it told.
    pub fn models(&self) -> Vec<String> {
        match &self.spec().models {
            Some(models) => models.clone(),
            None => self
                .told_models
                .load()
                .as_deref()
                .cloned()
                .unwrap_or_default(),
        }
    }

    /// `true` when that is news.
    pub(super) fn told_models(&self, models: Vec<String>) -> bool {
        let news = self.told_models.load().as_deref() != Some(&models);
        self.told_models.store(Some(Arc::new(models)));
        news
    }

    /// Whether it can be given requests at all: checks have not taken it out, and there is an address.
    pub fn is_well(&self) -> bool {
        self.routable.load(Ordering::Acquire) && self.target.load().is_ok()
    }

    /// `true` the first time: that the name leads nowhere is told once.
    pub(super) fn unresolved_told(&self) -> bool {
        !self.unresolved_told.swap(true, Ordering::Relaxed)
    }

    pub(super) fn set_well(&self, well: bool) {
        self.routable.store(well, Ordering::Release);
    }

    pub(super) fn view(&self) -> PodView {
        PodView {
            slot: self.slot,
            load: self.load(),
        }
    }

    pub fn load(&self) -> Load {
        let stats = self.stats.load();
        Load {
            in_flight: self.in_flight(),
            last_pick: self.last_pick.load(Ordering::Relaxed),
            queued: stats.as_ref().and_then(|stats| stats.waiting),
            kv_usage: stats.as_ref().and_then(|stats| stats.kv_usage),
            output_rate: stats.as_ref().and_then(|stats| stats.output_rate),
        }
    }
}

/// Holds a request's place in the pod's count.
#[must_use = "dropping the guard takes the request off the count"]
pub struct InFlight {
    pod: Arc<Pod>,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.pod.in_flight.fetch_sub(1, Ordering::AcqRel);
    }
}
