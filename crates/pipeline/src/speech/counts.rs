//! What happened to all streams so far, in memory that never grows.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) rounds: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) samples: AtomicU64,
    pub(super) segments: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) superseded: AtomicU64,
    pub(super) cancelled: AtomicU64,
}

/// Counts since the server began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SpeechStats {
    /// Streams that are open now.
    pub streams: usize,
    /// Rounds that were begun.
    pub rounds: u64,
    /// Streams for which there was no place.
    pub refused: u64,
    /// Samples that were taken in, over all channels.
    pub samples: u64,
    /// Segments with a result.
    pub segments: u64,
    /// Segments without one.
    pub failed: u64,
    /// Interim segments that were withdrawn because the final one was there.
    pub superseded: u64,
    /// Segments that were withdrawn because their client had left.
    pub cancelled: u64,
}

impl Counts {
    pub(super) fn read(&self, streams: usize) -> SpeechStats {
        SpeechStats {
            streams,
            rounds: self.rounds.load(Relaxed),
            refused: self.refused.load(Relaxed),
            samples: self.samples.load(Relaxed),
            segments: self.segments.load(Relaxed),
            failed: self.failed.load(Relaxed),
            superseded: self.superseded.load(Relaxed),
            cancelled: self.cancelled.load(Relaxed),
        }
    }
}
