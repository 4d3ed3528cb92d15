//! Tables of windowed sincs, shared by all streams.

use std::{f64::consts::PI, sync::OnceLock};

/// Taps per unit of ratio: the transition from passing to stopping takes 16 % of the band.
const TAPS: f64 = 64.0;
/// The same, as a share of the lower of the two bands.
const TRANSITION: f64 = 0.157;
/// Kaiser's parameter for 80 dB.
const BETA: f64 = 7.857;
/// Rows per input sample at full bandwidth; between rows is interpolated, 100 dB below the signal.
const ROWS: f64 = 512.0;
/// Ratios within a sixteenth of an octave share a table, so there is a fixed number of them.
const STEPS_PER_OCTAVE: f64 = 16.0;
/// Enough for a ratio of 32; tables of 0.13 to 0.2 MB, made when first used.
const STEPS: usize = 81;

static FILTERS: [OnceLock<Filter>; STEPS] = [const { OnceLock::new() }; STEPS];

/// A low-pass filter, sampled at many places between two input samples.
#[derive(Debug)]
pub(super) struct Filter {
    taps: usize,
    rows: u64,
    table: Vec<f32>,
}

impl Filter {
    /// The filter for going from `rate_in` to `rate_out`.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the logarithm of a ratio is small and, as clamped, not negative"
    )]
    pub(super) fn of(rate_in: u32, rate_out: u32) -> &'static Self {
        let ratio = (f64::from(rate_in) / f64::from(rate_out)).max(1.0);
        let step = ((ratio.log2() * STEPS_PER_OCTAVE).ceil() as usize).min(STEPS - 1);
        FILTERS[step].get_or_init(|| {
            let step = f64::from(u32::try_from(step).unwrap_or(u32::MAX));
            Self::new((step / STEPS_PER_OCTAVE).exp2())
        })
    }

    /// The length of the filter in input samples.
    pub(super) fn taps(&self) -> usize {
        self.taps
    }

    /// The filtered `input` (as long as the filter) at its middle plus `rest / rate` of a sample.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "rows and rates are far below 2^24"
    )]
    pub(super) fn apply(&self, input: &[f32], rest: u64, rate: u64) -> f32 {
        let place = rest * self.rows;
        let row = (place / rate) as usize * self.taps;
        let between = (place % rate) as f32 / rate as f32;
        let low = dot(input, &self.table[row..row + self.taps]);
        if between == 0.0 {
            return low.clamp(-1.0, 1.0);
        }
        let high = dot(input, &self.table[row + self.taps..row + 2 * self.taps]);
        (low + between * (high - low)).clamp(-1.0, 1.0)
    }

    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "sizes are small and positive; the table is f32 on purpose"
    )]
    fn new(ratio: f64) -> Self {
        let taps = ((TAPS * ratio / 16.0).ceil() * 16.0) as usize;
        // A multiple of four, so that halves and quarters of a sample have their own rows.
        let rows = ((ROWS / ratio / 4.0).ceil() * 4.0) as usize;
        let half = taps as f64 / 2.0;
        let cutoff = (1.0 - TRANSITION / 2.0) / ratio;
        let mut table = Vec::with_capacity((rows + 1) * taps);
        for row in 0..=rows {
            let shift = row as f64 / rows as f64;
            let at = |tap: usize| (tap as f64) - (half - 1.0) - shift;
            let values = (0..taps).map(|tap| sinc(cutoff * at(tap)) * kaiser(at(tap) / half));
            let values: Vec<f64> = values.collect();
            let sum: f64 = values.iter().sum();
            table.extend(values.iter().map(|value| (value / sum) as f32));
        }
        Self { taps, rows: rows as u64, table }
    }
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0_f32; 16];
    for (a, b) in a.as_chunks::<16>().0.iter().zip(b.as_chunks::<16>().0) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    sums.iter().sum()
}

fn sinc(x: f64) -> f64 {
    if x.abs() < 1e-12 { 1.0 } else { (PI * x).sin() / (PI * x) }
}

fn kaiser(x: f64) -> f64 {
    bessel(BETA * (1.0 - x * x).max(0.0).sqrt()) / bessel(BETA)
}

/// The modified Bessel function of order zero, by its series.
fn bessel(x: f64) -> f64 {
    let (mut term, mut sum, mut k) = (1.0, 1.0, 1.0);
    while term > sum * 1e-15 {
        term *= (x / (2.0 * k)).powi(2);
        sum += term;
        k += 1.0;
    }
    sum
}
