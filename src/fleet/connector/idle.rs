//! Connections to engines that wait for their next request.
//!
//! Pingora's pool starts a task for each connection that is put back, to see it close. Here a connection is looked at when
//! it is taken, and once in a while ([`IdleConnections::sweep`]).

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use foldhash::fast::RandomState;
use futures::FutureExt;
use parking_lot::Mutex;
use pingora_core::protocols::Stream;
use pingora_core::protocols::raw_connect::ProxyDigest;
use pingora_http::ResponseHeader;
use tokio::io::AsyncReadExt;

use super::Handle;
use super::held_head::HeldHead;

/// A connection without a request.
pub(super) struct Idle {
    pub(super) stream: Stream,
    /// Empty, for its memory.
    pub(super) head: HeldHead,
    pub(super) handle: Handle,
    pub(super) digest: Arc<ProxyDigest>,
    /// When it is to be closed.
    pub(super) until: Instant,
}

impl Idle {
    /// A connection that has served no request yet.
    pub(super) fn new(stream: Stream) -> Self {
        // The digest is of an HTTP proxy on the way; of its answer there is none here.
        let (response, ()) = http::Response::new(()).into_parts();
        let response = Box::new(ResponseHeader::from(response));
        let handle = Handle::default();
        let digest = Arc::new(ProxyDigest::new(response, Some(Box::new(handle.clone()))));
        Self {
            stream,
            head: HeldHead::default(),
            handle,
            digest,
            until: Instant::now(),
        }
    }

    /// An engine says nothing unasked: whatever can be read, even the end, makes a connection useless.
    fn is_usable(&mut self, now: Instant) -> bool {
        // Not subject to the budget of the task that asks, which can hide what there is to read.
        let mut byte = [0];
        let read = tokio::task::unconstrained(self.stream.read(&mut byte));
        now < self.until && read.now_or_never().is_none()
    }
}

const SHARDS: usize = 16;

type Shard = Mutex<HashMap<SocketAddr, Vec<Idle>, RandomState>>;

/// The idle connections to all engines, those of one address in the order they came.
pub struct IdleConnections {
    shards: [Shard; SHARDS],
    hasher: RandomState,
    count: AtomicUsize,
    most: usize,
}

impl IdleConnections {
    /// Keeps `most` connections; they are few per engine.
    pub fn new(most: usize) -> Self {
        let hasher = RandomState::default();
        Self {
            shards: std::array::from_fn(|_| Mutex::new(HashMap::with_hasher(hasher.clone()))),
            hasher,
            count: AtomicUsize::new(0),
            most,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    fn shard(&self, address: &SocketAddr) -> &Shard {
        let hash = self.hasher.hash_one(address);
        // The map goes by the low bits.
        &self.shards[(hash >> 60) as usize % SHARDS]
    }

    /// Whether there is room for one more.
    pub(super) fn has_room(&self) -> bool {
        self.len() < self.most
    }

    pub(super) fn put(&self, address: SocketAddr, idle: Idle) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.shard(&address)
            .lock()
            .entry(address)
            .or_default()
            .push(idle);
    }

    /// The connection that was used last, so that those which are not needed grow old.
    pub(super) fn take(&self, address: &SocketAddr) -> Option<Idle> {
        loop {
            let mut idle = self.shard(address).lock().get_mut(address)?.pop()?;
            self.count.fetch_sub(1, Ordering::Relaxed);
            if idle.is_usable(Instant::now()) {
                return Some(idle);
            }
        }
    }

    /// Closes what is too old or was closed by the engine; to be called every second or so.
    pub fn sweep(&self, now: Instant) {
        for shard in &self.shards {
            let mut closed = Vec::new();
            let mut shard = shard.lock();
            shard.retain(|_, kept| {
                closed.extend(kept.extract_if(.., |idle| !idle.is_usable(now)));
                !kept.is_empty()
            });
            drop(shard);
            self.count.fetch_sub(closed.len(), Ordering::Relaxed);
        }
    }
}
