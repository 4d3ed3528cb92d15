//! What happened so far, in memory that never grows.

use std::time::Duration;

use crate::{
    FireReason, Histogram, Moment, Refused,
    error::Dropped,
    moment::nanos,
    recent::{BatchRecord, padding_share},
    scheduler::BatchFacts,
};

/// Counts and distributions since the batcher was made. Two batchers' can be added up.
#[derive(Debug, Clone, Default)]
pub struct Stats {
    /// Items taken in.
    pub accepted: u64,
    /// Items refused because there was no room.
    pub refused_full: u64,
    /// Items refused because no answer was possible within their deadline.
    pub refused_hopeless: u64,
    /// Items refused because no batch could ever hold them.
    pub refused_too_large: u64,
    /// Items refused because the batcher was closed.
    pub refused_closed: u64,
    /// Items that left the queue without a call, by reason, in the order of [`Dropped::ALL`].
    pub dropped: [u64; Dropped::ALL.len()],
    /// Batches by why they left, in the order of [`FireReason::ALL`].
    pub batches: [u64; 6],
    /// Batches that failed or whose executor went.
    pub failed_calls: u64,
    /// Items that left in a batch and have no result.
    pub failed: u64,
    /// Items that were answered after their deadline.
    pub late: u64,
    /// Rows of each batch; of a model that works in steps, those on board at each step.
    pub batch_rows: Histogram,
    /// Nanoseconds that each item waited.
    pub wait: Histogram,
    /// Nanoseconds that each good call took.
    pub execution: Histogram,
    /// Actual over predicted time of each good call, in thousandths.
    pub prediction: Histogram,
    /// What the model ran: rows times padded length, padding rows included.
    pub padded_units: u64,
    /// The part of that which was asked for.
    pub useful_units: u64,
    /// Items that wait now.
    pub waiting_items: usize,
    /// Memory that they hold.
    pub waiting_bytes: usize,
    /// Batches being worked on now.
    pub in_flight: usize,
    pub(crate) n_batches: u64,
    /// Whether steps are counted as batches, and not the items that ride through them one by one.
    pub(crate) counts_steps: bool,
}

impl Stats {
    /// Batches that left for this reason.
    #[must_use]
    pub const fn batches_fired(&self, reason: FireReason) -> u64 {
        self.batches[reason as usize]
    }

    /// Items that left the queue without a call for this reason.
    #[must_use]
    pub const fn items_dropped(&self, reason: Dropped) -> u64 {
        self.dropped[reason as usize]
    }

