//! The network, one frame of each of some streams at a time.

use paceline_simd::{Dense, Job, Kernel, LANES, Rows, Simd, Then};

use super::{
    Rate,
    fourier::{WINDOWS, Workspace},
    state::StreamState,
    weights::{CONVOLVED, UNITS, Weights},
};

/// Most streams that are computed at once: what they need beside the weights stays in the cache.
pub(super) const MAX_STREAMS: usize = 16;

/// A frame of sound with its context and the reflection at its end, at the larger rate.
const SOUND: usize = 64 + 512 + 64;
/// Spectra with a frame of zeros at both ends.
const SPECTRA: usize = (WINDOWS + 2) * 129;
/// What the first convolution makes, with a frame of zeros before it.
const FIRST: usize = (WINDOWS + 1) * CONVOLVED[0];
const SECOND: usize = 2 * CONVOLVED[1];
const THIRD: usize = CONVOLVED[2];
/// Input and state of the recurrent layer.
const RECURRENT: usize = 2 * UNITS;
const GATES: usize = 4 * UNITS;

/// One frame of each of some streams, at most [`MAX_STREAMS`], and where the answers go.
#[derive(Debug)]
pub(super) struct Step<'a, 'b> {
    pub(super) frames: &'a [&'b [f32]],
    pub(super) states: &'a mut [&'b mut StreamState],
    pub(super) probabilities: &'a mut [f32],
}

/// A step of a network.
#[derive(Debug)]
pub(super) struct Detect<'a, 'b> {
    pub(super) network: &'a mut Network,
    pub(super) step: Step<'a, 'b>,
}

impl Kernel for Detect<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        self.network.run(simd, self.step);
    }
}

/// The network for one rate and where it works.
#[derive(Debug)]
pub(super) struct Network {
    rate: Rate,
    weights: &'static Weights,
    fourier: Workspace,
    spectra: Vec<f32>,
    first: Vec<f32>,
    second: Vec<f32>,
    third: Vec<f32>,
    recurrent: Vec<f32>,
    gates: Vec<f32>,
}

impl Network {
    pub(super) fn new(rate: Rate) -> Self {
        let zeros = |n: usize| vec![0.0; MAX_STREAMS * n];
        Self {
            rate,
            weights: Weights::of(rate),
            fourier: Workspace::new(MAX_STREAMS),
            spectra: zeros(SPECTRA),
            first: zeros(FIRST),
            second: zeros(SECOND),
            third: zeros(THIRD),
            recurrent: zeros(RECURRENT),
            gates: zeros(GATES),
        }
    }

