//! The batches that have landed, of all models in one line, as they travel.

use std::{cmp::Reverse, time::Duration};

use paceline_batch::{BatchRecord, FireReason};
use paceline_pipeline::Model;
use serde::Serialize;

/// Most of one model, and of all together, that are told one by one. Gaps in the sequence numbers
/// say how many are not.
const MOST_OF_ONE: usize = 64;
const MOST: usize = 192;

/// A batch that has landed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Landed {
    /// Which of the last snapshot's models.
    at: usize,
    /// Counts the model's batches as they land.
    pub(super) sequence: u64,
    /// Which of [`FireReason::ALL`].
    fired: usize,
    items: usize,
    rows: usize,
    failed: usize,
    late: usize,
    /// The longest that one of its items waited.
    wait_us: u64,
    took_us: u64,
    /// The share of what the model ran that was padding, in percent.
    padding: u8,
    #[serde(skip)]
    ago: Duration,
}

impl Landed {
    /// The batches of a model that landed after this number; it is the so-many-th of all models.
    pub(super) fn after(at: usize, model: &Model, sequence: u64) -> Vec<Self> {
        let age = model.age();
        let landed = model.landed_after(sequence, MOST_OF_ONE);
        landed.iter().map(|record| Self::of(at, record, age)).collect()
    }

    fn of(at: usize, record: &BatchRecord, age: Duration) -> Self {
        let left = Duration::from_nanos(record.left.as_nanos());
        let reason = record.facts.fired;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share is between 0 and 1"
        )]
        let padding = (record.padding_share() * 100.0).round() as u8;
        Self {
            at,
            sequence: record.sequence,
            fired: FireReason::ALL.iter().position(|one| *one == reason).unwrap_or(0),
            items: record.items,
            rows: record.facts.rows,
            failed: record.failed,
            late: record.late,
            wait_us: micros(record.longest_wait),
            took_us: micros(record.took),
            padding,
            ago: age.saturating_sub(left + record.took),
        }
    }
}

/// Those of all models as they landed, the newest of them where there are many.
pub(super) fn in_line(of_each: impl IntoIterator<Item = Vec<Landed>>) -> Vec<Landed> {
    let mut all: Vec<Landed> = of_each.into_iter().flatten().collect();
    all.sort_by_key(|landed| Reverse(landed.ago));
    all.drain(..all.len().saturating_sub(MOST));
    all
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::live) fn landed(at: usize, sequence: u64, ago_ms: u64) -> Landed {
        let (items, rows, wait_us, took_us) = (1, 1, 1, 1);
        let (fired, failed, late, padding) = (0, 0, 0, 0);
        let ago = Duration::from_millis(ago_ms);
        Landed { at, sequence, fired, items, rows, failed, late, wait_us, took_us, padding, ago }
    }

    #[test]
    fn batches_of_all_models_stand_in_one_line_and_the_newest_are_told() {
        let of = |at, first| (0..150).map(|n| landed(at, n, 300 - 2 * n - first)).collect();
        let line = in_line([of(0, 0), of(1, 1)]);

        assert_eq!(line.len(), MOST);
        assert!(line.windows(2).all(|two| two[0].ago > two[1].ago && two[0].at != two[1].at));
        assert_eq!(line.last().map(|landed| (landed.at, landed.sequence)), Some((1, 149)));
    }
}
