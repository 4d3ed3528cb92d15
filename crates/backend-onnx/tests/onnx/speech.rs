//! The pair that speaks: both engines agree, chunked sound is whole sound, and a padded row is the
//! same row alone. Weights that are stored as bytes do not change that.

use paceline_backend::{Backend as _, Call};
use paceline_backend_onnx::{Engine, OnnxBackend};
use paceline_types::{DType, Tensor};

use crate::support::{ENGINES, assert_close, in_repository, options, run};

const CONTEXT: usize = 19;
const EDGE: f32 = -11.512_925;

fn load(name: &str, engine: Engine) -> OnnxBackend {
    let path = in_repository(&format!("models/{name}/1/model.onnx"));
    OnnxBackend::load(&options(path, engine)).unwrap()
}

fn longs(shape: &[usize], values: &[i64]) -> Tensor {
    let data: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Tensor::build(DType::I64, shape.into(), data.into()).unwrap()
}

/// A few syllables; 0 pads.
const PHONES: [i64; 24] =
    [1, 2, 9, 37, 12, 52, 2, 23, 44, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// The frames of one text, in one row or beside a longer one.
fn frames(backend: &mut OnnxBackend, voice: i64, padded: bool) -> Vec<f32> {
    let (n_phones, rows) = if padded { (24, 2) } else { (12, 1) };
    let mut ids = PHONES[..n_phones].to_vec();
    if padded {
        ids.extend((0..24).map(|at| 3 + at % 50));
    }
    let inputs = [
        longs(&[rows, n_phones], &ids),
        longs(&[rows], &vec![voice; rows]),
        Tensor::from_f32(&[rows], &vec![1.0; rows]).unwrap(),
    ];
    let outputs = backend.run(&Call { inputs: &inputs, rows }).unwrap().tensors;
    let count = outputs[1].data()[..8].try_into().unwrap();
    let n_frames = usize::try_from(i64::from_le_bytes(count)).unwrap();
    let n_padded = outputs[0].shape()[2];
    let mel = outputs[0].to_f32().unwrap();
    (0..80).flat_map(|bin| mel[bin * n_padded..bin * n_padded + n_frames].to_vec()).collect()
}

/// The sound of the frames from one to another.
fn sound(backend: &mut OnnxBackend, mel: &[f32], from: usize, to: usize) -> Vec<f32> {
    let n_frames = mel.len() / 80;
    let window: Vec<f32> = (0..80)
        .flat_map(|bin| {
            (from..to + 2 * CONTEXT).map(move |at| match at.checked_sub(CONTEXT) {
                Some(frame) if frame < n_frames => mel[bin * n_frames + frame],
                _ => EDGE,
            })
        })
        .collect();
    let input = Tensor::from_f32(&[1, 80, to - from + 2 * CONTEXT], &window).unwrap();
    run(backend, &[input], 1).swap_remove(0)
}

#[test]
fn chunked_sound_is_whole_sound_and_both_engines_agree() {
    let mut by_engine = Vec::new();
    for engine in ENGINES {
        let mel = frames(&mut load("voice", engine), 1, false);
        let mut vocoder = load("vocoder", engine);
        let n_frames = mel.len() / 80;
        assert!(40 < n_frames, "{n_frames} frames");
        let whole = sound(&mut vocoder, &mel, 0, n_frames);
        assert_eq!(whole.len(), n_frames * 200);
        let mut chunked = Vec::new();
        for from in (0..n_frames).step_by(24) {
            chunked.extend(sound(&mut vocoder, &mel, from, n_frames.min(from + 24)));
        }
        assert_close(&chunked, &whole, 1e-5, &format!("{engine:?}: chunked against whole"));
        assert!(whole.iter().any(|sample| 0.05 < sample.abs()), "it is audible");
        by_engine.push((mel, whole));
    }
    let (rten, onnx_runtime) = (&by_engine[0], &by_engine[1]);
    assert_close(&rten.0, &onnx_runtime.0, 1e-4, "frames");
    assert_close(&rten.1, &onnx_runtime.1, 1e-3, "sound");
}

#[test]
fn a_padded_row_is_the_same_row_alone() {
    for engine in ENGINES {
        let mut backend = load("voice", engine);
        for voice in 0..4 {
            let (alone, padded) =
                (frames(&mut backend, voice, false), frames(&mut backend, voice, true));
            assert_close(&padded, &alone, 1e-4, &format!("{engine:?}, voice {voice}"));
        }
    }
}