    /// Items that were refused, by reason as written in metrics.
    #[must_use]
    pub const fn refused_by_reason(&self) -> [(&'static str, u64); 4] {
        [
            ("queue_full", self.refused_full),
            ("hopeless", self.refused_hopeless),
            ("too_large", self.refused_too_large),
            ("closed", self.refused_closed),
        ]
    }

    /// Items that missed their deadline, wherever they were when they did.
    #[must_use]
    pub const fn deadline_misses(&self) -> u64 {
        self.refused_hopeless
            + self.items_dropped(Dropped::Expired)
            + self.items_dropped(Dropped::TooLate)
            + self.late
    }

    /// The share of what the model ran that was padding, from 0 to 1.
    #[must_use]
    pub fn padding_share(&self) -> f64 {
        padding_share(self.useful_units, self.padded_units)
    }

    /// Adds what another batcher counted.
    pub fn merge(&mut self, other: &Self) {
        self.accepted += other.accepted;
        self.refused_full += other.refused_full;
        self.refused_hopeless += other.refused_hopeless;
        self.refused_too_large += other.refused_too_large;
        self.refused_closed += other.refused_closed;
        self.dropped.iter_mut().zip(other.dropped).for_each(|(sum, more)| *sum += more);
        self.batches.iter_mut().zip(other.batches).for_each(|(sum, more)| *sum += more);
        self.failed_calls += other.failed_calls;
        self.failed += other.failed;
        self.late += other.late;
        self.batch_rows.merge(&other.batch_rows);
        self.wait.merge(&other.wait);
        self.execution.merge(&other.execution);
        self.prediction.merge(&other.prediction);
        self.padded_units += other.padded_units;
        self.useful_units += other.useful_units;
        self.waiting_items += other.waiting_items;
        self.waiting_bytes += other.waiting_bytes;
        self.in_flight += other.in_flight;
        self.n_batches += other.n_batches;
    }

    pub(crate) fn refused(&mut self, refused: &Refused) {
        *match refused {
            Refused::QueueFull(_) | Refused::QueueBytesFull(_) => &mut self.refused_full,
            Refused::Hopeless => &mut self.refused_hopeless,
            Refused::Closed => &mut self.refused_closed,
            Refused::TooManyRows { .. }
            | Refused::TooCostly { .. }
            | Refused::TooManyBytes { .. } => &mut self.refused_too_large,
        } += 1;
    }

    pub(crate) fn dropped(&mut self, reason: Dropped) {
        self.dropped[reason as usize] += 1;
    }

    /// Counts a batch that leaves, and gives what is known of it so far.
    pub(crate) fn fired(
        &mut self,
        facts: BatchFacts,
        waits: impl Iterator<Item = Duration>,
        lengths: u64,
        now: Moment,
    ) -> BatchRecord {
        self.batches[facts.fired as usize] += 1;
        if !self.counts_steps {
            self.batch_rows.record(facts.rows as u64);
        }
        let (mut items, mut sum, mut longest) = (0_u32, Duration::ZERO, Duration::ZERO);
        for wait in waits {
            self.wait.record(nanos(wait));
            items += 1;
            sum += wait;
            longest = longest.max(wait);
        }
        // Without lengths every row counts as one.
        let (useful_units, length) = match facts.padded_length {
            0 => (facts.rows as u64, 1),
            length => (lengths, u64::from(length)),
        };
        let padded_units = facts.padded_rows as u64 * length;
        self.useful_units = self.useful_units.wrapping_add(useful_units);
        self.padded_units = self.padded_units.wrapping_add(padded_units);
        BatchRecord {
            sequence: 0,
            facts,
            items: items as usize,
            failed: 0,
            late: 0,
            padded_units,
            useful_units,
            mean_wait: sum / items.max(1),
            longest_wait: longest,
            left: now,
            took: Duration::ZERO,
        }
    }

    pub(crate) fn executed(&mut self, took: Duration, ratio: Option<f32>) {
        self.execution.record(nanos(took));
        if let Some(ratio) = ratio {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "float casts saturate, and a ratio is not negative"
            )]
            self.prediction.record((ratio * 1000.0) as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// One in which everything was counted three times.
    fn thrice() -> Stats {
        let mut histogram = Histogram::default();
        (0..3).for_each(|_| histogram.record(3));
        Stats {
            accepted: 3,
            refused_full: 3,
            refused_hopeless: 3,
            refused_too_large: 3,
            refused_closed: 3,
            dropped: [3; Dropped::ALL.len()],
            batches: [3; 6],
            failed_calls: 3,
            failed: 3,
            late: 3,
            batch_rows: histogram.clone(),
            wait: histogram.clone(),
            execution: histogram.clone(),
            prediction: histogram,
            padded_units: 12,
            useful_units: 3,
            waiting_items: 3,
            waiting_bytes: 3,
            in_flight: 3,
            n_batches: 3,
            counts_steps: false,
        }
    }

    #[test]
    fn two_batchers_add_up_in_everything_that_is_counted() {
        let mut sum = thrice();

        sum.merge(&thrice());

        let doubled = format!("{:?}", thrice()).replace('3', "6").replace("12", "24");
        // What was counted is still a three.
        assert_eq!(format!("{sum:?}"), doubled.replace("{6: 6}", "{3: 6}"));
        assert_eq!(sum.refused_by_reason().map(|(_, count)| count), [6; 4]);
        assert_eq!(sum.deadline_misses(), 24);
        assert!((sum.padding_share() - 0.75).abs() < 1e-9);
    }

    #[test]
    fn reasons_are_written_in_metrics_as_they_always_were() {
        let stats = Stats { refused_hopeless: 5, ..Stats::default() };

        assert_eq!(
            stats.refused_by_reason(),
            [("queue_full", 0), ("hopeless", 5), ("too_large", 0), ("closed", 0)]
        );
    }

    #[test]
    fn a_batch_is_counted_by_its_rows_its_waits_and_what_it_pads() {
        let facts = BatchFacts { rows: 3, padded_rows: 4, padded_length: 10, ..BatchFacts::NONE };
        let mut stats = Stats::default();

        let record = stats.fired(facts, [MS, 3 * MS].into_iter(), 25, Moment::START);

        assert_eq!((record.items, record.mean_wait, record.longest_wait), (2, 2 * MS, 3 * MS));
        assert_eq!((record.useful_units, record.padded_units), (25, 40));
        assert_eq!((stats.wait.count(), stats.wait.sum()), (2, 4_000_000));
        assert_eq!((stats.batch_rows.count(), stats.batch_rows.sum()), (1, 3));
        assert_eq!(stats.batches_fired(facts.fired), 1);
        assert_eq!(stats.batches_fired(FireReason::Drain), 0);

        let unmeasured = BatchFacts { padded_length: 0, ..facts };
        let record = stats.fired(unmeasured, [MS].into_iter(), 0, Moment::START);
        assert_eq!((record.useful_units, record.padded_units), (3, 4), "a row counts as one");
        assert_eq!((stats.useful_units, stats.padded_units), (28, 44));

        stats.executed(2 * MS, Some(1.5));
        stats.executed(2 * MS, None);
        assert_eq!((stats.execution.count(), stats.execution.sum()), (2, 4_000_000));
        assert_eq!((stats.prediction.count(), stats.prediction.sum()), (1, 1500));
    }
}
