//! The spectrum of a frame: four overlapping windows, the size of each of their frequencies.
//!
//! The model has this as a convolution with a Fourier basis under a Hann window, 39 % of all its
//! arithmetic. A Fourier transform of real numbers folds twice: samples at the same distance from
//! the middle have the same cosines and opposite sines, and the same holds again, by even and odd
//! frequencies, around a quarter. That leaves a quarter of the products and is still plain dense
//! layers. (A fast transform would leave less, and would cost more in shuffling than it saves at
//! this size.)

use std::f64::consts::TAU;

use paceline_simd::{Dense, Job, LANES, Rows, Simd, Then};

use super::Rate;

/// Windows in a frame.
pub(super) const WINDOWS: usize = 4;

/// The transform for one rate. With `q` a quarter of a window, it has `2 q + 1` frequencies.
#[derive(Debug)]
pub(super) struct Fourier {
    quarter: usize,
    /// The Hann window up to its middle.
    hann: Vec<f32>,
    even_cosines: Dense,
    odd_cosines: Dense,
    even_sines: Dense,
    odd_sines: Dense,
}

/// Room for what a stream's frame becomes on the way, at the larger rate.
const FOLDED: usize = 68;
/// Folded windows, for each of the four layers.
pub(super) const FOLDS: usize = WINDOWS * FOLDED;
/// Sums of a layer: one vector more than a quarter, for the last even cosine.
const SUMS: usize = 80;
pub(super) const PARTS: usize = WINDOWS * SUMS;

/// Where a transform works.
#[derive(Debug)]
pub(super) struct Workspace {
    folds: [Vec<f32>; 4],
    sums: [Vec<f32>; 4],
}

impl Workspace {
    pub(super) fn new(n_streams: usize) -> Self {
        let zeros = |n: usize| std::array::from_fn(|_| vec![0.0; n_streams * n]);
        Self { folds: zeros(FOLDS), sums: zeros(PARTS) }
    }
}

impl Fourier {
    pub(super) fn new(rate: Rate) -> Self {
        let window = rate.frame() / 2;
        let quarter = window / 4;
        #[expect(clippy::cast_precision_loss, reason = "small whole numbers")]
        let angle = |product: usize| TAU * (product % window) as f64 / window as f64;
        #[expect(clippy::cast_possible_truncation, reason = "rounded once, here")]
        let round = |number: f64| number as f32;
        let layer = |n_inputs, n_outputs, value: &dyn Fn(usize, usize) -> f64| {
            Dense::pack(n_inputs, n_outputs, |_| 0.0, |output, input| round(value(output, input)))
        };
        // Sines begin with the first sample, since that of the sample before it is zero.
        Self {
            quarter,
            hann: (0..=window / 2).map(|at| round(0.5 - 0.5 * angle(at).cos())).collect(),
            even_cosines: layer(quarter + 1, quarter + 1, &|k, n| angle(2 * k * n).cos()),
            odd_cosines: layer(quarter, quarter, &|k, n| angle((2 * k + 1) * n).cos()),
            even_sines: layer(quarter - 1, quarter, &|k, n| angle(2 * k * (n + 1)).sin()),
            odd_sines: layer(quarter, quarter, &|k, n| angle((2 * k + 1) * (n + 1)).sin()),
        }
    }

    /// How many frequencies it has.
    pub(super) fn n_bins(&self) -> usize {
        2 * self.quarter + 1
    }

    /// Which frequency is at a place of the spectrum: the even ones but the last, the odd ones,
    /// the last.
    pub(super) fn bin_at(&self, at: usize) -> usize {
        match at {
            at if at < self.quarter => 2 * at,
            at if at < 2 * self.quarter => 2 * (at - self.quarter) + 1,
            _ => 2 * self.quarter,
        }
    }

    /// Folds the windows of a stream's frame.
    pub(super) fn fold(&self, frame: &[f32], stream: usize, work: &mut Workspace) {
        let (quarter, half) = (self.quarter, 2 * self.quarter);
        let [cosines_even, cosines_odd, sines_even, sines_odd] = &mut work.folds;
        for time in 0..WINDOWS {
            let window = &frame[time * half..][..2 * half];
            let place = stream * FOLDS + time * FOLDED..stream * FOLDS + (time + 1) * FOLDED;
            let cosines_even = &mut cosines_even[place.clone()][..=quarter];
            let cosines_odd = &mut cosines_odd[place.clone()][..quarter];
            let sines_even = &mut sines_even[place.clone()][..quarter - 1];
            let sines_odd = &mut sines_odd[place][..quarter];
            // What is at this distance from the ends, both sides of the middle.
            let at = |n: usize| (window[n], window[2 * half - n]);
            let hann = |n: usize| self.hann[n];
            cosines_even[0] = hann(half) * window[half];
            cosines_odd[0] = -cosines_even[0];
            for n in 1..quarter {
                let ((a, b), (c, d)) = (at(n), at(half - n));
                let (near, far) = (hann(n), hann(half - n));
                let (outer, inner) = (near * (a + b), far * (c + d));
                cosines_even[n] = outer + inner;
                cosines_odd[n] = outer - inner;
                let (outer, inner) = (near * (a - b), far * (c - d));
                sines_even[n - 1] = outer - inner;
                sines_odd[n - 1] = outer + inner;
            }
            let (a, b) = at(quarter);
            cosines_even[quarter] = hann(quarter) * (a + b);
            sines_odd[quarter - 1] = hann(quarter) * (a - b);
        }
    }

    /// The spectra of folded windows, each stream's where `to_rows` says.
    #[inline(always)]
    pub(super) fn spectra<S: Simd>(
        &self,
        simd: S,
        n_streams: usize,
        work: &mut Workspace,
        (to, to_rows): (&mut [f32], Rows),
    ) {
        let layers = [&self.even_cosines, &self.odd_cosines, &self.even_sines, &self.odd_sines];
        for ((layer, from), to) in layers.into_iter().zip(&work.folds).zip(&mut work.sums) {
            let mut job = Job {
                layer,
                n_streams,
                n_times: WINDOWS,
                from,
                from_rows: Rows { first: 0, per_stream: FOLDS, per_time: FOLDED },
                to,
                to_rows: Rows { first: 0, per_stream: PARTS, per_time: SUMS },
                then: Then::Keep,
            };
            simd.dense(&mut job);
        }
        let quarter = self.quarter;
        let [cosines_even, cosines_odd, sines_even, sines_odd] = &work.sums;
        for row in 0..n_streams * WINDOWS {
            let (stream, time) = (row / WINDOWS, row % WINDOWS);
            let at = to_rows.first + stream * to_rows.per_stream + time * to_rows.per_time;
            let to = &mut to[at..=at + 2 * quarter];
            let sums = row * SUMS..row * SUMS + quarter;
            let (even, odd) = to.split_at_mut(quarter);
            for (to, cosines, sines) in
                [(even, cosines_even, sines_even), (&mut odd[..quarter], cosines_odd, sines_odd)]
            {
                let (cosines, sines) = (&cosines[sums.clone()], &sines[sums.clone()]);
                let cosines = cosines.as_chunks::<LANES>().0;
                let sines = sines.as_chunks::<LANES>().0;
                for ((to, a), b) in to.as_chunks_mut().0.iter_mut().zip(cosines).zip(sines) {
                    let (a, b) = (simd.load(a), simd.load(b));
                    simd.store(simd.sqrt(simd.mul_add(a, a, simd.mul(b, b))), to);
                }
            }
            to[2 * quarter] = cosines_even[sums.end].abs();
        }
    }
}
