//! The kernel against ONNX Runtime's answers over whole files, and against itself in any batch.

use proptest::prelude::*;

use super::*;

const RATES: [Rate; 2] = [Rate::Hz8000, Rate::Hz16000];

/// Within this of the reference.
const NEAR: f32 = 1e-5;

fn numbers(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

/// Speech: 11 s.
fn speech(rate: Rate) -> Vec<f32> {
    let file = include_bytes!("../../tests/golden/jfk.wav");
    let data = file.windows(4).position(|name| name == b"data").unwrap() + 8;
    let samples = file[data..].as_chunks().0.iter();
    let samples = samples.map(|bytes| f32::from(i16::from_le_bytes(*bytes)) / 32768.0);
    samples.step_by(16_000 / rate.hertz() as usize).collect()
}

/// As `make.py` computes it.
fn noise(seed: u64, n_samples: usize) -> Vec<f32> {
    let mut state = seed;
    let sample = |at: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let loud = (at % 8192 / 64) as f32 / 128.0;
        ((state >> 48) as f32 - 32768.0) / 32768.0 * loud
    };
    (0..n_samples).map(sample).collect()
}

/// Probabilities of a stream alone.
fn alone(silero: &mut Silero, state: &mut StreamState, samples: &[f32]) -> Vec<f32> {
    let frames = samples.chunks_exact(silero.rate().frame());
    let mut one = |frame| {
        let mut probability = [0.0];
        silero.detect(&[frame], &mut [state], &mut probability);
        probability[0]
    };
    frames.map(&mut one).collect()
}

fn farthest(actual: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(actual.len(), expected.len());
    let distances = actual.iter().zip(expected).map(|(a, b)| (a - b).abs());
    distances.fold(0.0, f32::max)
}

struct Golden {
    speech: Vec<f32>,
    without_context: Vec<f32>,
    noise: Vec<f32>,
    state: Vec<f32>,
}

fn golden(rate: Rate) -> Golden {
    let mut numbers = match rate {
        Rate::Hz8000 => numbers(include_bytes!("../../tests/golden/silero_8k.f32")),
        Rate::Hz16000 => numbers(include_bytes!("../../tests/golden/silero_16k.f32")),
    };
    let mut take = |n: usize| numbers.drain(..n).collect();
    Golden { speech: take(343), without_context: take(343), noise: take(100), state: take(256) }
}

#[test]
fn it_is_the_reference_over_whole_files() {
    for rate in RATES {
        let golden = golden(rate);
        for mut silero in Silero::every_kind(rate) {
            let speech = alone(&mut silero, &mut StreamState::default(), &speech(rate));
            let mut state = StreamState::default();
            let noise = alone(&mut silero, &mut state, &noise(1, 100 * rate.frame()));
            let state = [state.hidden, state.cell].concat();

            let far = farthest(&speech, &golden.speech);
            assert!(far < NEAR, "speech, {}: {far}", silero.instructions());
            let far = farthest(&noise, &golden.noise);
            assert!(far < NEAR, "noise, {}: {far}", silero.instructions());
            let far = farthest(&state, &golden.state);
            assert!(far < 10.0 * NEAR, "the state after noise, {}: {far}", silero.instructions());
        }
    }
}

#[test]
fn the_context_before_a_frame_is_what_the_reference_has_there() {
    for rate in RATES {
        let golden = golden(rate);
        let mut silero = Silero::new(rate);
        let mut state = StreamState::default();
        let mut without = Vec::new();
        for frame in speech(rate).chunks_exact(rate.frame()) {
            state.context.fill(0.0);
            without.extend(alone(&mut silero, &mut state, frame));
        }
        let with = alone(&mut silero, &mut StreamState::default(), &speech(rate));

        assert!(farthest(&without, &golden.without_context) < NEAR);
        assert!(farthest(&with, &golden.speech) < NEAR);
        assert!(0.05 < farthest(&with, &without), "the context does nothing");
    }
}

#[test]
fn what_is_no_number_does_not_stay() {
    let mut silero = Silero::new(Rate::Hz16000);
    let mut state = StreamState::default();
    let mut odd = speech(Rate::Hz16000);
    for (at, bad) in [(5, f32::NAN), (900, f32::INFINITY), (2000, f32::MIN), (3000, 1e6)] {
        odd[at] = bad;
    }

    let probabilities = alone(&mut silero, &mut state, &odd);

    assert!(probabilities.iter().all(|p| (0.0..=1.0).contains(p)));
    let expected = golden(Rate::Hz16000).speech;
    assert!(farthest(&probabilities[100..], &expected[100..]) < 0.1, "the stream recovers");
}

#[test]
#[should_panic(expected = "a frame has 512 samples")]
fn a_frame_of_another_length_is_refused() {
    let mut silero = Silero::new(Rate::Hz16000);
    silero.detect(&[&[0.0; 256]], &mut [&mut StreamState::default()], &mut [0.0]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// In each step a random choice of streams has a frame, in a random order.
    #[test]
    fn whoever_shares_a_batch_never_shows(
        steps in prop::collection::vec(
            prop::sample::subsequence((0..40).collect::<Vec<usize>>(), 1..40).prop_shuffle(),
            1..12,
        ),
        is_16k in any::<bool>(),
    ) {
        let rate = RATES[usize::from(is_16k)];
        let speech = speech(rate);
        for (mut silero, mut lonely) in
            Silero::every_kind(rate).into_iter().zip(Silero::every_kind(rate))
        {
            let mut states = vec![StreamState::default(); 40];
            let mut expected = states.clone();
            // Each stream hears the speech from a place of its own.
            let mut heard: Vec<_> = (0..40).map(|stream| stream * 2000).collect();
            for step in &steps {
                let frames: Vec<_> =
                    step.iter().map(|&at| &speech[heard[at]..heard[at] + rate.frame()]).collect();
                let mut rest: Vec<_> = states.iter_mut().map(Some).collect();
                let mut taken: Vec<_> =
                    step.iter().map(|&at| rest[at].take().unwrap()).collect();
                let mut probabilities = vec![0.0; step.len()];
                silero.detect(&frames, &mut taken, &mut probabilities);
                for (&at, probability) in step.iter().zip(probabilities) {
                    let frame = &speech[heard[at]..heard[at] + rate.frame()];
                    let alone = alone(&mut lonely, &mut expected[at], frame);
                    prop_assert_eq!(probability.to_bits(), alone[0].to_bits());
                    heard[at] += rate.frame();
                }
            }
            prop_assert_eq!(states, expected);
        }
    }
}