    /// How likely each stream's frame is speech.
    #[inline(always)]
    fn run<S: Simd>(&mut self, simd: S, step: Step<'_, '_>) {
        let Step { frames, states, probabilities } = step;
        let weights = self.weights;
        let n_streams = frames.len();
        for (stream, (frame, state)) in frames.iter().zip(&mut *states).enumerate() {
            let mut sound = [0.0; SOUND];
            let sound = listen(self.rate, frame, state, &mut sound);
            weights.fourier.fold(sound, stream, &mut self.fourier);
            self.recurrent[stream * RECURRENT + UNITS..][..UNITS].copy_from_slice(&state.hidden);
        }
        let n_bins = weights.fourier.n_bins();
        let row = |first, per_stream, per_time| Rows { first, per_stream, per_time };
        let spectra = (&mut self.spectra[..], row(n_bins, SPECTRA, n_bins));
        let fourier = &mut self.fourier;
        weights.fourier.spectra(simd, n_streams, fourier, spectra);

        let [first, second, third, fourth] = &weights.convolutions;
        let convolve = |layer: &Dense, n_times, from: (&[f32], Rows), to: (&mut [f32], Rows)| {
            let ((from, from_rows), (to, to_rows)) = (from, to);
            let mut job =
                Job { layer, n_streams, n_times, from, from_rows, to, to_rows, then: Then::Relu };
            simd.dense(&mut job);
        };
        let spectra = (&self.spectra[..], row(0, SPECTRA, n_bins));
        convolve(
            first,
            WINDOWS,
            spectra,
            (&mut self.first, row(CONVOLVED[0], FIRST, CONVOLVED[0])),
        );
        let from = (&self.first[..], row(0, FIRST, 2 * CONVOLVED[0]));
        convolve(second, 2, from, (&mut self.second, row(0, SECOND, CONVOLVED[1])));
        let from = (&self.second[..], row(0, SECOND, 0));
        convolve(third, 1, from, (&mut self.third, row(0, THIRD, 0)));
        let from = (&self.third[..], row(0, THIRD, 0));
        convolve(fourth, 1, from, (&mut self.recurrent, row(0, RECURRENT, 0)));
        let mut job = Job {
            layer: &weights.recurrent,
            n_streams,
            n_times: 1,
            from: &self.recurrent,
            from_rows: row(0, RECURRENT, 0),
            to: &mut self.gates,
            to_rows: row(0, GATES, 0),
            then: Then::Keep,
        };
        simd.dense(&mut job);
        for (stream, (state, probability)) in states.iter_mut().zip(probabilities).enumerate() {
            let gates = &self.gates[stream * GATES..][..GATES];
            *probability = remember(simd, weights, gates, state);
        }
    }
}

/// Puts a frame behind its context, reflects its end, and keeps that end as the next context.
fn listen<'a>(
    rate: Rate,
    frame: &[f32],
    state: &mut StreamState,
    sound: &'a mut [f32; SOUND],
) -> &'a [f32] {
    let (n_frame, n_context) = (rate.frame(), rate.context());
    let end = n_context + n_frame;
    sound[..n_context].copy_from_slice(&state.context[..n_context]);
    for (to, &sample) in sound[n_context..end].iter_mut().zip(&frame[..n_frame]) {
        // What is no sound at all would stay in the state for ever.
        *to = if sample.abs() <= LOUDEST { sample } else { 0.0 };
    }
    state.context[..n_context].copy_from_slice(&sound[n_frame..end]);
    for at in 0..n_context {
        sound[end + at] = sound[end - 2 - at];
    }
    &sound[..end + n_context]
}

/// Sound is from -1 to 1. Far more than that is an error in whatever made it, and far less than
/// what would overflow on the way.
const LOUDEST: f32 = 1e6;

/// The recurrent layer's gates become its next state, and that becomes a probability.
#[inline(always)]
fn remember<S: Simd>(simd: S, weights: &Weights, gates: &[f32], state: &mut StreamState) -> f32 {
    let mut sum = simd.splat(0.0);
    let gates = gates.as_chunks::<LANES>().0.as_chunks::<4>().0;
    let hidden = state.hidden.as_chunks_mut().0;
    let cell = state.cell.as_chunks_mut().0;
    let output = weights.output.as_chunks().0;
    for (((gates, hidden), cell), output) in gates.iter().zip(hidden).zip(cell).zip(output) {
        let [input, forget, new, out] = [0, 1, 2, 3].map(|gate| simd.load(&gates[gate]));
        let kept = simd.mul(simd.sigmoid(forget), simd.load(cell));
        let next = simd.mul_add(simd.sigmoid(input), simd.tanh(new), kept);
        simd.store(next, cell);
        let shown = simd.mul(simd.sigmoid(out), simd.tanh(next));
        simd.store(shown, hidden);
        sum = simd.mul_add(simd.max(shown, simd.splat(0.0)), simd.load(output), sum);
    }
    let mut lanes = [0.0; LANES];
    simd.store(sum, &mut lanes);
    let logit = lanes.iter().fold(weights.output_bias, |sum, lane| sum + lane);
    simd.store(simd.sigmoid(simd.splat(logit)), &mut lanes);
    lanes[0]
}
