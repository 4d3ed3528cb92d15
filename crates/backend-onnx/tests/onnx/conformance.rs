//! The suite that every backend must pass, for every model here on both engines.

use paceline_backend::conformance::{self, Options};
use paceline_backend_onnx::{OnnxBackend, OnnxOptions, StateLink};
use paceline_types::{DType, Tensor};

use crate::support::{ENGINES, in_repository, in_tests, options};

fn check(path: &std::path::Path, change: impl Fn(OnnxOptions) -> OnnxOptions) {
    for engine in ENGINES {
        let options = change(options(path.to_owned(), engine));
        // One frame of the voice detector, with the context that leads it.
        let sizes = Options { max_rows: 3, length: 576, ..Options::default() };
        let checked =
            conformance::check_with(&sizes, || Ok(Box::new(OnnxBackend::load(&options)?)));
        checked.unwrap_or_else(|fault| panic!("{} on {engine:?}: {fault}", path.display()));
    }
}

fn state(input: &str, output: &str, batch_axis: usize) -> Vec<StateLink> {
    vec![StateLink { input: input.to_owned(), output: output.to_owned(), batch_axis }]
}

#[test]
fn the_classifier_conforms() {
    check(&in_repository("models/magika/1/model.onnx"), |options| options);
}

#[test]
fn the_face_detector_conforms() {
    check(&in_repository("models/blazeface/1/model.onnx"), |options| options);
}

#[test]
fn the_voice_detector_conforms_with_its_state_across_the_batch() {
    let rate =
        Tensor::build(DType::I64, [].as_slice().into(), 16_000_i64.to_le_bytes().to_vec().into());
    check(&in_tests("models/silero-vad/model.onnx"), |options| OnnxOptions {
        states: state("state", "stateN", 1),
        constants: vec![("sr".to_owned(), rate.clone().unwrap())],
        ..options
    });
}

#[test]
fn a_model_that_smooths_conforms() {
    let path = in_repository("tests/clients/triton_repository/smoothed/1/model.onnx");
    check(&path, |options| OnnxOptions { states: state("STATE_IN", "STATE_OUT", 0), ..options });
}
