//! The encoder: an utterance's samples to what there is to say.

use std::sync::Arc;

use paceline_simd::{Job, Kernel, Kind, LANES, Rows, Scratch, Simd, Then};

use crate::{
    AudioError, Encoded, MAX_SAMPLES, MIN_SAMPLES, Weights,
    attention::{Scores, attend},
    layer::{EPSILON, map, multiply, norm},
    shape::{CONVOLUTIONS, HIDDEN, LAYERS, WIDTH, n_frames},
    weights::EncoderLayer,
};

/// The encoder. It holds where it works, 25 MB once it has seen the longest utterance.
///
/// An utterance is encoded in [parts](Encoder::advance), so that whoever has other things to do can
/// do them in between.
#[derive(Debug)]
pub struct Encoder {
    weights: Arc<Weights>,
    kind: Kind,
    work: Work,
    /// What comes next, while an utterance is being encoded.
    next: Option<(Part, Size)>,
}

/// A part of encoding an utterance.
#[derive(Debug, Clone, Copy)]
enum Part {
    /// A convolution.
    Listen(usize),
    /// A layer.
    Layer(usize),
    /// What the decoder attends to.
    Finish,
}

#[derive(Debug, Clone, Copy)]
struct Size {
    n_samples: usize,
    n_frames: usize,
}

impl Part {
    const fn after(self) -> Option<Self> {
        match self {
            Self::Listen(at) if at + 1 < CONVOLUTIONS.len() => Some(Self::Listen(at + 1)),
            Self::Listen(_) => Some(Self::Layer(0)),
            Self::Layer(at) if at + 1 < LAYERS => Some(Self::Layer(at + 1)),
            Self::Layer(_) => Some(Self::Finish),
            Self::Finish => None,
        }
    }
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
        Self { weights, kind, work: Work::default(), next: None }
    }

    /// What there is to say in an utterance: samples from -1 to 1, 16 000 a second.
    ///
    /// # Errors
    ///
    /// When it has fewer than [`MIN_SAMPLES`] or more than [`MAX_SAMPLES`], or a sample that is no
    /// sound.
    pub fn encode(&mut self, samples: &[f32]) -> Result<Encoded, AudioError> {
        self.begin(samples)?;
        loop {
            if let Some(encoded) = self.advance() {
                return Ok(encoded);
            }
        }
    }

    /// Begins to encode an utterance, in place of one that is under way.
    ///
    /// # Errors
    ///
    /// As [`encode`](Self::encode).
    pub fn begin(&mut self, samples: &[f32]) -> Result<(), AudioError> {
        check(samples)?;
        let (n_samples, n_frames) = (samples.len(), n_frames(samples.len()));
        self.work.samples.clear();
        self.work.samples.extend_from_slice(samples);
        self.next = Some((Part::Listen(0), Size { n_samples, n_frames }));
        Ok(())
    }

    /// Encodes one part more of the utterance that was begun; all of it after the last. Nothing
    /// where none was begun.
    pub fn advance(&mut self) -> Option<Encoded> {
        let (part, size) = self.next.take()?;
        self.next = part.after().map(|next| (next, size));
        let (weights, work) = (&*self.weights, &mut self.work);
        self.kind.run(Encode { weights, work, part, size })
    }

    /// About how long the next part takes, in frames: 10 to 20 microseconds each.
    #[must_use]
    pub fn next_cost(&self) -> usize {
        self.next.map_or(0, |(part, size)| match part {
            Part::Listen(1) => 2 * size.n_frames,
            _ => size.n_frames,
        })
    }

    /// Lets go of the utterance that was begun.
    pub const fn give_up(&mut self) {
        self.next = None;
    }

    /// The model's own output for the utterance that was encoded last, frame after frame.
    #[cfg(test)]
    pub(crate) fn output(&self) -> &[f32] {
        &self.work.normed
    }
}

/// Whether these samples are an utterance.
pub(crate) fn check(samples: &[f32]) -> Result<(), AudioError> {
    let n_samples = samples.len();
    if n_samples < MIN_SAMPLES {
        return Err(AudioError::TooShort { n_samples });
    }
    if MAX_SAMPLES < n_samples {
        return Err(AudioError::TooLong { n_samples });
    }
    // Louder than 1 is clipping or a mistake, but still sound; far louder is neither.
    let is_sound = |sample: &f32| sample.abs() <= 1e3;
    match samples.iter().position(|sample| !is_sound(sample)) {
        Some(at) => Err(AudioError::NotSound { at }),
        None => Ok(()),
    }
}

/// Where the encoder works.
#[derive(Debug, Default)]
struct Work {
    samples: Vec<f32>,
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
    part: Part,
    size: Size,
}

impl Kernel for Encode<'_> {
    type Output = Option<Encoded>;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> Option<Encoded> {
        let Self { weights, work, part, size } = self;
        match part {
            Part::Listen(at) => work.listen(simd, weights, at),
            Part::Layer(at) => work.run_layer(simd, weights, &weights.encoder[at]),
            Part::Finish => return Some(work.finish(simd, weights, size)),
        }
        None
    }
}

impl Work {
    /// Samples to frames, by one convolution after the other.
    #[inline(always)]
    fn listen<S: Simd>(&mut self, simd: S, weights: &Weights, at: usize) {
        let [first, second] = &mut self.convolved;
        match at {
            0 => {
                convolve(simd, weights, 0, &self.samples, first);
                map(simd, first, |x| simd.tanh(x));
                group_norm(simd, weights, first);
            }
            1 => {
                convolve(simd, weights, 1, first, second);
                map(simd, second, |x| simd.gelu(x));
            }
            _ => {
                convolve(simd, weights, 2, second, &mut self.rows);
                map(simd, &mut self.rows, |x| simd.gelu(x));
            }
        }
    }

    /// Frames to what the decoder attends to.
    #[inline(always)]
    fn finish<S: Simd>(&mut self, simd: S, weights: &Weights, size: Size) -> Encoded {
        norm(simd, &weights.encoder_norm, &self.rows, &mut self.normed);
        let mut encoded = Encoded::new(size.n_samples, size.n_frames);
        for (layer, (keys, values)) in weights.decoder.iter().zip(encoded.layers_mut()) {
            for (matrix, to) in [(&layer.heard.key, keys), (&layer.heard.value, values)] {
                let scratch = &mut self.scratch;
                multiply(simd, matrix, &self.normed, (to, Then::Keep), scratch);
            }
        }
        encoded
    }

    #[inline(always)]
    fn run_layer<S: Simd>(&mut self, simd: S, weights: &Weights, layer: &EncoderLayer) {
        let Self { rows, normed, queries, keys, values, hidden, scores, scratch, .. } = self;
        for buffer in [&mut *normed, &mut *queries, &mut *keys, &mut *values] {
            buffer.resize(rows.len(), 0.0);
        }
        hidden.resize(rows.len() / WIDTH * HIDDEN, 0.0);
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
