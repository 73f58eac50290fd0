//! Signals, and an end that waits for open requests but no longer.
//!
//! | signal | does |
//! | --- | --- |
//! | TERM | closes the listeners, lets open requests finish for `server.shutdown_grace`, ends with status 0 |
//! | TERM again, INT | ends at once |
//! | QUIT | hands the listening sockets to a new process, then as TERM |
//! | HUP | reads the configuration again |
//!
//! Pingora closes the listeners and then sleeps for a fixed time. So the end of the process is ours: [`Drain`] watches the
//! count of open requests once the listeners are being closed, and leaves as soon as it is zero.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pingora_core::server::{ShutdownSignal, ShutdownSignalWatch, ShutdownWatch};
use pingora_core::services::background::BackgroundService;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::proxy::State;

/// Waits for the signal that ends the process.
pub(super) struct Signals {
    pub(super) state: Arc<State>,
}

#[async_trait]
impl ShutdownSignalWatch for Signals {
    async fn recv(&self) -> ShutdownSignal {
        let (Ok(mut terminate), Ok(mut quit), Ok(mut interrupt)) = (
            listen(SignalKind::terminate()),
            listen(SignalKind::quit()),
            listen(SignalKind::interrupt()),
        ) else {
            // Without signals the process could never be ended in order; better to say so at the start.
            return ShutdownSignal::FastShutdown;
        };
        let signal = tokio::select! {
            _ = terminate.recv() => ShutdownSignal::GracefulTerminate,
            _ = quit.recv() => ShutdownSignal::GracefulUpgrade,
            _ = interrupt.recv() => ShutdownSignal::FastShutdown,
        };
        self.state.drain();
        signal
    }
}

pub(super) fn listen(kind: SignalKind) -> std::io::Result<Signal> {
    signal(kind).inspect_err(|error| log::error!("cannot listen for a signal: {error}"))
}

/// Ends the process once the listeners are closed and no request is open.
pub(super) struct Drain {
    pub(super) state: Arc<State>,
    pub(super) grace: Duration,
}

#[async_trait]
impl BackgroundService for Drain {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        if shutdown.wait_for(|&ending| ending).await.is_err() {
            return;
        }
        log::info!(
            "ending: no new connections; {} open requests may finish within {:?}",
            self.state.open_requests(),
            self.grace
        );
        let again = async {
            match (
                listen(SignalKind::terminate()),
                listen(SignalKind::interrupt()),
            ) {
                (Ok(mut terminate), Ok(mut interrupt)) => tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                },
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.idle() => log::info!("ended: no request was open"),
            () = tokio::time::sleep(self.grace) => {
                log::warn!("ended: {} requests were still open after the grace time", self.state.open_requests());
            }
            () = again => log::warn!("ended: told to end at once with {} open requests", self.state.open_requests()),
        }
        self.state.flush_logs();
        std::process::exit(0);
    }
}

impl Drain {
    async fn idle(&self) {
        // Connections accepted just before the listeners closed get a moment to show their request.
        let mut tick = tokio::time::interval(Duration::from_millis(50));
        let mut quiet = 0;
        while quiet < QUIET_TICKS {
            tick.tick().await;
            quiet = if self.state.open_requests() == 0 {
                quiet + 1
            } else {
                0
            };
        }
    }
}

const QUIET_TICKS: u32 = 4;
