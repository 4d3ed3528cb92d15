//! The audio that may still be needed: a window that slides over a stream.
//!
//! In silence it is kept only because somebody may turn out to have begun to speak. Where it is
//! 16-bit audio, as that of most streams is, it is kept as such until then: half the memory, and
//! not one bit of it is changed.

use std::{collections::VecDeque, ops::Range};

use super::index_of as index;

/// Room for so many samples is kept whether it is needed or not: what is short of a frame.
const ROOM: usize = 512;

/// Samples from `start` to `end`, counted from the beginning of the stream.
#[derive(Debug, Default)]
pub(super) struct Tape {
    /// The first of them, where they were packed.
    packed: VecDeque<i16>,
    samples: VecDeque<f32>,
    start: u64,
    /// There is something before this that is not 16-bit audio.
    unpackable: u64,
}

impl Tape {
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    pub(super) fn end(&self) -> u64 {
        self.start + (self.packed.len() + self.samples.len()) as u64
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
        let n_gone = index(until - self.start);
        let n_packed = n_gone.min(self.packed.len());
        self.packed.drain(..n_packed);
        self.samples.drain(..n_gone - n_packed);
        self.start = until;
    }

    /// Keeps what is before `until` in as little memory as it can be kept in.
    pub(super) fn pack(&mut self, until: u64) {
        if self.start < self.unpackable {
            return self.tighten(until);
        }
        let n_packed = index(until.clamp(self.start, self.end()) - self.start);
        let n_more = n_packed.saturating_sub(self.packed.len());
        if self.samples.range(..n_more).all(|&sample| to_i16(sample).is_some()) {
            self.packed.reserve_exact(n_more);
            self.packed.extend(self.samples.drain(..n_more).filter_map(to_i16));
        } else {
            self.unpackable = until;
            self.unpack();
        }
        self.tighten(until);
    }

    /// Gives back what a burst or a long utterance took, once all of it is packed that can be.
    fn tighten(&mut self, until: u64) {
        let needed = self.samples.len().max(ROOM);
        let is_settled = self.end() < until + ROOM as u64;
        if is_settled && needed + ROOM / 2 < self.samples.capacity() {
            self.samples.shrink_to(needed);
        }
    }

    /// Makes all of it samples again, which is what [`slices`](Self::slices) needs.
    pub(super) fn unpack(&mut self) {
        let packed = std::mem::take(&mut self.packed);
        if packed.is_empty() {
            return;
        }
        let mut samples = VecDeque::with_capacity(packed.len() + self.samples.len());
        samples.extend(packed.into_iter().map(to_f32));
        samples.append(&mut self.samples);
        self.samples = samples;
    }

    /// What is in a range, which must lie within the tape and not be packed, in one or two pieces.
    pub(super) fn slices(&self, range: Range<u64>) -> [&[f32]; 2] {
        let begin = self.start + self.packed.len() as u64;
        let (from, to) = (index(range.start - begin), index(range.end - begin));
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

    /// Bytes that it holds.
    #[cfg(test)]
    pub(super) fn n_bytes(&self) -> usize {
        self.packed.capacity() * 2 + self.samples.capacity() * 4
    }
}

/// What 16-bit audio is as samples.
fn to_f32(sample: i16) -> f32 {
    f32::from(sample) / 32_768.0
}

/// The 16-bit audio that a sample is, to the last bit.
fn to_i16(sample: f32) -> Option<i16> {
    #[expect(clippy::cast_possible_truncation, reason = "compared with what it was")]
    let whole = (sample * 32_768.0) as i16;
    (to_f32(whole).to_bits() == sample.to_bits()).then_some(whole)
}
