//! Does something for every pod again and again: at once for a pod that is new, then after the pause that the last time
//! asked for. Pods do not wait for each other, and no pod is asked twice at a time.

use std::sync::Arc;
use std::time::Duration;

use foldhash::HashMap;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::{Fleet, Pod};
use crate::routing::PodSlot;

/// How soon a pod that was added is noticed.
const TICK: Duration = Duration::from_millis(100);

struct Turn {
    pod: Arc<Pod>,
    /// `None` while it is being asked.
    due: Option<Instant>,
}

/// Runs until `end` changes. `all_asked` is called when each pod there is at the start was asked once.
pub(super) async fn run<'f>(
    fleet: &Arc<Fleet>,
    mut end: watch::Receiver<bool>,
    all_asked: impl FnOnce(),
    ask: impl Fn(Arc<Pod>) -> BoxFuture<'f, (Arc<Pod>, Duration)>,
) {
    let mut turns: HashMap<PodSlot, Turn> = HashMap::default();
    let mut under_way = FuturesUnordered::new();
    let mut all_asked = Some(all_asked);
    loop {
        let now = Instant::now();
        for pod in take_turns(fleet, &mut turns, now) {
            under_way.push(ask(pod));
        }
        if turns.values().all(|turn| turn.due.is_some())
            && let Some(all_asked) = all_asked.take()
        {
            all_asked();
        }
        let next = turns.values().filter_map(|turn| turn.due).min();
        let wake = next.map_or(now + TICK, |due| due.min(now + TICK));
        tokio::select! {
            Some((pod, pause)) = under_way.next() => {
                if let Some(turn) = turns.get_mut(&pod.slot()) && Arc::ptr_eq(&turn.pod, &pod) {
                    turn.due = Some(Instant::now() + pause);
                }
            }
            () = sleep_until(wake) => {}
            _ = end.changed() => return,
        }
    }
}

/// The pods whose turn it is. Forgets pods that left.
fn take_turns(fleet: &Fleet, turns: &mut HashMap<PodSlot, Turn>, now: Instant) -> Vec<Arc<Pod>> {
    let snapshot = fleet.snapshot();
    turns.retain(|&slot, turn| {
        snapshot
            .pod(slot)
            .is_some_and(|pod| Arc::ptr_eq(pod, &turn.pod))
    });
    let mut ready = Vec::new();
    for pod in snapshot.pods() {
        let turn = turns.entry(pod.slot()).or_insert_with(|| Turn {
            pod: Arc::clone(pod),
            due: Some(now),
        });
        if turn.due.is_some_and(|due| due <= now) {
            turn.due = None;
            ready.push(Arc::clone(pod));
        }
    }
    ready
}
