//! The last batches that landed, in memory that never grows.
//!
//! Each has a sequence number. Whoever follows asks for what came after the last one it has, and
//! sees by the numbers whether it came too late for some.

use std::{collections::VecDeque, time::Duration};

use crate::{BatchFacts, Moment};

/// A batch that has landed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchRecord {
    /// Counts batches from 1 as they land, which may not be how they left.
    pub sequence: u64,
    /// What it was made of and why it left.
    pub facts: BatchFacts,
    /// Items in it.
    pub items: usize,
    /// Of these, how many have no result.
    pub failed: usize,
    /// Of these, how many were answered after their deadline.
    pub late: usize,
    /// What the model ran: rows times padded length, padding rows included.
    pub padded_units: u64,
    /// The part of that which was asked for.
    pub useful_units: u64,
    /// How long its items waited, on average.
    pub mean_wait: Duration,
    /// How long the one waited that waited longest.
    pub longest_wait: Duration,
    /// When it left.
    pub left: Moment,
    /// From when it left until all its items were answered.
    pub took: Duration,
}

impl BatchRecord {
    /// The share of what the model ran that was padding, from 0 to 1.
    #[must_use]
    pub fn padding_share(&self) -> f64 {
        padding_share(self.useful_units, self.padded_units)
    }
}

/// The share of what was run that nobody asked for.
#[expect(clippy::cast_precision_loss, reason = "a share is approximate")]
pub(crate) fn padding_share(useful: u64, padded: u64) -> f64 {
    if padded == 0 { 0.0 } else { 1.0 - useful as f64 / padded as f64 }
}

/// The last batches, newest last.
#[derive(Debug)]
pub(crate) struct Recent {
    records: VecDeque<BatchRecord>,
    /// Of the newest.
    sequence: u64,
}

impl Recent {
    /// How many are kept.
    const KEPT: usize = 256;

    pub(crate) fn new() -> Self {
        Self { records: VecDeque::with_capacity(Self::KEPT), sequence: 0 }
    }

    /// Notes a batch that landed, and gives it its number.
    pub(crate) fn push(&mut self, record: BatchRecord) {
        if cfg!(feature = "uncounted") {
            return;
        }
        self.sequence += 1;
        if self.records.len() == Self::KEPT {
            self.records.pop_front();
        }
        self.records.push_back(BatchRecord { sequence: self.sequence, ..record });
    }

    /// The newest, if any landed.
    pub(crate) fn newest(&self) -> Option<&BatchRecord> {
        self.records.back()
    }

    /// Those after this number, at most the newest so many, oldest first.
    pub(crate) fn after(&self, sequence: u64, most: usize) -> Vec<BatchRecord> {
        let newer = usize::try_from(self.sequence.saturating_sub(sequence)).unwrap_or(usize::MAX);
        let n = newer.min(most).min(self.records.len());
        self.records.range(self.records.len() - n..).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record() -> BatchRecord {
        BatchRecord {
            sequence: 0,
            facts: BatchFacts::NONE,
            items: 1,
            failed: 0,
            late: 0,
            padded_units: 1,
            useful_units: 1,
            mean_wait: Duration::ZERO,
            longest_wait: Duration::ZERO,
            left: Moment::START,
            took: Duration::ZERO,
        }
    }

    #[test]
    fn padding_is_what_was_run_and_not_asked_for() {
        let half = BatchRecord { padded_units: 8, useful_units: 6, ..record() };

        assert!((half.padding_share() - 0.25).abs() < 1e-9);
        assert!(padding_share(0, 0).abs() < 1e-9, "nothing was run");
    }

    proptest! {
        #[test]
        fn a_follower_sees_each_batch_once_and_in_order_unless_it_falls_behind(
            steps in prop::collection::vec((0_usize..400, 1_usize..300), 1..12),
        ) {
            let mut recent = Recent::new();
            let (mut seen, mut landed) = (0, 0_u64);
            for (n_landed, most) in steps {
                (0..n_landed).for_each(|_| recent.push(record()));
                landed += n_landed as u64;
                let news = recent.after(seen, most);

                let expected = landed.saturating_sub(seen).min(most as u64).min(Recent::KEPT as u64);
                let numbers: Vec<u64> = news.iter().map(|record| record.sequence).collect();
                prop_assert_eq!(numbers, (landed - expected + 1..=landed).collect::<Vec<_>>());
                seen = landed;
            }
        }
    }
}
