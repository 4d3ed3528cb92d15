//! Limits: what the batcher may do, already checked.

use std::time::Duration;

use crate::Buckets;

/// What the batcher may do. Made from [`Settings`](crate::Settings), which checks it.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    pub(crate) max_items: usize,
    pub(crate) max_cost: u64,
    /// Sizes a batch may have, in rising order; empty where any will do.
    pub(crate) sizes: Vec<usize>,
    pub(crate) max_wait: Duration,
    pub(crate) policy: Policy,
    pub(crate) buckets: Buckets,
    pub(crate) queue_items: usize,
    pub(crate) queue_bytes: usize,
    pub(crate) timeout: Option<Duration>,
    pub(crate) patience: Duration,
    pub(crate) split_calls: u32,
}

/// When to fire a batch that is not full.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Policy {
    /// At once, unless what merging saves is worth the wait; deadlines know how long calls take.
    Adaptive,
    /// By the clock alone.
    Fixed {
        /// How long a lone item waits for a second one.
        fast_path_wait: Duration,
        /// How many rows fire a batch before its time.
        early_rows: usize,
    },
}

impl Limits {
    /// Most rows in a batch.
    #[must_use]
    pub const fn max_items(&self) -> usize {
        self.max_items
    }

    /// Most rows of this length that one batch may hold.
    #[must_use]
    pub fn max_rows(&self, length: u32) -> usize {
        let padded = self.buckets.edge(self.buckets.bucket(length)).unwrap_or(length).max(length);
        let affordable = self.max_cost / u64::from(padded.max(1));
        self.max_items.min(usize::try_from(affordable).unwrap_or(usize::MAX))
    }

    /// Longest an item waits for company while a device is free.
    #[must_use]
    pub const fn max_wait(&self) -> Duration {
        self.max_wait
    }

    /// When batches that are not full are fired.
    #[must_use]
    pub const fn policy(&self) -> Policy {
        self.policy
    }

    /// Most items that wait at once.
    #[must_use]
    pub const fn queue_items(&self) -> usize {
        self.queue_items
    }

    /// Most memory that waiting items hold at once.
    #[must_use]
    pub const fn queue_bytes(&self) -> usize {
        self.queue_bytes
    }

    /// The size that a batch of `rows` rows is padded to.
    pub(crate) fn padded_rows(&self, rows: usize) -> usize {
        let at = self.sizes.partition_point(|&size| size < rows);
        self.sizes.get(at).copied().unwrap_or(rows)
    }

    /// The largest allowed size that `rows` rows fill; `None` where they fill none.
    pub(crate) fn filled_size(&self, rows: usize) -> Option<usize> {
        let at = self.sizes.partition_point(|&size| size <= rows);
        at.checked_sub(1).map(|at| self.sizes[at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;

    #[test]
    fn a_batch_is_padded_to_the_next_size_and_fills_the_one_below() {
        let limits = Settings { sizes: vec![4, 8], ..Settings::default() }.validate().unwrap();

        assert_eq!([1, 4, 5, 8].map(|rows| limits.padded_rows(rows)), [4, 4, 8, 8]);
        assert_eq!(
            [3, 4, 7, 8].map(|rows| limits.filled_size(rows)),
            [None, Some(4), Some(4), Some(8)]
        );
        let any = Settings::default().validate().unwrap();
        assert_eq!((any.padded_rows(5), any.filled_size(5)), (5, None));
    }

    #[test]
    fn rows_are_as_many_as_are_allowed_and_can_be_paid_for_when_padded() {
        let settings = Settings {
            max_items: Some(32),
            max_cost: Some(1000),
            buckets: Buckets::Edges(vec![100, 400]),
            queue_items: Some(70),
            queue_bytes: Some(5000),
            ..Settings::default()
        };
        let limits = settings.validate().unwrap();
        assert_eq!([50, 100, 101, 500].map(|length| limits.max_rows(length)), [10, 10, 2, 2]);
        assert_eq!((limits.queue_items(), limits.queue_bytes()), (70, 5000));

        let unpadded = Settings { buckets: Buckets::None, ..settings }.validate().unwrap();
        assert_eq!([0, 10, 50].map(|length| unpadded.max_rows(length)), [32, 32, 20]);
    }
}
