//! The encoder: an utterance's samples to what there is to say.

use std::sync::Arc;

use paceline_simd::{Job, Kernel, Kind, LANES, Rows, Scratch, Simd, Then};

use crate::{
    AudioError, Encoded, MAX_SAMPLES, MIN_SAMPLES, Weights,
    attention::{Scores, attend},
    layer::{EPSILON, map, multiply, norm},
    shape::{CONVOLUTIONS, HIDDEN, WIDTH, n_frames},
    weights::EncoderLayer,
};

/// The encoder. It holds where it works, 25 MB once it has seen the longest utterance.
#[derive(Debug)]
pub struct Encoder {
    weights: Arc<Weights>,
    kind: Kind,
    work: Work,
}

impl Encoder {
    /// An encoder that uses the best of what this CPU has.
    #[must_use]
    pub fn new(weights: Arc<Weights>) -> Self {
        Self::with_kind(weights, Kind::best())
    }

    /// An encoder that uses these instructions: to compare them.
    #[must_use]
    pub fn with_kind(weights: Arc<Weights>, kind: Kind) -> Self {
        Self { weights, kind, work: Work::default() }
    }

    /// What there is to say in an utterance: samples from -1 to 1, 16 000 a second.
    ///
    /// # Errors
    ///
    /// When it has fewer than [`MIN_SAMPLES`] or more than [`MAX_SAMPLES`], or a sample that is no
    /// sound.
    pub fn encode(&mut self, samples: &[f32]) -> Result<Encoded, AudioError> {
        let n_samples = samples.len();
        if n_samples < MIN_SAMPLES {
            return Err(AudioError::TooShort { n_samples });
        }
        if MAX_SAMPLES < n_samples {
            return Err(AudioError::TooLong { n_samples });
        }
        // Louder than 1 is clipping or a mistake, but still sound; far louder is neither.
        let is_sound = |sample: &f32| sample.abs() <= 1e3;
        if let Some(at) = samples.iter().position(|sample| !is_sound(sample)) {
            return Err(AudioError::NotSound { at });
        }
        Ok(self.kind.run(Encode { weights: &self.weights, work: &mut self.work, samples }))
    }

    /// The model's own output for the utterance that was encoded last, frame after frame.
    #[cfg(test)]
    pub(crate) fn output(&self) -> &[f32] {
        &self.work.normed
    }
}

/// Where the encoder works.
#[derive(Debug, Default)]
struct Work {
    /// What the convolutions make.
    convolved: [Vec<f32>; 2],
    /// A row for each frame, which every layer adds to.
    rows: Vec<f32>,
    normed: Vec<f32>,
    queries: Vec<f32>,
    keys: Vec<f32>,
    values: Vec<f32>,
    hidden: Vec<f32>,
    scores: Scores,
    scratch: Scratch,
}

struct Encode<'a> {
    weights: &'a Weights,
    work: &'a mut Work,
    samples: &'a [f32],
}

impl Kernel for Encode<'_> {
    type Output = Encoded;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> Encoded {
        let Self { weights, work, samples } = self;
        let n_frames = n_frames(samples.len());
        work.listen(simd, weights, samples);
        for rows in [&mut work.normed, &mut work.queries, &mut work.keys, &mut work.values] {
            rows.resize(n_frames * WIDTH, 0.0);
        }
        work.hidden.resize(n_frames * HIDDEN, 0.0);
        for layer in &weights.encoder {
            work.run_layer(simd, weights, layer);
        }
        norm(simd, &weights.encoder_norm, &work.rows, &mut work.normed);

        let mut encoded = Encoded::new(samples.len(), n_frames);
        for (layer, (keys, values)) in weights.decoder.iter().zip(encoded.layers_mut()) {
            for (matrix, to) in [(&layer.heard.key, keys), (&layer.heard.value, values)] {
                let scratch = &mut work.scratch;
                multiply(simd, matrix, &work.normed, (to, Then::Keep), scratch);
            }
        }
        encoded
    }
}

