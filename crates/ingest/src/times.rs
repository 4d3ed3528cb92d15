//! How long things took, counted where they happen and read at any time. Pure counting.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use paceline_pipeline::Times;

/// Counts by how long something took.
#[derive(Debug, Default)]
pub(crate) struct Stopwatch {
    counts: [AtomicU64; Times::BOUNDS.len() + 1],
    micros: AtomicU64,
}

impl Stopwatch {
    /// So many took this long each.
    pub(crate) fn took(&self, time: Duration, n: u64) {
        self.counts[Times::bucket(time)].fetch_add(n, Ordering::Relaxed);
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.micros.fetch_add(micros.saturating_mul(n), Ordering::Relaxed);
    }

    /// The counts now.
    pub(crate) fn now(&self) -> Times {
        Times {
            counts: std::array::from_fn(|at| self.counts[at].load(Ordering::Relaxed)),
            sum: Duration::from_micros(self.micros.load(Ordering::Relaxed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_counted_in_the_bucket_it_does_not_exceed() {
        let stopwatch = Stopwatch::default();
        stopwatch.took(Duration::from_millis(1), 2);
        stopwatch.took(Duration::from_micros(1001), 1);
        stopwatch.took(Duration::from_hours(1), 1);

        let times = stopwatch.now();
        assert_eq!((times.counts[0], times.counts[1], times.counts.last()), (2, 1, Some(&1)));
        assert_eq!((times.n(), times.sum), (4, Duration::from_micros(3_600_003_001)));
    }
}
