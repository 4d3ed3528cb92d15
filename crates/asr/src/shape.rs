//! How large everything is, and in which order a row's numbers lie.

use paceline_simd::LANES;

/// Samples in a second.
pub const SAMPLE_RATE: usize = 16_000;

/// The longest utterance: 30 s, which is what the model was made for.
pub const MAX_SAMPLES: usize = 30 * SAMPLE_RATE;

/// The shortest utterance: one frame.
pub const MIN_SAMPLES: usize =
    CONVOLUTIONS[0].n_read(CONVOLUTIONS[1].n_read(CONVOLUTIONS[2].n_read(1)));

/// Numbers in a row.
pub(crate) const WIDTH: usize = 288;
/// Vectors in a row.
pub(crate) const VECTORS: usize = WIDTH / LANES;
/// Attention heads: half as many as a vector has lanes, which the order of [`column`] rests on.
pub(crate) const HEADS: usize = LANES / 2;
/// Numbers of a head.
pub(crate) const HEAD: usize = WIDTH / HEADS;
/// Numbers between a layer's two large matrices.
pub(crate) const HIDDEN: usize = 1152;
/// Layers of the encoder, and of the decoder.
pub(crate) const LAYERS: usize = 6;
/// Tokens that there are.
pub(crate) const VOCABULARY: usize = 32_768;
/// The token that begins every utterance.
pub(crate) const BEGIN: u32 = 1;
/// The token that ends it.
pub(crate) const END: u32 = 2;

/// A convolution over time, without padding.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Convolution {
    pub(crate) n_inputs: usize,
    pub(crate) n_outputs: usize,
    pub(crate) taps: usize,
    pub(crate) stride: usize,
}

impl Convolution {
    /// How many rows come out.
    pub(crate) const fn n_made(self, n_rows: usize) -> usize {
        (n_rows - self.taps) / self.stride + 1
    }

    /// How many rows must go in for this many to come out.
    const fn n_read(self, n_rows: usize) -> usize {
        (n_rows - 1) * self.stride + self.taps
    }
}

/// From samples to frames, of which there are 41.7 in a second.
pub(crate) const CONVOLUTIONS: [Convolution; 3] = [
    Convolution { n_inputs: 1, n_outputs: WIDTH, taps: 127, stride: 64 },
    Convolution { n_inputs: WIDTH, n_outputs: 2 * WIDTH, taps: 7, stride: 3 },
    Convolution { n_inputs: 2 * WIDTH, n_outputs: WIDTH, taps: 3, stride: 2 },
];

/// Frames of an utterance of so many samples.
pub(crate) const fn n_frames(n_samples: usize) -> usize {
    let [first, second, third] = CONVOLUTIONS;
    third.n_made(second.n_made(first.n_made(n_samples)))
}

/// Tokens that an utterance may have, its end included: 6.5 for each second, at least one. Speech
/// has fewer; a model that repeats itself is cut off here.
pub(crate) const fn max_tokens(n_samples: usize) -> usize {
    let n_tokens = n_samples * 13 / (2 * SAMPLE_RATE);
    if n_tokens == 0 { 1 } else { n_tokens }
}

/// Which column of the model's a place in our rows of queries, keys and values is.
///
/// Ours have two numbers of every head in each vector, the lanes of its first half being the heads
/// and those of its second half too. So the product of a query and a key, a vector at a time,
/// leaves every head's sum in its own two lanes, a weight for each head multiplies a value
/// without being spread, and nothing is lost to heads of 36 not being whole vectors.
pub(crate) const fn column(place: usize) -> usize {
    let (vector, lane) = (place / LANES, place % LANES);
    (lane % HEADS) * HEAD + 2 * vector + lane / HEADS
}

const _: () = assert!(WIDTH.is_multiple_of(LANES) && HEAD == 2 * VECTORS);
