//! What a model did so far, counted in requests.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use paceline_backend::Output;
use tokio::time::Instant;

use crate::{InferError, Ride};

/// What a model did so far, counted in requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ModelStats {
    /// Requests with a result.
    pub n_good: u64,
    /// Requests without.
    pub n_failed: u64,
    /// Requests whose client left before there was either.
    pub n_cancelled: u64,
    /// Rows of the good ones.
    pub n_rows: u64,
    /// Nanoseconds from request to result, over all good ones.
    pub total_ns: u64,
    /// Of these, waiting.
    pub wait_ns: u64,
    /// Of these, in the model.
    pub compute_ns: u64,
    /// Nanoseconds from request to failure, over all failed ones.
    pub failed_ns: u64,
    /// Nanoseconds from request to leaving, over all whose client left.
    pub cancelled_ns: u64,
}

/// The same while it is counted.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    n_good: AtomicU64,
    n_failed: AtomicU64,
    n_cancelled: AtomicU64,
    n_rows: AtomicU64,
    total_ns: AtomicU64,
    wait_ns: AtomicU64,
    compute_ns: AtomicU64,
    failed_ns: AtomicU64,
    cancelled_ns: AtomicU64,
}

impl Counts {
    /// A request has come.
    pub(crate) fn begin(self: &Arc<Self>) -> Counting {
        Counting { counts: Arc::clone(self), began: Instant::now(), is_done: false }
    }

    pub(crate) fn read(&self) -> ModelStats {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        ModelStats {
            n_good: read(&self.n_good),
            n_failed: read(&self.n_failed),
            n_cancelled: read(&self.n_cancelled),
            n_rows: read(&self.n_rows),
            total_ns: read(&self.total_ns),
            wait_ns: read(&self.wait_ns),
            compute_ns: read(&self.compute_ns),
            failed_ns: read(&self.failed_ns),
            cancelled_ns: read(&self.cancelled_ns),
        }
    }
}

/// One request while it is under way. Dropped before it is done, its client has left.
#[derive(Debug)]
pub(crate) struct Counting {
    counts: Arc<Counts>,
    began: Instant,
    is_done: bool,
}

impl Counting {
    /// Counts what comes of a request of so many rows.
    pub(crate) async fn count(
        self,
        rows: u64,
        answer: impl Future<Output = Result<(Output, Ride), InferError>>,
    ) -> Result<(Output, Ride), InferError> {
        let answer = answer.await;
        match &answer {
            Ok((_, ride)) => self.good(ride, rows),
            Err(_) => self.failed(),
        }
        answer
    }

    /// It has a result of so many rows.
    fn good(mut self, ride: &Ride, rows: u64) {
        self.is_done = true;
        add(&self.counts.n_good, 1);
        add(&self.counts.n_rows, rows);
        add(&self.counts.total_ns, nanos(self.began.elapsed()));
        add(&self.counts.wait_ns, nanos(ride.waited));
        add(&self.counts.compute_ns, nanos(ride.took));
    }

    /// It has none.
    pub(crate) fn failed(mut self) {
        self.is_done = true;
        add(&self.counts.n_failed, 1);
        add(&self.counts.failed_ns, nanos(self.began.elapsed()));
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        if !self.is_done {
            add(&self.counts.n_cancelled, 1);
            add(&self.counts.cancelled_ns, nanos(self.began.elapsed()));
        }
    }
}

fn add(count: &AtomicU64, more: u64) {
    count.fetch_add(more, Ordering::Relaxed);
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
