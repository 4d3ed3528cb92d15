//! The published weights, packed once for each rate.

use std::sync::LazyLock;

use paceline_simd::Dense;

use super::{Rate, fourier::Fourier};

/// Units of the recurrent layer.
pub(super) const UNITS: usize = 128;
/// Outputs of the four convolutions.
pub(super) const CONVOLVED: [usize; 4] = [128, 64, 64, UNITS];
/// Taps of each convolution.
const TAPS: usize = 3;
/// Gates of the recurrent layer.
const GATES: usize = 4;

/// A file's worth of numbers as bytes; see `weights/ORIGIN.md`.
static FILES: [&[u8]; 2] = [include_bytes!("weights/8k.f32"), include_bytes!("weights/16k.f32")];

/// Everything that the network knows for one rate.
#[derive(Debug)]
pub(super) struct Weights {
    pub(super) fourier: Fourier,
    pub(super) convolutions: [Dense; 4],
    /// Input and state to gates; for each sixteen units their four gates, so that what belongs
    /// together is computed together.
    pub(super) recurrent: Dense,
    pub(super) output: [f32; UNITS],
    pub(super) output_bias: f32,
}

impl Weights {
    /// The weights for a rate, read and packed when they are first asked for.
    pub(super) fn of(rate: Rate) -> &'static Self {
        static PACKED: [LazyLock<Weights>; 2] = [
            LazyLock::new(|| Weights::read(Rate::Hz8000, FILES[0])),
            LazyLock::new(|| Weights::read(Rate::Hz16000, FILES[1])),
        ];
        match rate {
            Rate::Hz8000 => &PACKED[0],
            Rate::Hz16000 => &PACKED[1],
        }
    }

    fn read(rate: Rate, file: &[u8]) -> Self {
        let fourier = Fourier::new(rate);
        let mut numbers = file.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
        let mut take = |n: usize| -> Vec<f32> { numbers.by_ref().take(n).collect() };
        let mut n_inputs = fourier.n_bins();
        let layers: [_; 4] = std::array::from_fn(|layer| {
            let shape = (CONVOLVED[layer], n_inputs);
            n_inputs = shape.0;
            (shape, take(shape.0 * shape.1 * TAPS), take(shape.0))
        });
        let (input, state) = (take(GATES * UNITS * UNITS), take(GATES * UNITS * UNITS));
        let (input_bias, state_bias) = (take(GATES * UNITS), take(GATES * UNITS));
        let (output, output_bias) = (take(UNITS), take(1));

        let convolutions = std::array::from_fn(|layer| {
            let ((n_outputs, n_inputs), weights, bias) = &layers[layer];
            // At the edges some taps only ever meet zeros: the third convolution makes one frame
            // of two, so its first tap is left out; the fourth sees one frame, with its middle.
            let used = [0..3, 0..3, 1..3, 1..2][layer].clone();
            let is_spectrum = layer == 0;
            Dense::pack(
                used.len() * n_inputs,
                *n_outputs,
                |output| bias[output],
                |output, at| {
                    let (tap, input) = (used.start + at / n_inputs, at % n_inputs);
                    let input = if is_spectrum { fourier.bin_at(input) } else { input };
                    weights[(output * n_inputs + input) * TAPS + tap]
                },
            )
        });
        // Outputs of the packed layer are blocks of sixteen units, gate by gate.
        let row = |at: usize| {
            let (block, gate, lane) = (at / 64, at / 16 % GATES, at % 16);
            gate * UNITS + block * 16 + lane
        };
        let recurrent = Dense::pack(
            2 * UNITS,
            GATES * UNITS,
            |at| input_bias[row(at)] + state_bias[row(at)],
            |at, from| match from.checked_sub(UNITS) {
                None => input[row(at) * UNITS + from],
                Some(from) => state[row(at) * UNITS + from],
            },
        );
        Self {
            fourier,
            convolutions,
            recurrent,
            output: std::array::from_fn(|at| output[at]),
            output_bias: output_bias[0],
        }
    }
}
