//! Background work on the pods, as Pingora services.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use pingora_core::server::ShutdownWatch;
use pingora_core::services::ServiceReadyNotifier;
use pingora_core::services::background::BackgroundService;

use crate::fleet::{engine_stats, health, resolve};
use crate::proxy::State;

/// Names, health and models of the pods. Ready when each pod was asked once.
pub(super) struct Pods(pub(super) Arc<State>);

#[async_trait]
impl BackgroundService for Pods {
    async fn start_with_ready_notifier(
        &self,
        shutdown: ShutdownWatch,
        ready: ServiceReadyNotifier,
    ) {
        let fleet = &self.0.fleet;
        let (resolved, names_known) = tokio::sync::oneshot::channel();
        let names = resolve::run(fleet, shutdown.clone(), || {
            // The receiver only goes with this whole task.
            let _ = resolved.send(());
        });
        let checks = async {
            // Without the names' addresses every first check would fail.
            let _ = names_known.await;
            health::run(fleet, shutdown.clone(), || ready.notify_ready()).await;
        };
        tokio::join!(names, checks, self.tidy(shutdown.clone()));
    }
}

impl Pods {
    /// Gives the slots of removed pods free, and memory that is not needed any more.
    async fn tidy(&self, mut shutdown: ShutdownWatch) {
        let mut tick = tokio::time::interval(Duration::from_secs(1));
        loop {
            tokio::select! {
                _ = tick.tick() => {
                    let live = self.0.live();
                    self.0.fleet.reap(|slot| live.router.forget(slot));
                    self.0.fleet.idle_connections().sweep(Instant::now());
                    self.0.tidy();
                }
                _ = shutdown.changed() => return,
            }
        }
    }
}

/// The engines' metrics.
pub(super) struct EngineStats(pub(super) Arc<State>);

#[async_trait]
impl BackgroundService for EngineStats {
    async fn start(&self, shutdown: ShutdownWatch) {
        engine_stats::run(&self.0.fleet, shutdown).await;
    }
}
