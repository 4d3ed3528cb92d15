//! Both engines give what ONNX Runtime gave in Python, alone and in company.
//!
//! The goldens were made one row at a time, so a batch that agrees with them is batch-invariant
//! within the tolerance: nobody's answer depends on whom they shared a call with.

use std::fs;

use paceline_backend::Backend as _;
use paceline_backend_onnx::{Engine, OnnxBackend, OnnxOptions, StateLink};
use paceline_types::{DType, Dim, Tensor};

use crate::support::{
    ENGINES, assert_close, golden, in_repository, in_tests, integers, noise, options, run,
};

/// Magika's probabilities. On a file it is unsure of (0.43 for the JSON here) even ONNX Runtime
/// differs from itself by 1e-4 between one row and four, because sums are taken in another order.
const LABEL: f32 = 1e-3;
/// Silero's probabilities.
const VOICE: f32 = 1e-5;
/// Silero's state, after 14 frames.
const STATE: f32 = 1e-4;
/// Pixels and logits of up to about 100.
const PIXEL: f32 = 1e-3;

fn magika(engine: Engine) -> OnnxBackend {
    OnnxBackend::load(&options(in_repository("models/magika/1/model.onnx"), engine)).unwrap()
}

/// The rows of `golden/make.py`.
fn magika_rows() -> Vec<Vec<i32>> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 255")]
    let noisy = noise(1, 3000).iter().map(|value| ((value + 1.0) * 128.0) as u8).collect();
    let texts = [
        b"fn main() { println!(\"{}\", 1 + 1); }\n".repeat(9),
        b"{\"name\": \"paceline\", \"list\": [1, 2, 3]}\n".to_vec(),
        b"It was the best of times, it was the worst of times.\n".repeat(40),
        noisy,
    ];
    let row = |text: &Vec<u8>| {
        let window = text.len().min(1024);
        let mut row = vec![256; 2048];
        for index in 0..window {
            row[index] = i32::from(text[index]);
            row[2047 - index] = i32::from(text[text.len() - 1 - index]);
        }
        row
    };
    texts.iter().map(row).collect()
}

#[test]
fn magika_agrees_alone_and_stacked() {
    let rows = magika_rows();
    let expected = golden("magika.f32");
    for engine in ENGINES {
        let mut backend = magika(engine);

        let stacked = run(&mut backend, &[integers(&[4, 2048], &rows.concat())], 4);

        assert_close(&stacked[0], &expected, LABEL, &format!("{engine:?}, stacked"));
        for (row, expected) in rows.iter().zip(expected.chunks(214)) {
            let alone = run(&mut backend, &[integers(&[1, 2048], row)], 1);
            assert_close(&alone[0], expected, LABEL, &format!("{engine:?}, alone"));
        }
    }
}

#[test]
fn blazeface_agrees_alone_and_stacked() {
    let n = 3 * 128 * 128;
    let pictures: Vec<f32> = (1..=3).flat_map(|seed| noise(seed, n)).collect();
    let expected = golden("blazeface.f32");
    let mut whole = Vec::new();
    for engine in ENGINES {
        let path = in_repository("models/blazeface/1/model.onnx");
        let mut backend = OnnxBackend::load(&options(path, engine)).unwrap();

        let stacked = Tensor::from_f32(&[3, 3, 128, 128], &pictures).unwrap();
        let stacked = run(&mut backend, &[stacked], 3);

        for row in 0..3 {
            let alone = Tensor::from_f32(&[1, 3, 128, 128], &pictures[row * n..][..n]).unwrap();
            let alone = run(&mut backend, &[alone], 1);
            let boxes = &stacked[0][row * 896 * 16..][..896 * 16];
            let logits = &stacked[1][row * 896..][..896];
            assert_close(boxes, &alone[0], PIXEL, &format!("{engine:?}, boxes in company"));
            assert_close(logits, &alone[1], PIXEL, &format!("{engine:?}, logits in company"));
            let kept: Vec<f32> = boxes
                .chunks(16)
                .step_by(8)
                .flatten()
                .chain(logits.iter().step_by(8))
                .copied()
                .collect();
            let expected = &expected[row * 112 * 17..][..112 * 17];
            assert_close(&kept, expected, PIXEL, &format!("{engine:?}, picture {row}"));
        }
        whole.push(stacked.concat());
    }
    assert_close(&whole[0], &whole[1], PIXEL, "rten and ONNX Runtime, every anchor");
}

