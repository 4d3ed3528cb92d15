//! How often to read and how much to ask for. Pure.
//!
//! A blocked reader is woken by the first entry and gets that one alone, so blocking is for idle
//! times only; a busy reader waits a little and takes what has gathered. `COUNT` counts per stream,
//! not per command, so it is found from what a reply may weigh.

use std::time::Duration;

/// Most entries asked of one stream at once.
const MAX_COUNT: usize = 256;
/// How many frames of each stream are waited for: asking a stream costs Redis as much as a frame of it,
/// and so does committing into one, so with two of each that is half of what it would be with one.
const EACH: usize = 2;
/// Longest pause between reads that find fewer. It is part of every frame's latency.
const MAX_LINGER: Duration = Duration::from_millis(16);
/// After so long without a frame a reader blocks.
const IDLE_AFTER: Duration = Duration::from_millis(100);

/// What a reader does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Reads after this long.
    Wait(Duration),
    /// Has been idle: lets Redis wake it.
    Block,
}

/// One reader's pace.
#[derive(Debug, Clone)]
pub(crate) struct Pace {
    linger: Duration,
    idle: Duration,
    mean_bytes: f64,
}

impl Pace {
    /// A pace that lingers so long between reads that found some frames.
    pub(crate) const fn new(linger: Duration) -> Self {
        Self { linger, idle: Duration::ZERO, mean_bytes: 1024.0 }
    }

    /// How many entries to ask of each of `streams` streams for a reply of about `bytes` and at
    /// most `frames`.
    pub(crate) fn count(&self, streams: usize, bytes: usize, frames: usize) -> usize {
        let streams = streams.max(1);
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let by_bytes = bytes as f64 / (streams as f64 * self.mean_bytes);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "clamped right after"
        )]
        let by_bytes = by_bytes as usize;
        by_bytes.min(frames / streams).clamp(1, MAX_COUNT)
    }

    /// How many streams may be asked for one entry each for a reply of about `bytes`.
    pub(crate) fn streams(&self, bytes: usize) -> usize {
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "an estimate, never below 1"
        )]
        let streams = (bytes as f64 / self.mean_bytes) as usize;
        streams.max(1)
    }

    /// Learns what frames weigh.
    pub(crate) fn weighed(&mut self, frames: usize, bytes: usize) {
        if frames == 0 {
            return;
        }
        let mean = ratio(bytes, frames);
        // Grows at once, since too small an estimate makes replies too large; shrinks slowly.
        let share = if self.mean_bytes < mean { 1.0 } else { 0.1 };
        self.mean_bytes = (self.mean_bytes + (mean - self.mean_bytes) * share).max(1.0);
    }

    /// Learns from a reply that came `waited` after the one before.
    pub(crate) fn after(&mut self, reply: Reply, waited: Duration) -> Step {
        let longest = MAX_LINGER.max(self.linger);
        if reply.frames == 0 {
            self.idle += waited.max(Duration::from_millis(1));
            return if self.idle < IDLE_AFTER { Step::Wait(longest) } else { Step::Block };
        }
        self.idle = Duration::ZERO;
        self.weighed(reply.frames, reply.bytes);
        if reply.is_full {
            return Step::Wait(Duration::ZERO);
        }
        let some_each = waited.mul_f64(ratio(EACH * reply.streams, reply.frames));
        Step::Wait(some_each.clamp(self.linger, longest))
    }
}

fn ratio(a: usize, b: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    let ratio = a as f64 / b as f64;
    ratio
}

/// What a read brought.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Reply {
    /// Streams that were asked.
    pub(crate) streams: usize,
    /// Frames that came.
    pub(crate) frames: usize,
    /// What they weigh together.
    pub(crate) bytes: usize,
    /// A stream gave all that was asked for, so that more may be there.
    pub(crate) is_full: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LINGER: Duration = Duration::from_millis(5);

    #[test]
    fn only_an_idle_reader_blocks() {
        let mut pace = Pace::new(LINGER);
        let mut steps = Vec::new();
        while steps.last() != Some(&Step::Block) {
            steps.push(pace.after(Reply::default(), MAX_LINGER));
        }

        assert_eq!(steps.len(), 7);
        let some = Reply { streams: 4, frames: 9, bytes: 900, is_full: false };
        assert_eq!(pace.after(some, LINGER), Step::Wait(LINGER));
    }

    #[test]
    fn a_reader_waits_for_two_frames_of_each_stream_and_not_for_long() {
        let mut pace = Pace::new(LINGER);
        let mut after = |streams, frames, is_full| {
            pace.after(Reply { streams, frames, bytes: 100 * frames, is_full }, LINGER)
        };

        assert_eq!(after(10, 20, false), Step::Wait(LINGER));
        assert_eq!(after(10, 10, false), Step::Wait(2 * LINGER));
        assert_eq!(after(10, 40, false), Step::Wait(LINGER));
        assert_eq!(after(200, 10, false), Step::Wait(MAX_LINGER));
        assert_eq!(after(200, 10, true), Step::Wait(Duration::ZERO));
    }

    #[test]
    fn a_reply_is_asked_for_by_what_frames_weigh_and_no_more_than_may_come() {
        let pace = Pace::new(LINGER);

        // A frame is taken to weigh 1 KiB.
        assert_eq!(pace.count(4, 40 * 1024, 1000), 10);
        assert_eq!(pace.count(4, 40 * 1024, 12), 3);
        assert_eq!(pace.count(4, 100, 0), 1, "or nothing would ever come");
        assert_eq!(pace.count(1, usize::MAX, usize::MAX), MAX_COUNT);
        assert_eq!((pace.streams(40 * 1024), pace.streams(0)), (40, 1));
    }

    #[test]
    fn heavier_frames_are_believed_at_once_and_lighter_ones_slowly() {
        let mut pace = Pace::new(LINGER);
        pace.weighed(2, 8 * 1024);
        assert_eq!(pace.streams(40 * 1024), 10);

        pace.weighed(2, 4 * 1024);
        assert!((pace.mean_bytes - 1024.0 * 3.8).abs() < 0.01, "{}", pace.mean_bytes);
    }

    proptest! {
        #[test]
        fn a_reply_stays_within_its_budget_once_the_size_is_known(
            frame in 1_usize..1_000_000, streams in 1_usize..64)
        {
            let mut pace = Pace::new(LINGER);
            for _ in 0..200 {
                pace.weighed(1, frame);
            }
            let count = pace.count(streams, 1 << 20, 10_000);
            prop_assert!(count == 1 || count * streams * frame <= (1 << 20) + (1 << 17));
            prop_assert!((1..=MAX_COUNT).contains(&count));
        }
    }
}
