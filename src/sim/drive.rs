//! Runs the pure engine on real time.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use super::engine::{Engine, EngineModel, Event, Job, JobId};

/// The engine and the requests that wait for its events.
pub(super) struct Driver {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    changed: Notify,
    start: Instant,
    time_scale: f64,
}

struct State {
    engine: Engine,
    listeners: HashMap<JobId, mpsc::UnboundedSender<Event>>,
    events: Vec<Event>,
}

/// A job under way; dropping it cancels the job.
pub(super) struct Running {
    id: JobId,
    events: mpsc::UnboundedReceiver<Event>,
    shared: Arc<Shared>,
}

impl Driver {
    pub(super) fn new(model: EngineModel, time_scale: f64) -> Self {
        let state = State {
            engine: Engine::new(model),
            listeners: HashMap::new(),
            events: Vec::new(),
        };
        Self {
            shared: Arc::new(Shared {
                state: Mutex::new(state),
                changed: Notify::new(),
                start: Instant::now(),
                time_scale,
            }),
        }
    }

    pub(super) fn submit(&self, job: Job) -> Running {
        let (sender, events) = mpsc::unbounded_channel();
        let mut state = self.shared.state.lock();
        let id = state.engine.submit(self.shared.now(), job);
        state.listeners.insert(id, sender);
        if self.shared.time_scale == 0.0 {
            // Without time a job is done as soon as it is submitted.
            while state.listeners.contains_key(&id)
                && let Some(at) = state.engine.next_at()
            {
                state.advance(at);
            }
        }
        drop(state);
        if self.shared.time_scale > 0.0 {
            self.shared.changed.notify_one();
        }
        Running {
            id,
            events,
            shared: Arc::clone(&self.shared),
        }
    }

    pub(super) fn with<T>(&self, read: impl FnOnce(&Engine) -> T) -> T {
        read(&self.shared.state.lock().engine)
    }

    /// Lets time pass, for ever.
    pub(super) fn run(&self) -> impl Future<Output = ()> + Send + use<> {
        let shared = Arc::clone(&self.shared);
        async move {
            loop {
                let next = {
                    let mut state = shared.state.lock();
                    state.advance(shared.now());
                    state.engine.next_at()
                };
                let wake = next.map(|at| {
                    shared.start + Duration::from_secs_f64(at as f64 * 1e-6 * shared.time_scale)
                });
                match wake {
                    Some(wake) => tokio::select! {
                        () = tokio::time::sleep_until(wake) => {}
                        () = shared.changed.notified() => {}
                    },
                    None => shared.changed.notified().await,
                }
            }
        }
    }
}

impl Shared {
    fn now(&self) -> u64 {
        if self.time_scale == 0.0 {
            return 0;
        }
        (self.start.elapsed().as_secs_f64() * 1e6 / self.time_scale) as u64
    }
}

impl State {
    fn advance(&mut self, now: u64) {
        self.engine.step(now, &mut self.events);
        for event in self.events.drain(..) {
            let (Event::FirstToken { job, .. } | Event::Token { job } | Event::Finished { job }) =
                event;
            if let Some(listener) = self.listeners.get(&job) {
                // A listener that is gone cancels its job itself.
                let _ = listener.send(event);
            }
            if matches!(event, Event::Finished { .. }) {
                self.listeners.remove(&job);
            }
        }
    }
}

impl Running {
    /// `None` when the job has finished.
    pub(super) async fn next(&mut self) -> Option<Event> {
        match self.events.recv().await {
            Some(Event::Finished { .. }) | None => None,
            event => event,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        if state.listeners.remove(&self.id).is_some() {
            state.engine.cancel(self.id);
        }
    }
}
