//! Load on one balancer: closed loop for what it can do, open loop at a fixed rate for how long it takes.
//!
//! A thread a connection, blocking: with as few connections as here that costs less than a reactor does.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use hdrhistogram::Histogram;

use super::prompt::{Prompts, Shape};
use super::wire::Connection;

/// What is sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) connections: usize,
    pub(super) shape: Shape,
    /// Requests a second of all connections together; `None`: each sends when it has its answer.
    pub(super) rate: Option<f64>,
    pub(super) warm_up: Duration,
    pub(super) measured: Duration,
}

/// What came of it in the measured time.
pub(super) struct Seen {
    pub(super) requests: u64,
    pub(super) events: u64,
    pub(super) elapsed: Duration,
    /// Microseconds to the whole answer, or to the first event of a stream.
    pub(super) latency: Histogram<u64>,
}

#[derive(Default)]
struct Shared {
    measuring: AtomicBool,
    stop: AtomicBool,
    requests: AtomicU64,
    events: AtomicU64,
}

/// Runs the load; `mark` is called when the measured time begins and when it ends.
pub(super) fn run(address: SocketAddr, load: &Load, mut mark: impl FnMut()) -> Result<Seen> {
    let shared = Shared::default();
    let start = Instant::now();
    thread::scope(|scope| {
        let mut workers = Vec::with_capacity(load.connections);
        for worker in 0..load.connections {
            let shared = &shared;
            // Failure must end the measurement at once, not after its time.
            workers.push(scope.spawn(move || work(address, load, worker, start, shared)));
        }
        let broken = || workers.iter().any(thread::ScopedJoinHandle::is_finished);
        pass(load.warm_up, broken);
        shared.measuring.store(true, Ordering::Relaxed);
        mark();
        let begun = Instant::now();
        let before = shared.counts();
        pass(load.measured, broken);
        let after = shared.counts();
        let elapsed = begun.elapsed();
        mark();
        shared.stop.store(true, Ordering::Relaxed);
        let mut latency = histogram()?;
        for worker in workers {
            let own = worker
                .join()
                .map_err(|_| anyhow!("a thread of the load failed"))??;
            latency.add(own)?;
        }
        Ok(Seen {
            requests: after.0 - before.0,
            events: after.1 - before.1,
            elapsed,
            latency,
        })
    })
}

/// Lets time pass, in steps, so that a load that broke down is not measured to its end.
fn pass(time: Duration, broken: impl Fn() -> bool) {
    let end = Instant::now() + time;
    while Instant::now() < end && !broken() {
        thread::sleep(Duration::from_millis(50).min(end.saturating_duration_since(Instant::now())));
    }
}

fn histogram() -> Result<Histogram<u64>> {
    Ok(Histogram::new_with_bounds(1, 60_000_000, 3)?)
}

impl Shared {
    fn counts(&self) -> (u64, u64) {
        (
            self.requests.load(Ordering::Relaxed),
            self.events.load(Ordering::Relaxed),
        )
    }
}

fn work(
    address: SocketAddr,
    load: &Load,
    worker: usize,
    start: Instant,
    shared: &Shared,
) -> Result<Histogram<u64>> {
    let mut prompts = Prompts::new(load.shape, worker);
    let mut connection = Connection::open(address)?;
    let mut latency = histogram()?;
    let gap = load.rate.map(|rate| load.connections as f64 / rate);
    let phase = worker as f64 / load.connections as f64;
    for turn in 0u32.. {
        if shared.stop.load(Ordering::Relaxed) {
            break;
        }
        let request = prompts.next();
        // In an open loop the clock of a request starts when it was due: one that had to wait for the one before it has
        // waited. A thread that the system wakes late is no fault of the balancer.
        let mut sent = Instant::now();
        if let Some(gap) = gap {
            let due = start + Duration::from_secs_f64((f64::from(turn) + phase) * gap);
            if due > sent {
                thread::sleep(due - sent);
                sent = Instant::now();
            } else {
                sent = due;
            }
        } else if turn == 0 {
            // Streams that all begin at the same moment would send their events, and end, in one burst.
            thread::sleep(load.shape.stream_time().mul_f64(phase));
        }
        let mut first = None;
        connection.exchange(request, load.shape.events(), |events| {
            first.get_or_insert_with(|| sent.elapsed());
            shared.events.fetch_add(events, Ordering::Relaxed);
        })?;
        shared.requests.fetch_add(1, Ordering::Relaxed);
        if shared.measuring.load(Ordering::Relaxed)
            && let Some(first) = first
        {
            latency.record(u64::try_from(first.as_micros())?.max(1))?;
        }
    }
    Ok(latency)
}
