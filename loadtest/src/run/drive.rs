//! Lets conversations begin and go on, in an open or a closed loop.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::client::{Answer, Client, Wanted};
use super::record::{Finished, Record};
use super::scenario::arrival::{Arrival, Closed};
use super::scenario::{Scenario, arrival::Open};
use super::traffic::arrivals::Arrivals;
use super::traffic::{Traffic, Turn};

/// What all conversations of a run share.
pub(crate) struct Drive {
    traffic: Traffic,
    client: Arc<Client>,
    record: Mutex<Record>,
    scenario: Scenario,
    start: Instant,
    open: AtomicU64,
    most_open: AtomicU64,
    sent: AtomicU64,
}

/// Conversations are made ready so long before they begin.
const AHEAD: Duration = Duration::from_millis(5);
/// A client of a closed loop goes on so long after a failure, lest a dead gateway gets a flood.
const AFTER_FAILURE: Duration = Duration::from_millis(100);

impl Drive {
    pub(crate) fn new(scenario: &Scenario, client: Arc<Client>) -> Result<Arc<Self>> {
        let traffic = Traffic::new(scenario)?;
        let start = Instant::now();
        let record = Record::new(scenario.workload.len(), start, scenario.warm_up)?;
        Ok(Arc::new(Self {
            traffic,
            client,
            record: Mutex::new(record),
            scenario: scenario.clone(),
            start,
            open: AtomicU64::new(0),
            most_open: AtomicU64::new(0),
            sent: AtomicU64::new(0),
        }))
    }

    pub(crate) fn start(&self) -> Instant {
        self.start
    }

    /// Requests under way.
    pub(crate) fn open(&self) -> u64 {
        self.open.load(Ordering::Relaxed)
    }

    pub(crate) fn most_open(&self) -> u64 {
        self.most_open.load(Ordering::Relaxed)
    }

    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    pub(crate) fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stop(&self) -> Instant {
        self.start + self.scenario.duration
    }

    /// Runs until the last request is over, or given up.
    pub(crate) async fn run(self: &Arc<Self>) -> Result<()> {
        let mut tasks = JoinSet::new();
        match &self.scenario.arrival {
            Arrival::Closed(closed) => {
                for number in 0..closed.concurrency {
                    let (drive, closed) = (Arc::clone(self), closed.clone());
                    tasks.spawn(async move { drive.client(number, &closed).await });
                }
            }
            Arrival::Open(open) => self.arrive(open, &mut tasks).await?,
        }
        let last = self.stop() + self.scenario.drain;
        while let Ok(joined) = tokio::time::timeout_at(last, tasks.join_next()).await {
            match joined {
                Some(ended) => ended.context("a client of the load test failed")??,
                None => return Ok(()),
            }
        }
        // Ended first, so that none is counted twice; what was open then never counts itself out.
        tasks.shutdown().await;
        self.record()
            .unfinished(self.open.swap(0, Ordering::Relaxed));
        Ok(())
    }

    async fn arrive(self: &Arc<Self>, open: &Open, tasks: &mut JoinSet<Result<()>>) -> Result<()> {
        let arrivals = Arrivals::new(open, self.traffic.arrivals())?;
        for (number, at) in arrivals.enumerate() {
            let intended = self.start + at;
            if intended >= self.stop() {
                break;
            }
            if let Some(early) = intended.checked_sub(AHEAD) {
                until(early).await;
            }
            let drive = Arc::clone(self);
            tasks.spawn(async move {
                drive.converse(number as u64, intended).await?;
                Ok(())
            });
            while let Some(ended) = tasks.try_join_next() {
                ended.context("a client of the load test failed")??;
            }
        }
        Ok(())
    }

    /// A client of a closed loop.
    async fn client(&self, number: usize, closed: &Closed) -> Result<()> {
        let mut pauses = self.traffic.pauses(number as u64);
        let share = number as f64 / closed.concurrency as f64;
        let mut intended = self.start + closed.ramp.mul_f64(share);
        for round in 0.. {
            if intended >= self.stop() {
                break;
            }
            until(intended).await;
            let conversation = (round * closed.concurrency + number) as u64;
            let is_well = self.converse(conversation, intended).await?;
            let pause = closed.think.pause(&mut pauses);
            let pause = if is_well {
                pause
            } else {
                pause.max(AFTER_FAILURE)
            };
            intended = Instant::now() + pause;
        }
        Ok(())
    }

    /// Sends the requests of a conversation one after the other; whether all went well.
    async fn converse(&self, number: u64, begin: Instant) -> Result<bool> {
        let mut conversation = self.traffic.conversation(number);
        let mut intended = begin;
        for turn_number in 0_u64.. {
            let Some(turn) = conversation.next()? else {
                break;
            };
            intended += turn.pause;
            if intended >= self.stop() {
                break;
            }
            until(intended).await;
            let id = format!("lt-{}-{number}-{turn_number}", self.scenario.seed);
            let quotes_answer = turn.quotes_answer;
            let Some(answer) = self.request(conversation.class, id, turn, intended).await else {
                return Ok(false);
            };
            intended = answer.ended;
            if quotes_answer {
                conversation.answered(answer.text);
            }
        }
        Ok(true)
    }

    async fn request(
        &self,
        class: usize,
        id: String,
        turn: Turn,
        intended: Instant,
    ) -> Option<Answer> {
        let wanted = Wanted {
            id,
            body: turn.body,
            stream: self.scenario.stream,
            answer_tokens: turn.answer_tokens,
            keep_text: turn.quotes_answer,
        };
        let open = self.open.fetch_add(1, Ordering::Relaxed) + 1;
        self.most_open.fetch_max(open, Ordering::Relaxed);
        self.sent.fetch_add(1, Ordering::Relaxed);
        let sent = Instant::now();
        let result = self.client.exchange(&wanted).await;
        self.open.fetch_sub(1, Ordering::Relaxed);
        let mut finished = Finished {
            class,
            intended,
            sent,
            ended: Instant::now(),
        };
        match result {
            Ok(answer) => {
                finished.ended = answer.ended;
                self.record().answered(&finished, &answer);
                Some(answer)
            }
            Err(failure) => {
                self.record().failed(&finished, failure);
                None
            }
        }
    }
}

/// A timer goes by whole milliseconds, rounded up: what is due already does not wait for the next.
async fn until(at: Instant) {
    if at > Instant::now() {
        sleep_until(at).await;
    }
}
