//! What a model did so far, counted in requests, without a lock and without a line of memory that
//! all threads write: each thread counts on a stripe, and whoever reads adds the stripes up.

use std::{
    array,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use paceline_batch::Histogram;
use tokio::time::Instant;

use crate::{Ride, results::Answer};

/// What a model did so far, counted in requests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
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
    /// Nanoseconds from request to result, of each good one.
    pub latency: Histogram,
    /// Nanoseconds from request to first result, of each that was asked for as a stream.
    pub first_result: Histogram,
}

const STRIPES: usize = 8;

/// The same while it is counted.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    stripes: [Stripe; STRIPES],
}

/// What some of the threads counted; alone on its lines of memory.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe {
    n_good: AtomicU64,
    n_failed: AtomicU64,
    n_cancelled: AtomicU64,
    n_rows: AtomicU64,
    total_ns: AtomicU64,
    wait_ns: AtomicU64,
    compute_ns: AtomicU64,
    failed_ns: AtomicU64,
    cancelled_ns: AtomicU64,
    first_ns: AtomicU64,
    latency: Bins,
    first_result: Bins,
}

/// How many values of each bin of a [`Histogram`].
#[derive(Debug)]
struct Bins(Box<[AtomicU64; Histogram::BINS]>);

impl Default for Bins {
    fn default() -> Self {
        Self(Box::new(array::from_fn(|_| AtomicU64::new(0))))
    }
}

impl Bins {
    fn record(&self, value: u64) {
        add(&self.0[Histogram::bin(value)], 1);
    }

    fn read(&self, sum: u64) -> Histogram {
        let counts = array::from_fn(|bin| self.0[bin].load(Ordering::Relaxed));
        Histogram::from_counts(&counts, u128::from(sum))
    }
}

impl Counts {
    /// A request has come.
    pub(crate) fn begin(self: &Arc<Self>) -> Counting {
        Counting { counts: Arc::clone(self), began: Instant::now(), is_done: false }
    }

    pub(crate) fn read(&self) -> ModelStats {
        let mut stats = ModelStats::default();
        for stripe in &self.stripes {
            let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
            let total_ns = read(&stripe.total_ns);
            stats.n_good += read(&stripe.n_good);
            stats.n_failed += read(&stripe.n_failed);
            stats.n_cancelled += read(&stripe.n_cancelled);
            stats.n_rows += read(&stripe.n_rows);
            stats.total_ns += total_ns;
            stats.wait_ns += read(&stripe.wait_ns);
            stats.compute_ns += read(&stripe.compute_ns);
            stats.failed_ns += read(&stripe.failed_ns);
            stats.cancelled_ns += read(&stripe.cancelled_ns);
            stats.latency.merge(&stripe.latency.read(total_ns));
            stats.first_result.merge(&stripe.first_result.read(read(&stripe.first_ns)));
        }
        stats
    }

    /// This thread's.
    fn stripe(&self) -> &Stripe {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static OWN: usize = NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES;
        }
        &self.stripes[OWN.with(|own| *own)]
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
    /// Counts what came of a request of so many rows.
    pub(crate) fn end(self, answer: &Answer, rows: u64) {
        match answer {
            Ok((_, ride)) => self.good(ride, rows),
            Err(_) => self.failed(),
        }
    }

    /// To be told of the first result, where there may be several.
    pub(crate) fn first(&self) -> First {
        First { counts: Arc::clone(&self.counts), began: self.began }
    }

    /// It has a result of so many rows.
    fn good(mut self, ride: &Ride, rows: u64) {
        self.is_done = true;
        let (stripe, took) = (self.counts.stripe(), nanos(self.began.elapsed()));
        add(&stripe.n_good, 1);
        add(&stripe.n_rows, rows);
        add(&stripe.total_ns, took);
        add(&stripe.wait_ns, nanos(ride.waited));
        add(&stripe.compute_ns, nanos(ride.took));
        stripe.latency.record(took);
    }

    /// It has none.
    pub(crate) fn failed(mut self) {
        self.is_done = true;
        let stripe = self.counts.stripe();
        add(&stripe.n_failed, 1);
        add(&stripe.failed_ns, nanos(self.began.elapsed()));
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        if !self.is_done {
            let stripe = self.counts.stripe();
            add(&stripe.n_cancelled, 1);
            add(&stripe.cancelled_ns, nanos(self.began.elapsed()));
        }
    }
}

/// Waits for the first result of a request.
#[derive(Debug)]
pub(crate) struct First {
    counts: Arc<Counts>,
    began: Instant,
}

impl First {
    /// It is there.
    pub(crate) fn came(self) {
        let (stripe, took) = (self.counts.stripe(), nanos(self.began.elapsed()));
        add(&stripe.first_ns, took);
        stripe.first_result.record(took);
    }
}

fn add(count: &AtomicU64, more: u64) {
    if cfg!(feature = "uncounted") {
        return;
    }
    count.fetch_add(more, Ordering::Relaxed);
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_many_threads_count_adds_up() {
        let counts = Arc::new(Counts::default());
        std::thread::scope(|scope| {
            for _ in 0..2 * STRIPES {
                scope.spawn(|| {
                    for _ in 0..100 {
                        counts.begin().failed();
                        drop(counts.begin());
                        counts.begin().first().came();
                    }
                });
            }
        });

        let stats = counts.read();
        let n = 100 * 2 * STRIPES as u64;
        assert_eq!((stats.n_failed, stats.n_cancelled), (n, 2 * n));
        assert_eq!(stats.first_result.count(), n);
    }

    #[tokio::test(start_paused = true)]
    async fn times_are_added_up_by_what_came_of_requests() {
        let counts = Arc::new(Counts::default());
        let ms = Duration::from_millis;
        let ride = Ride {
            parts: 1,
            batch: 1,
            items: 1,
            rows: 3,
            position: 0,
            waited: ms(2),
            took: ms(5),
            fired: paceline_batch::FireReason::Full,
        };
        for _ in 0..2 {
            let [good, failed, left] = [counts.begin(), counts.begin(), counts.begin()];
            let first = good.first();
            tokio::time::advance(ms(7)).await;
            first.came();
            good.good(&ride, 3);
            tokio::time::advance(ms(1)).await;
            failed.failed();
            tokio::time::advance(ms(1)).await;
            drop(left);
        }

        let ns = |millis: u64| millis * 1_000_000;
        let stats = counts.read();
        assert_eq!((stats.n_good, stats.n_failed, stats.n_cancelled, stats.n_rows), (2, 2, 2, 6));
        assert_eq!((stats.total_ns, stats.wait_ns, stats.compute_ns), (ns(14), ns(4), ns(10)));
        assert_eq!((stats.failed_ns, stats.cancelled_ns), (ns(16), ns(18)));
        assert_eq!((stats.latency.count(), stats.latency.sum()), (2, u128::from(ns(14))));
        assert_eq!((stats.first_result.count(), stats.first_result.sum()), (2, u128::from(ns(14))));
    }
}
