//! The audio that may still be needed: a window that slides over a stream.

use std::{collections::VecDeque, ops::Range};

use super::index_of as index;

/// Room for so many samples is kept whether it is needed or not.
const BURST: usize = 16 << 10;

/// Samples from `start` to `end`, counted from the beginning of the stream.
#[derive(Debug, Default)]
pub(super) struct Tape {
    samples: VecDeque<f32>,
    start: u64,
}

impl Tape {
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    pub(super) fn end(&self) -> u64 {
        self.start + self.samples.len() as u64
    }

    /// Appends. `is_growing` says that it is going to be long, and room is then made ahead.
    pub(super) fn push(&mut self, samples: &[f32], is_growing: bool) {
        if is_growing {
            self.samples.reserve(samples.len());
        } else {
            self.samples.reserve_exact(samples.len());
        }
        self.samples.extend(samples);
    }

    /// Forgets what is before `until`.
    pub(super) fn forget(&mut self, until: u64) {
        let until = until.clamp(self.start, self.end());
        self.samples.drain(..index(until - self.start));
        self.start = until;
        // A burst leaves room behind that a stream in silence never needs again.
        if BURST < self.samples.capacity() && 2 * self.samples.len() < self.samples.capacity() {
            self.shrink();
        }
    }

    /// Gives back what a long utterance took.
    pub(super) fn shrink(&mut self) {
        self.samples.shrink_to_fit();
    }

    /// What is in a range, which must lie within the tape, in one or two pieces.
    pub(super) fn slices(&self, range: Range<u64>) -> [&[f32]; 2] {
        let (from, to) = (index(range.start - self.start), index(range.end - self.start));
        let (first, second) = self.samples.as_slices();
        let middle = first.len();
        [
            &first[from.min(middle)..to.min(middle)],
            &second[from.saturating_sub(middle)..to.saturating_sub(middle)],
        ]
    }

    pub(super) fn copy(&self, range: Range<u64>) -> Vec<f32> {
        self.slices(range).concat()
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.samples.capacity()
    }
}
