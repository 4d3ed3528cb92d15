//! Where things are, computed inputs and the comparison, for all tests of this crate.

use std::{env, fs, num::NonZeroUsize, path::PathBuf};

use paceline_backend::{Backend, Call};
use paceline_backend_onnx::{Engine, OnnxBackend, OnnxOptions};
use paceline_types::{DType, Tensor};

pub(crate) const ENGINES: [Engine; 2] = [Engine::Rten, Engine::OnnxRuntime];

/// A path below the repository's root.
pub(crate) fn in_repository(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// A path below this crate's tests.
pub(crate) fn in_tests(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests").join(path)
}

/// Options for a model on one engine, with the installed ONNX Runtime. That runs on a CUDA device
/// where `PACELINE_TEST_CUDA` names one.
pub(crate) fn options(path: PathBuf, engine: Engine) -> OnnxOptions {
    let library_dir = in_repository(".cache/onnxruntime");
    let is_installed = fs::read_dir(&library_dir).is_ok_and(|mut dir| dir.next().is_some());
    assert!(
        engine != Engine::OnnxRuntime || is_installed,
        "ONNX Runtime is not in .cache/onnxruntime; run scripts/install-onnxruntime first"
    );
    let device = env::var("PACELINE_TEST_CUDA").ok().filter(|_| engine == Engine::OnnxRuntime);
    OnnxOptions {
        engine,
        threads: NonZeroUsize::new(1),
        cuda_device: device.map(|device| device.parse().expect("PACELINE_TEST_CUDA is a number")),
        library_dirs: vec![library_dir],
        ..OnnxOptions::new(path)
    }
}

/// Numbers from -1 to 1 that `golden/make.py` computes as well.
pub(crate) fn noise(seed: u64, n: usize) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let high = u16::try_from(state >> 48).expect("16 bits are left");
        (f32::from(high) - 32768.0) / 32768.0
    };
    (0..n).map(|_| next()).collect()
}

/// A golden file's numbers.
pub(crate) fn golden(name: &str) -> Vec<f32> {
    let data = fs::read(in_tests("golden").join(name)).expect("golden files are committed");
    data.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

/// An integer tensor.
pub(crate) fn integers(shape: &[usize], values: &[i32]) -> Tensor {
    let data: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Tensor::build(DType::I32, shape.into(), data.into()).unwrap()
}

/// One call, and the outputs' numbers.
pub(crate) fn run(backend: &mut OnnxBackend, inputs: &[Tensor], rows: usize) -> Vec<Vec<f32>> {
    let outputs = backend.run(&Call { inputs, rows }).unwrap();
    assert_eq!(outputs.failed, []);
    outputs.tensors.iter().map(|tensor| tensor.to_f32().unwrap()).collect()
}

/// Fails unless all numbers agree to `tolerance`.
pub(crate) fn assert_close(actual: &[f32], expected: &[f32], tolerance: f32, what: &str) {
    assert_eq!(actual.len(), expected.len(), "{what}");
    let distances = actual.iter().zip(expected).map(|(a, e)| (a - e).abs());
    // A NaN is farther than anything, and `max` would ignore it.
    let worst =
        distances.fold(0.0, |worst: f32, d| if d > worst || d.is_nan() { d } else { worst });
    assert!(worst <= tolerance, "{what}: off by {worst}, more than {tolerance}");
}
