//! What synthesis did so far.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use paceline_batch::{Histogram, Stats};

use super::playback::Playback;

/// What synthesis did so far. Times are in nanoseconds.
#[derive(Debug, Clone, Default)]
pub struct SynthesisStats {
    /// Listeners now.
    pub listening: usize,
    /// Requests that were taken.
    pub started: u64,
    /// Of these, those that heard everything.
    pub finished: u64,
    /// Those whose client left before.
    pub cancelled: u64,
    /// Those that ended with an error.
    pub failed: u64,
    /// Requests that were not taken because as many listened as may.
    pub refused: u64,
    /// Tokens that token models gave.
    pub tokens: u64,
    /// Chunks that were handed over.
    pub chunks: u64,
    /// Sound that was handed over.
    pub sound: Duration,
    /// From a request to its first token.
    pub first_token: Histogram,
    /// From a request to its first sound.
    pub first_chunk: Histogram,
    /// From one chunk to the next.
    pub between_chunks: Histogram,
    /// From when a chunk was asked for until the vocoder gave it, waiting included.
    pub chunk_latency: Histogram,
    /// Time a request took over how long its sound lasts, in thousandths.
    pub real_time_factor: Histogram,
    /// How often a listener heard a gap.
    pub gaps: u64,
    /// For how long, in all.
    pub silence: Duration,
    /// Listeners, of those that ended well, who heard none.
    pub gap_free: u64,
    /// What the batchers did, by model: sizes, waits, why batches left, totals.
    pub batchers: Vec<(String, Stats)>,
}

/// The same while it is counted.
#[derive(Debug, Default)]
pub(crate) struct Counts(Mutex<SynthesisStats>);

impl Counts {
    pub(crate) fn change(&self, change: impl FnOnce(&mut SynthesisStats)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(crate) fn read(&self) -> SynthesisStats {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl SynthesisStats {
    /// Somebody has heard everything after so long.
    pub(crate) fn finish(&mut self, playback: &Playback, took: Duration) {
        self.finished += 1;
        self.gap_free += u64::from(playback.gaps == 0);
        let factor = took.as_secs_f64() / playback.sound.as_secs_f64().max(1e-9) * 1000.0;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "float casts saturate, and a share of times is not negative"
        )]
        self.real_time_factor.record(factor as u64);
    }
}

pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_took_a_quarter_of_its_sound_has_250_thousandths() {
        let mut stats = SynthesisStats::default();
        let heard = |gaps| {
            let mut heard = Playback::default();
            (heard.gaps, heard.sound) = (gaps, Duration::from_secs(8));
            heard
        };

        stats.finish(&heard(0), Duration::from_secs(2));
        stats.finish(&heard(1), Duration::from_secs(2));

        assert_eq!((stats.finished, stats.gap_free), (2, 1));
        assert_eq!((stats.real_time_factor.count(), stats.real_time_factor.sum()), (2, 500));
    }
}
