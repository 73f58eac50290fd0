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
pub(crate) struct Writer {
    shared: Arc<Shared>,
    max_waiting: usize,
}

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    /// Something waits, or no more will come.
    work: Condvar,
    /// What was taken is written, or lost.
    done: Condvar,
    dropped: AtomicU64,
}

#[derive(Debug, Default)]
struct Waiting {
    bytes: Vec<u8>,
    /// Lines ever handed over, and those of them that are dealt with.
    handed_over: u64,
    done: u64,
    closed: bool,
}

impl Writer {
    /// `name`: whose lines they are, for the thread and the log.
    pub(crate) fn start(
        name: &'static str,
        output: impl Write + Send + 'static,
        max_waiting: usize,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name(name.replace(' ', "-"));
        thread.spawn(move || of_thread.run(name, output))?;
        Ok(Self {
            shared,
            max_waiting,
        })
    }

    pub(crate) fn hand_over(&self, line: &[u8]) {
        let mut waiting = self.shared.waiting.lock();
        if waiting.bytes.len() + line.len() > self.max_waiting {
            drop(waiting);
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let idle = waiting.bytes.is_empty();
        waiting.bytes.extend_from_slice(line);
        waiting.handed_over += 1;
        drop(waiting);
        if idle {
            self.shared.work.notify_one();
        }
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }

    pub(crate) fn flush(&self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        let mut waiting = self.shared.waiting.lock();
        let all = waiting.handed_over;
        while waiting.done < all {
            if self
                .shared
                .done
                .wait_until(&mut waiting, deadline)
                .timed_out()
            {
                return waiting.done >= all;
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
    fn run(&self, name: &str, mut output: impl Write) {
        let mut taken = Vec::new();
        let mut reported = false;
        let mut waiting = self.waiting.lock();
        loop {
            while waiting.bytes.is_empty() && !waiting.closed {
                self.work.wait(&mut waiting);
            }
            if waiting.bytes.is_empty() {
                return;
            }
            std::mem::swap(&mut waiting.bytes, &mut taken);
            let upto = waiting.handed_over;
            let lines = upto - waiting.done;
            drop(waiting);

            if let Err(error) = output.write_all(&taken).and_then(|()| output.flush()) {
                self.dropped.fetch_add(lines, Ordering::Relaxed);
                if !reported {
                    log::warn!("the {name} cannot be written, its lines are dropped: {error}");
                    reported = true;
                }
            } else if !reported && self.dropped.load(Ordering::Relaxed) > 0 {
                log::warn!(
                    "the {name} is written too slowly: lines are dropped, and from now on only counted"
                );
                reported = true;
            }
            taken.clear();
            waiting = self.waiting.lock();
            waiting.done = upto;
            self.done.notify_all();
        }
    }
}
