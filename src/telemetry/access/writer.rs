//! Hands lines to a thread of its own, which may wait for the reader as long as it likes.
//!
//! Invariants: the waiting bytes are bounded, and beyond that whole lines are dropped and counted;
//! handing over takes a short lock and a copy, never a system call to the output; an output that
//! fails ends neither the thread nor the process and is reported once.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

#[derive(Debug)]
pub(super) struct Writer {
    shared: Arc<Shared>,
    max_waiting: usize,
}

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    /// Something waits, or no more will come.
    work: Condvar,
    /// The thread has ended.
    ended: Condvar,
    dropped: AtomicU64,
}

#[derive(Debug, Default)]
struct Waiting {
    bytes: Vec<u8>,
    lines: u64,
    closed: bool,
    ended: bool,
}

impl Writer {
    pub(super) fn start(
        output: impl Write + Send + 'static,
        max_waiting: usize,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("access-log".to_owned());
        thread.spawn(move || of_thread.run(output))?;
        Ok(Self {
            shared,
            max_waiting,
        })
    }

    pub(super) fn hand_over(&self, line: &[u8]) {
        let mut waiting = self.shared.waiting.lock();
        if waiting.closed || waiting.bytes.len() + line.len() > self.max_waiting {
            drop(waiting);
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let idle = waiting.bytes.is_empty();
        waiting.bytes.extend_from_slice(line);
        waiting.lines += 1;
        drop(waiting);
        if idle {
            self.shared.work.notify_one();
        }
    }

    pub(super) fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }

    pub(super) fn close(&self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        let mut waiting = self.shared.waiting.lock();
        waiting.closed = true;
        self.shared.work.notify_one();
        while !waiting.ended {
            if self
                .shared
                .ended
                .wait_until(&mut waiting, deadline)
                .timed_out()
            {
                return waiting.ended;
            }
        }
        true
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.shared.waiting.lock().closed = true;
        self.shared.work.notify_one();
    }
}

impl Shared {
    fn run(&self, mut output: impl Write) {
        let mut taken = Vec::new();
        let mut reported = false;
        loop {
            taken.clear();
            let mut waiting = self.waiting.lock();
            while waiting.bytes.is_empty() && !waiting.closed {
                self.work.wait(&mut waiting);
            }
            if waiting.bytes.is_empty() {
                break;
            }
            std::mem::swap(&mut waiting.bytes, &mut taken);
            let lines = std::mem::take(&mut waiting.lines);
            drop(waiting);

            if let Err(error) = output.write_all(&taken).and_then(|()| output.flush()) {
                self.dropped.fetch_add(lines, Ordering::Relaxed);
                if !reported {
                    log::warn!("the access log cannot be written, its lines are dropped: {error}");
                    reported = true;
                }
            }
        }
        self.waiting.lock().ended = true;
        self.ended.notify_all();
    }
}
