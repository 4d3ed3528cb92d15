//! One batch that has landed.

use std::time::Duration;

use paceline_batch::BatchRecord;
use serde::Serialize;

use super::micros;

/// One batch that has landed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BatchView {
    /// Counts a model's batches as they land. Whoever follows asks for what is after the last it
    /// has; a gap means that it was too slow for some.
    pub sequence: u64,
    /// The number that `ride` gives.
    pub batch: u64,
    /// Why it left.
    pub fired: &'static str,
    /// Items in it.
    pub items: usize,
    /// Their rows.
    pub rows: usize,
    /// Rows that the model ran.
    pub padded_rows: usize,
    /// The length that shorter items were padded to; 0 where lengths do not count.
    pub padded_length: u32,
    /// The length bucket that its items are of.
    pub bucket: usize,
    /// The share of what the model ran that was padding, from 0 to 1.
    pub padding_share: f64,
    /// Items without a result.
    pub failed: usize,
    /// Items that were answered after their deadline.
    pub late: usize,
    /// How long its items waited, on average.
    pub mean_wait_us: f64,
    /// How long the one waited that waited longest.
    pub longest_wait_us: f64,
    /// From when it left until it landed.
    pub took_us: f64,
    /// How long its call was expected to take, where that could be told.
    pub predicted_us: Option<f64>,
    /// When it left, in seconds since its model was loaded; `age_s` of the answer is now.
    pub left_s: f64,
}

impl From<&BatchRecord> for BatchView {
    fn from(record: &BatchRecord) -> Self {
        let facts = &record.facts;
        Self {
            sequence: record.sequence,
            batch: facts.number,
            fired: facts.fired.as_str(),
            items: record.items,
            rows: facts.rows,
            padded_rows: facts.padded_rows,
            padded_length: facts.padded_length,
            bucket: facts.bucket,
            padding_share: record.padding_share(),
            failed: record.failed,
            late: record.late,
            mean_wait_us: micros(record.mean_wait),
            longest_wait_us: micros(record.longest_wait),
            took_us: micros(record.took),
            predicted_us: facts.predicted.map(micros),
            left_s: Duration::from_nanos(record.left.as_nanos()).as_secs_f64(),
        }
    }
}
