//! Where requests wait that no pod can take within its latency goal.
//!
//! For each model one request at a time looks for a pod, those behind it wait for their turn; so they are served as they
//! came. Only requests that filter the pods take no turn. Each request that leaves a pod wakes those that look, if there are any.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use foldhash::HashMap;
use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedMutexGuard};

#[derive(Default)]
pub(super) struct Queue {
    looking: AtomicUsize,
    left: Notify,
    /// By model; models are of the known set.
    turns: Mutex<HashMap<Option<String>, Arc<tokio::sync::Mutex<()>>>>,
}

/// A fleet can also grow, which wakes nobody.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

impl Queue {
    pub(super) async fn turn(&self, model: Option<&str>) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.turns.lock();
            Arc::clone(turns.entry(model.map(str::to_owned)).or_default())
        };
        turn.lock_owned().await
    }

    /// Calls `look` until it finds something, each time that a request has left a pod.
    pub(super) async fn until<T>(&self, mut look: impl FnMut() -> Option<T>) -> T {
        let _looking = Looking::new(&self.looking);
        loop {
            let mut left = std::pin::pin!(self.left.notified());
            // Before looking: what leaves meanwhile must wake us.
            left.as_mut().enable();
            if let Some(found) = look() {
                return found;
            }
            // Whether it was woken or not, it looks again.
            let _ = tokio::time::timeout(LOOK_AGAIN, left).await;
        }
    }

    /// Costs next to nothing while nobody waits.
    fn request_left(&self) {
        if self.looking.load(Ordering::SeqCst) > 0 {
            self.left.notify_waiters();
        }
    }
}

struct Looking<'a>(&'a AtomicUsize);

impl<'a> Looking<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for Looking<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Dropped after a request has left its pod.
pub(super) struct Leaving(Arc<Queue>);

impl Leaving {
    pub(super) fn new(queue: &Arc<Queue>) -> Self {
        Self(Arc::clone(queue))
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.request_left();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn whoever_leaves_wakes_who_looks_and_the_first_is_served_first() {
        let (queue, free) = (Arc::new(Queue::default()), Arc::new(AtomicUsize::new(0)));
        let served = Arc::new(Mutex::new(Vec::new()));
        let start = tokio::time::Instant::now();
        let mut tasks = Vec::new();
        for number in 0..5 {
            let (queue, free, served) = (queue.clone(), free.clone(), served.clone());
            tasks.push(tokio::spawn(async move {
                let _turn = queue.turn(Some("m")).await;
                let take = || {
                    let taken = free.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |free| {
                        free.checked_sub(1)
                    });
                    taken.ok()
                };
                queue.until(take).await;
                served.lock().push(number);
            }));
            tokio::task::yield_now().await;
        }
        // Another model does not wait behind this one.
        queue.turn(None).await;
        for _ in 0..5 {
            free.fetch_add(1, Ordering::SeqCst);
            drop(Leaving::new(&queue));
            for _ in 0..5 {
                tokio::task::yield_now().await;
            }
        }
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*served.lock(), [0, 1, 2, 3, 4]);
        assert!(start.elapsed() < LOOK_AGAIN, "woken, not looked again");
    }
}