impl Work {
    /// Samples to frames.
    #[inline(always)]
    fn listen<S: Simd>(&mut self, simd: S, weights: &Weights, samples: &[f32]) {
        let [first, second] = &mut self.convolved;
        convolve(simd, weights, 0, samples, first);
        map(simd, first, |x| simd.tanh(x));
        group_norm(simd, weights, first);
        convolve(simd, weights, 1, first, second);
        map(simd, second, |x| simd.gelu(x));
        convolve(simd, weights, 2, second, &mut self.rows);
        map(simd, &mut self.rows, |x| simd.gelu(x));
    }

    #[inline(always)]
    fn run_layer<S: Simd>(&mut self, simd: S, weights: &Weights, layer: &EncoderLayer) {
        let Self { rows, normed, queries, keys, values, hidden, scores, scratch, .. } = self;
        let attention = &layer.attention;
        norm(simd, &attention.norm, rows, normed);
        for (matrix, to) in [
            (&attention.query, &mut *queries),
            (&attention.key, &mut *keys),
            (&attention.value, &mut *values),
        ] {
            multiply(simd, matrix, normed, (to, Then::Keep), scratch);
        }
        for turned in [&mut *queries, &mut *keys] {
            for (place, row) in turned.chunks_exact_mut(WIDTH).enumerate() {
                weights.rotary.turn(simd, row, place);
            }
        }
        attend(simd, queries, (keys, values), scores, normed);
        multiply(simd, &attention.output, normed, (rows, Then::Add), scratch);

        norm(simd, &layer.mlp.norm, rows, normed);
        multiply(simd, &layer.mlp.up, normed, (hidden, Then::Keep), scratch);
        map(simd, hidden, |x| simd.gelu(x));
        multiply(simd, &layer.mlp.down, hidden, (rows, Then::Add), scratch);
    }
}

/// Rows to fewer rows. Those that a row is made of lie one after the other already.
#[inline(always)]
fn convolve<S: Simd>(simd: S, weights: &Weights, at: usize, from: &[f32], to: &mut Vec<f32>) {
    let shape = CONVOLUTIONS[at];
    let n_times = shape.n_made(from.len() / shape.n_inputs);
    to.resize(n_times * shape.n_outputs, 0.0);
    let mut job = Job {
        layer: &weights.convolutions[at],
        n_streams: 1,
        n_times,
        from,
        from_rows: Rows::every(shape.stride * shape.n_inputs),
        to,
        to_rows: Rows::every(shape.n_outputs),
        then: Then::Keep,
    };
    simd.dense(&mut job);
}

/// All rows together with a mean of zero and a variance of one, times a weight for each column,
/// and its bias.
#[inline(always)]
fn group_norm<S: Simd>(simd: S, weights: &Weights, rows: &mut [f32]) {
    #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52")]
    let part = 1.0 / rows.len() as f64;
    #[expect(clippy::cast_possible_truncation, reason = "rounded once, here")]
    let mean = (total(simd, rows, |x| x) * part) as f32;
    let off = |x| simd.sub(x, simd.splat(mean));
    #[expect(clippy::cast_possible_truncation, reason = "rounded once, here")]
    let variance = (total(simd, rows, |x| simd.mul(off(x), off(x))) * part) as f32;
    let scale = simd.splat(1.0 / (variance + EPSILON).sqrt());
    let (columns, biases) =
        (weights.group_norm.as_chunks().0, weights.group_norm_bias.as_chunks().0);
    for row in rows.chunks_exact_mut(WIDTH) {
        for ((vector, column), bias) in row.as_chunks_mut().0.iter_mut().zip(columns).zip(biases) {
            let scaled = simd.mul(off(simd.load(vector)), scale);
            simd.store(simd.mul_add(scaled, simd.load(column), simd.load(bias)), vector);
        }
    }
}

/// The sum of something of every number: of each row's alone first, since a long sum of small
/// numbers loses bits.
#[inline(always)]
fn total<S: Simd>(simd: S, rows: &[f32], of: impl Fn(S::Vector) -> S::Vector) -> f64 {
    let mut total = 0.0;
    for row in rows.chunks_exact(WIDTH) {
        let mut sum = simd.splat(0.0);
        for vector in row.as_chunks().0 {
            sum = simd.add(sum, of(simd.load(vector)));
        }
        let mut lanes = [0.0; LANES];
        simd.store(sum, &mut lanes);
        total += lanes.iter().copied().map(f64::from).sum::<f64>();
    }
    total
}
