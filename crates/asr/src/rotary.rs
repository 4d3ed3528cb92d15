//! Where a row is in time, turned into its queries and keys.

use paceline_simd::{LANES, Simd};

use crate::{
    MAX_SAMPLES,
    shape::{HEADS, WIDTH, n_frames},
};

/// Pairs of numbers that are turned; the rest of a head stays. In our order of columns a pair is
/// the two halves of a vector.
const PAIRS: usize = 16;

/// Sines and cosines for every place there is.
#[derive(Debug)]
pub(crate) struct Rotary {
    turns: Vec<[Turn; PAIRS]>,
}

#[derive(Debug, Clone, Copy)]
struct Turn {
    cosine: f32,
    sine: f32,
}

impl Rotary {
    pub(crate) fn new() -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "rounded once, here")]
        #[expect(clippy::cast_precision_loss, reason = "small whole numbers")]
        let turn = |place: usize, pair: usize| {
            let angle = place as f64 / 10_000_f64.powf(pair as f64 / PAIRS as f64);
            Turn { cosine: angle.cos() as f32, sine: angle.sin() as f32 }
        };
        let turns = |place| std::array::from_fn(|pair| turn(place, pair));
        Self { turns: (0..n_frames(MAX_SAMPLES)).map(turns).collect() }
    }

    /// Turns a row of queries or keys as its place says.
    #[inline(always)]
    pub(crate) fn turn<S: Simd>(&self, simd: S, row: &mut [f32], place: usize) {
        let signs: [f32; LANES] = std::array::from_fn(|at| if at < HEADS { -1.0 } else { 1.0 });
        let signs = simd.load(&signs);
        let (vectors, _) = row[..WIDTH].as_chunks_mut();
        for (turn, vector) in self.turns[place].iter().zip(vectors) {
            let pair = simd.load(vector);
            let across = simd.mul(simd.mul(simd.swap_halves(pair), signs), simd.splat(turn.sine));
            simd.store(simd.mul_add(pair, simd.splat(turn.cosine), across), vector);
        }
    }
}
