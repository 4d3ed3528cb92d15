//! One connection's loop, closed or open. Thin: it waits for answers and hands them to the record.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::{Barrier, Mutex as FairMutex},
    time::{Instant, sleep, timeout, timeout_at},
};

use crate::{
    Failure, Fault,
    pace::Pacer,
    record::{Record, Sample},
};

/// What a closed loop waits after a request failed, so that a server that refuses at once is not
/// asked in a tight loop.
const AFTER_FAILURE: Duration = Duration::from_millis(1);
/// Longest that a connection may take to be made before a run.
const CONNECT: Duration = Duration::from_secs(10);

/// Sends one request at a time.
pub(crate) trait Caller: Send + 'static {
    /// Connects.
    fn prepare(&mut self) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Sends the request and waits for its answer. Dropping the future gives the request up.
    fn call(&mut self) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// Ends a run before its time. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Sends no more requests; those under way are waited for.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was said.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What all connections of a run share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Where everybody waits until everybody is connected.
    pub(crate) ready: Barrier,
    pub(crate) start: OnceLock<Instant>,
    /// Why a connection could not be made.
    pub(crate) unconnected: Mutex<Option<Failure>>,
    pub(crate) stop: Stop,
    /// Requests that may still be sent.
    pub(crate) allowance: Option<AtomicU64>,
    /// When no more are sent, counted from the start.
    pub(crate) end: Duration,
    pub(crate) timeout: Duration,
    pub(crate) n_answered: AtomicU64,
    pub(crate) n_failed: AtomicU64,
}

impl Shared {
    fn may_send(&self, elapsed: Duration) -> bool {
        elapsed < self.end
            && !self.stop.is_stopped()
            && self.allowance.as_ref().is_none_or(|left| {
                left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
                    .is_ok()
            })
    }
}

/// One thread's part of what is recorded; its connections take turns.
pub(crate) type Recorder = Arc<Mutex<Record>>;

/// One connection.
pub(crate) struct Worker<C> {
    pub(crate) caller: C,
    pub(crate) shared: Arc<Shared>,
    pub(crate) recorder: Recorder,
    /// An open loop's due times; without, the loop is closed.
    pub(crate) pacer: Option<Arc<FairMutex<Pacer>>>,
}

impl<C: Caller> Worker<C> {
    pub(crate) async fn run(mut self) {
        let connected = timeout(CONNECT, self.caller.prepare()).await;
        if let Err(failure) = connected.unwrap_or(Err(Fault::Connect.into())) {
            self.shared.unconnected.lock().get_or_insert(failure);
        }
        self.shared.ready.wait().await;
        if self.shared.unconnected.lock().is_some() {
            return;
        }
        let start = *self.shared.start.get_or_init(Instant::now);
        match self.pacer.take() {
            Some(pacer) => self.open_loop(&pacer, start).await,
            None => self.closed_loop(start).await,
        }
    }

    /// Sends as soon as the request before is answered.
    async fn closed_loop(&mut self, start: Instant) {
        let mut sent = start.elapsed();
        while self.shared.may_send(sent) {
            sent = if let Some(done) = self.request(start, sent, sent).await {
                done
            } else {
                sleep(AFTER_FAILURE).await;
                start.elapsed()
            };
        }
    }

    /// Sends what is due, and what became due while it was busy.
    async fn open_loop(&mut self, pacer: &FairMutex<Pacer>, start: Instant) {
        loop {
            // CANCEL SAFETY: workers are never cancelled while they hold the pacer.
            let due = pacer.lock().await.next(start, &self.shared.stop).await;
            let Some(due) = due else { break };
            let sent = start.elapsed();
            if !self.shared.may_send(sent) {
                break;
            }
            // A failure is recorded, and what is due next is due all the same.
            self.request(start, due, sent).await;
        }
    }

    /// One request; gives when its good answer came.
    async fn request(&mut self, start: Instant, due: Duration, sent: Duration) -> Option<Duration> {
        let answer = timeout_at(start + sent + self.shared.timeout, self.caller.call()).await;
        let done = start.elapsed();
        let sample = Sample { due, sent, done };
        match answer.unwrap_or(Err(Fault::Timeout.into())) {
            Ok(()) => {
                self.shared.n_answered.fetch_add(1, Ordering::Relaxed);
                self.recorder.lock().answered(sample);
                Some(done)
            }
            Err(failure) => {
                self.shared.n_failed.fetch_add(1, Ordering::Relaxed);
                self.recorder.lock().failed(sample, failure);
                None
            }
        }
    }
}