fn silero(engine: Engine) -> OnnxOptions {
    let rate =
        Tensor::build(DType::I64, [].as_slice().into(), 16_000_i64.to_le_bytes().to_vec().into());
    OnnxOptions {
        states: vec![StateLink {
            input: "state".to_owned(),
            output: "stateN".to_owned(),
            batch_axis: 1,
        }],
        constants: vec![("sr".to_owned(), rate.unwrap())],
        ..options(in_tests("models/silero-vad/model.onnx"), engine)
    }
}

/// Speech, noise and silence, each with the 64 samples of context that lead its first frame.
fn streams() -> Vec<Vec<f32>> {
    let data = fs::read(in_tests("golden/speech.i16")).unwrap();
    let samples = data.as_chunks::<2>().0.iter();
    let speech: Vec<f32> =
        samples.map(|bytes| f32::from(i16::from_le_bytes(*bytes)) / 32768.0).collect();
    let (noise, silence) = (noise(1, speech.len()), vec![0.0; speech.len()]);
    [speech, noise, silence].map(|stream| [vec![0.0; 64], stream].concat()).to_vec()
}

#[test]
fn silero_agrees_over_a_stream_alone_and_with_three_streams_in_a_call() {
    let streams = streams();
    let expected = golden("silero.f32");
    let n_frames = (streams[0].len() - 64) / 512;
    for engine in ENGINES {
        let mut backend = OnnxBackend::load(&silero(engine)).unwrap();
        for members in [&[0][..], &[1], &[2], &[0, 1, 2]] {
            let rows = members.len();
            let mut state = vec![0.0; 2 * rows * 128];
            let mut probabilities = vec![Vec::new(); rows];
            for frame in 0..n_frames {
                let window = |&stream: &usize| streams[stream][frame * 512..][..576].to_vec();
                let windows: Vec<f32> = members.iter().flat_map(window).collect();
                let inputs = [
                    Tensor::from_f32(&[rows, 576], &windows).unwrap(),
                    Tensor::from_f32(&[2, rows, 128], &state).unwrap(),
                ];
                let mut outputs = run(&mut backend, &inputs, rows);
                state = outputs.remove(1);
                for (row, probability) in outputs[0].iter().enumerate() {
                    probabilities[row].push(*probability);
                }
            }

            for (row, &stream) in members.iter().enumerate() {
                let expected = &expected[stream * (n_frames + 256)..][..n_frames + 256];
                let what = format!("{engine:?}, stream {stream} of {members:?}");
                assert_close(&probabilities[row], &expected[..n_frames], VOICE, &what);
                let own =
                    [&state[row * 128..][..128], &state[(rows + row) * 128..][..128]].concat();
                assert_close(&own, &expected[n_frames..], STATE, &what);
            }
        }
    }
}

#[test]
fn both_engines_tell_the_same_signature() {
    for engine in ENGINES {
        let backend = OnnxBackend::load(&silero(engine)).unwrap();
        let signature = backend.signature();

        assert!(signature.batched);
        let [input] = &signature.inputs[..] else { panic!("{signature:?}") };
        assert_eq!(
            (&*input.name, input.dtype, &*input.dims),
            ("input", DType::F32, &[Dim::Any][..])
        );
        let [output] = &signature.outputs[..] else { panic!("{signature:?}") };
        assert_eq!((&*output.name, &*output.dims), ("output", &[Dim::Fixed(1)][..]));
        let [state] = backend.states() else { panic!("{backend:?}") };
        assert_eq!(state.input.dims, [Dim::Fixed(2), Dim::Fixed(128)]);
        assert_eq!((&*state.output, state.batch_axis), ("stateN", 1));
    }
    assert_eq!(magika(Engine::Rten).signature(), magika(Engine::OnnxRuntime).signature());
}
