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
use tokio::time::Instant;

use super::busy::Busy;
use super::engine_history::History;
use super::engine_stats::{EngineStats, Failures};
use super::health::Health;
use super::models::Asked;
use super::output_rate::OutputRate;
use super::peer::{self, PeerError};
use super::prefill::Prefill;
use super::running_time::RunningTime;
use super::settings::PodSpec;
use crate::routing::{Load, PodDetail, PodSlot, PodView};

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
    weighted_tokens: AtomicU64,
    prefill: Prefill,
    /// Of [`Self::running_time`]'s moments.
    origin: Instant,
    running_time: RunningTime,
    routable: AtomicBool,
    unresolved_told: AtomicBool,
    pub(super) asked: Asked,
    pub(super) metrics_failures: Mutex<Failures>,
    pub(super) health: Mutex<Health>,
    pub(super) stats: ArcSwapOption<EngineStats>,
    pub(super) output_rate: Mutex<OutputRate>,
    pub(super) history: Mutex<History>,
    pub(super) busy: Busy,
    detail: ArcSwap<PodDetail>,
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
            weighted_tokens: AtomicU64::new(0),
            prefill: Prefill::default(),
            origin: Instant::now(),
            running_time: RunningTime::default(),
            routable: AtomicBool::new(true),
            unresolved_told: AtomicBool::new(false),
            asked: Asked::default(),
            metrics_failures: Mutex::default(),
            health: Mutex::default(),
            stats: ArcSwapOption::empty(),
            output_rate: Mutex::default(),
            history: Mutex::default(),
            busy: Busy::default(),
            detail: ArcSwap::default(),
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
        self.renew_detail();
    }

    /// The address in use, once the name is resolved.
    pub fn address_now(&self) -> Option<SocketAddr> {
        match &**self.target.load() {
            Ok(target) => Some(target.address),
            Err(_) => None,
        }
    }

    /// Counts a request as running here until the guard is dropped, and its uncached prompt tokens as waiting until its
    /// answer begins; `None` when `most` are running already. `pick`: the number of the choice, see [`Fleet::next_pick`].
    ///
    /// [`Fleet::next_pick`]: super::Fleet::next_pick
    pub fn admit(
        self: &Arc<Self>,
        pick: u64,
        uncached_tokens: u64,
        most: Option<u32>,
    ) -> Option<InFlight> {
        let most = most.unwrap_or(u32::MAX);
        let before = self
            .in_flight
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |running| {
                (running < most).then_some(running + 1)
            })
            .ok()?;
        let since = Instant::now();
        self.running_time.begin(since - self.origin);
        self.last_pick.store(pick, Ordering::Relaxed);
        if before == 0 {
            self.busy.begin(since);
        }
        // Whatever a client claims, sums of it stay numbers.
        let tokens = uncached_tokens.min(MOST_TOKENS);
        let ahead = self.prefill.begin(tokens);
        Some(InFlight {
            pod: Arc::clone(self),
            since,
            waiting: Some(Waiting { tokens, ahead }),
        })
    }

    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::Acquire)
    }

    /// Tokens of an answer that has ended.
    pub fn add_tokens(&self, prompt: u64, output: u64) {
        self.output_tokens.fetch_add(output, Ordering::Relaxed);
        let weighted = prompt.saturating_mul(2).saturating_add(output);
        self.weighted_tokens.fetch_add(weighted, Ordering::Relaxed);
    }

    pub(super) fn weighted_tokens(&self) -> u64 {
        self.weighted_tokens.load(Ordering::Relaxed)
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

    pub(super) fn view(&self, now: Instant, with_detail: bool) -> PodView {
        PodView {
            slot: self.slot,
            load: self.load_at(now),
            detail: with_detail.then(|| self.detail.load_full()),
        }
    }

    /// Called when its address or what is known of its engine has changed.
    pub(super) fn renew_detail(&self) {
        let stats = self.stats.load();
        let stats = stats.as_deref();
        let recent = stats.map(|stats| stats.recent).unwrap_or_default();
        self.detail.store(Arc::new(PodDetail {
            address: self.address(),
            cpu_cache_usage: stats.and_then(|stats| stats.cpu_cache_usage),
            utilization: stats.and_then(|stats| stats.utilization),
            busy: stats.and_then(|stats| stats.busy),
            queue_seconds: recent.queue_seconds,
            prefill_seconds_per_token: recent.prefill_seconds_per_token,
            decode_seconds_per_token: recent.decode_seconds_per_token,
            output_tokens: recent.output_tokens,
            weighted_token_rate: recent.weighted_token_rate,
        }));
    }

    pub fn load(&self) -> Load {
        self.load_at(Instant::now())
    }

    fn load_at(&self, now: Instant) -> Load {
        let stats = self.stats.load();
        Load {
            in_flight: self.in_flight(),
            running_seconds: self.running_time.seconds(now - self.origin),
            prefilling: self.prefill.requests(),
            pending_prefill: self.prefill.tokens(),
            prefill_rate: self.prefill.rate(),
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
    since: Instant,
    /// Until the answer begins.
    waiting: Option<Waiting>,
}

struct Waiting {
    tokens: u64,
    /// Tokens that waited before.
    ahead: u64,
}

/// Of one request; no prompt is longer.
const MOST_TOKENS: u64 = 1 << 32;

impl InFlight {
    /// The first byte of the answer has come. `streamed`: as soon as there was one, not when all of it was there.
    pub fn answer_began(&mut self, streamed: bool) {
        let Some(Waiting { tokens, ahead }) = self.waiting.take() else {
            return;
        };
        self.pod.prefill.end(tokens);
        if streamed {
            let took = self.since.elapsed();
            self.pod.prefill.learn(tokens.saturating_add(ahead), took);
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.answer_began(false);
        self.pod.running_time.end(self.since - self.pod.origin);
        if self.pod.in_flight.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.pod.busy.end(Instant::now());
        }
    }
}
