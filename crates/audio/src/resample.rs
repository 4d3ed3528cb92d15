//! Any rate to any other, as a stream.
//!
//! A windowed sinc, evaluated at exactly the right place: output `k` is the input at `k * in / out`,
//! kept as a fraction of integers, so times do not drift however long a stream lasts. Every output
//! sample is one or two dot products with rows of a table that depends on the ratio only; streams
//! share the tables ([`Filter`]), and a stream itself holds half a filter's length of input.
//!
//! Why not `rubato`, the usual choice: its sinc resampler keeps its table (128 KiB for a good one) in
//! every stream, takes input in blocks of a fixed size, which delays a live stream, adds up its
//! position in floating point, and makes up for its delay in whole samples only.

mod filter;

use crate::Sink;

use filter::Filter;

/// Changes the rate of one stream. `n` frames become `n * out / in`, rounded, whatever the chunking.
#[derive(Debug)]
pub struct Resampler {
    filter: &'static Filter,
    /// Rates divided by their common divisor.
    rate_in: u64,
    rate_out: u64,
    /// Per channel: what came in, from the first sample that the next output needs.
    held: Vec<Vec<f32>>,
    made: Vec<Vec<f32>>,
    /// Where the next output lies in `held`: at `at + rest / rate_out`, plus half the filter.
    at: usize,
    rest: u64,
    frames_in: u64,
    frames_out: u64,
}

impl Resampler {
    /// From `rate_in` to `rate_out`, both at least 1 Hz and within a factor of 24 of each other.
    #[must_use]
    pub fn new(rate_in: u32, rate_out: u32, channels: u16) -> Self {
        let divisor = u64::from(gcd(rate_in, rate_out));
        let filter = Filter::of(rate_in, rate_out);
        let n_channels = usize::from(channels);
        Self {
            filter,
            rate_in: u64::from(rate_in) / divisor,
            rate_out: u64::from(rate_out) / divisor,
            // Silence before the first sample, so that output 0 lies on it.
            held: vec![vec![0.0; filter.taps() / 2 - 1]; n_channels],
            made: vec![Vec::new(); n_channels],
            at: 0,
            rest: 0,
            frames_in: 0,
            frames_out: 0,
        }
    }

    /// Takes frames, one plane per channel, and gives what they settle.
    pub fn push(&mut self, planes: &[&[f32]], sink: &mut dyn Sink) {
        for (held, plane) in self.held.iter_mut().zip(planes) {
            held.extend_from_slice(plane);
        }
        self.frames_in += planes.first().map_or(0, |plane| plane.len() as u64);
        self.make(u64::MAX, sink);
    }

    /// Gives the rest.
    pub fn finish(&mut self, sink: &mut dyn Sink) {
        let (n, rate_in) = (u128::from(self.frames_in), u128::from(self.rate_in));
        let due = (2 * n * u128::from(self.rate_out) + rate_in) / (2 * rate_in);
        let due = u64::try_from(due).unwrap_or(u64::MAX);
        let left = due.saturating_sub(self.frames_out);
        for held in &mut self.held {
            // Silence after the last sample, as far as the last output looks.
            let room = left * self.rate_in / self.rate_out + self.filter.taps() as u64 + 2;
            held.resize(self.at + usize::try_from(room).unwrap_or(0), 0.0);
        }
        self.make(due, sink);
    }

    /// Makes outputs below `until` for as long as there is input for them.
    fn make(&mut self, until: u64, sink: &mut dyn Sink) {
        let (taps, n_held) = (self.filter.taps(), self.held.first().map_or(0, Vec::len));
        let (whole, part) = (self.rate_in / self.rate_out, self.rate_in % self.rate_out);
        let whole = usize::try_from(whole).unwrap_or(usize::MAX);
        let (mut at, mut rest, mut n_made) = (self.at, self.rest, 0);
        for (held, made) in self.held.iter().zip(&mut self.made) {
            (at, rest) = (self.at, self.rest);
            made.clear();
            while at + taps <= n_held && self.frames_out + (made.len() as u64) < until {
                made.push(self.filter.apply(&held[at..at + taps], rest, self.rate_out));
                at += whole;
                rest += part;
                if rest >= self.rate_out {
                    rest -= self.rate_out;
                    at += 1;
                }
            }
            n_made = made.len();
        }
        let done = at.min(n_held);
        for held in &mut self.held {
            held.drain(..done);
        }
        (self.at, self.rest) = (at - done, rest);
        self.frames_out += n_made as u64;
        if n_made > 0 {
            super::sink::give(&self.made, sink);
        }
    }
}

const fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests;
