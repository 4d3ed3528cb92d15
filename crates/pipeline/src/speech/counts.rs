//! What happened to all streams so far, in memory that never grows.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) rounds: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) samples: AtomicU64,
    pub(super) segments: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) superseded: AtomicU64,
    pub(super) cancelled: AtomicU64,
    pub(super) decode_ns: AtomicU64,
    pub(super) judged: AtomicU64,
    pub(super) model_ns: AtomicU64,
    pub(super) model_samples: AtomicU64,
}

/// How long a stage worked, and on how much audio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stage {
    /// Nanoseconds of work.
    pub nanos: u64,
    /// Samples, over all channels.
    pub samples: u64,
}

impl Stage {
    /// How long it worked.
    #[must_use]
    pub const fn busy_seconds(&self) -> f64 {
        Duration::from_nanos(self.nanos).as_secs_f64()
    }
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
    /// From bytes to samples.
    pub decode: Stage,
    /// Samples that voice detection got.
    pub judged: u64,
    /// The share that segments had of calls of models.
    pub model: Stage,
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
            decode: Stage {
                nanos: self.decode_ns.load(Relaxed),
                samples: self.samples.load(Relaxed),
            },
            judged: self.judged.load(Relaxed),
            model: Stage {
                nanos: self.model_ns.load(Relaxed),
                samples: self.model_samples.load(Relaxed),
            },
        }
    }
}
