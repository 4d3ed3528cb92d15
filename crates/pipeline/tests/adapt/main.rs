//! The adapters with their real models, against what the models' own packages say.

#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use paceline_backend::{Backend as _, Call};
use paceline_backend_onnx::{Engine, OnnxBackend, OnnxOptions};
use paceline_pipeline::adapt::{self, AdaptError, Adapter, Encoded};
use paceline_types::{ErrorCode, Tensor};
use serde_json::Value;

fn in_tests(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/adapt").join(path)
}

/// An adapter of the default repository, and its model.
struct Served {
    adapter: Box<dyn Adapter>,
    model: OnnxBackend,
}

impl Served {
    fn open(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models").join(name);
        let adapter = adapt::open(name, &folder).unwrap();
        let options =
            OnnxOptions { engine: Engine::Rten, ..OnnxOptions::new(folder.join("1/model.onnx")) };
        Self { adapter, model: OnnxBackend::load(&options).unwrap() }
    }

    fn ask(&mut self, body: &[u8]) -> Value {
        match self.adapter.encode(body).unwrap() {
            Encoded::Answer(answer) => answer,
            Encoded::Ask { inputs, decode } => {
                assert_eq!(self.model.signature().rows_of(&inputs), Ok(1));
                let outputs = self.model.run(&Call { inputs: &inputs, rows: 1 }).unwrap();
                decode(&outputs.tensors).unwrap()
            }
        }
    }
}

fn expected(file: &str) -> serde_json::Map<String, Value> {
    let text = fs::read_to_string(in_tests(file)).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn assert_near(actual: &Value, expected: &Value, tolerance: f64, what: &str) {
    if let (Value::Array(actual), Value::Array(expected)) = (actual, expected) {
        assert_eq!(actual.len(), expected.len(), "{what}");
        for (actual, expected) in actual.iter().zip(expected) {
            assert_near(actual, expected, tolerance, what);
        }
    } else {
        let (actual, expected) = (actual.as_f64().unwrap(), expected.as_f64().unwrap());
        assert!((actual - expected).abs() <= tolerance, "{what}: {actual} is not {expected}");
    }
}

#[test]
fn magika_says_what_its_python_package_says() {
    let mut magika = Served::open("magika");
    let expected = expected("magika/expected.json");
    assert!(expected.len() > 20);
    for (name, mut expected) in expected {
        let body = fs::read(in_tests("magika/files").join(&name)).unwrap();

        let mut actual = magika.ask(&body);

        // Where the model is unsure, it makes much of how sums are rounded: on a file of zeros ONNX
        // Runtime differs from itself by 6e-3 between a batch of one and of three.
        let is_sure = expected["score"].as_f64().unwrap() > 0.5;
        let tolerance = if is_sure { 2e-3 } else { 2e-2 };
        assert_near(&actual["score"], &expected["score"], tolerance, &name);
        actual["score"] = Value::Null;
        expected["score"] = Value::Null;
        // The package has a label for "not asked"; ours is null.
        if expected["model_label"] == "undefined" {
            expected["model_label"] = Value::Null;
        }
        assert_eq!(actual, expected, "{name}");
    }
}

/// Fails unless the adapter finds the faces of a golden file, within some of the model's pixels.
fn check_faces(golden: &str, n_pixels: f64, score: f64) {
    let mut blazeface = Served::open("blazeface");
    for (name, expected) in expected(golden) {
        let body = fs::read(in_tests("blazeface").join(format!("{name}.jpg"))).unwrap();

        let actual = blazeface.ask(&body);

        assert_eq!(actual["width"], expected["width"]);
        assert_eq!(actual["height"], expected["height"]);
        let longest = expected["width"].as_f64().unwrap().max(expected["height"].as_f64().unwrap());
        let distance = n_pixels * longest / 128.0;
        // From left to right: of two faces much alike, which is surer is for nobody to say.
        let by_place = |faces: &Value| {
            let mut faces = faces.as_array().unwrap().clone();
            faces.sort_by(|a, b| a["box"][0].as_f64().partial_cmp(&b["box"][0].as_f64()).unwrap());
            faces
        };
        let (faces, expected) = (by_place(&actual["faces"]), by_place(&expected["faces"]));
        assert_eq!(faces.len(), expected.len(), "{name}");
        for (face, expected) in faces.iter().zip(&expected) {
            assert_near(&face["box"], &expected["box"], distance, &name);
            assert_near(&face["keypoints"], &expected["keypoints"], distance, &name);
            assert_near(&face["score"], &expected["score"], score, &name);
        }
    }
}

#[test]
fn blazeface_finds_what_a_computation_in_numpy_finds() {
    check_faces("blazeface/numpy.json", 0.3, 0.005);
}

#[test]
fn blazeface_finds_what_mediapipe_finds() {
    check_faces("blazeface/mediapipe.json", 2.0, 0.02);
}

#[test]
fn a_body_that_is_no_picture_is_the_callers_fault() {
    let blazeface = Served::open("blazeface");

    let error = blazeface.adapter.encode(b"not a picture").unwrap_err();

    assert_eq!(error.code(), ErrorCode::InvalidInput);
    assert!(error.to_string().starts_with("the body is not a PNG or JPEG picture"), "{error}");
}

#[test]
fn outputs_of_another_model_are_refused_with_what_is_expected() {
    let body = fs::read(in_tests("blazeface/square.jpg")).unwrap();
    let wrong = Tensor::from_f32(&[1, 3], &[0.0; 3]).unwrap();
    for name in ["magika", "blazeface"] {
        for outputs in [&[][..], std::slice::from_ref(&wrong)] {
            let Encoded::Ask { decode, .. } = Served::open(name).adapter.encode(&body).unwrap()
            else {
                panic!("a picture is asked about")
            };
            let error = decode(outputs).unwrap_err();
            assert!(matches!(error, AdaptError::Outputs { .. }), "{error}");
            assert_eq!(error.code(), ErrorCode::ModelFailed);
        }
    }
}

#[test]
fn an_adapter_that_cannot_be_opened_says_what_is_missing() {
    let text = |name| adapt::open(name, Path::new("no/such/folder")).unwrap_err().to_string();

    assert_eq!(text("magika"), "the adapter needs `config.json` in the model's folder");
    assert_eq!(
        text("yolo"),
        "there is no adapter `yolo`; there are magika, blazeface and moonshine"
    );
    let malformed = adapt::Magika::build(b"{}", b"{}").unwrap_err().to_string();
    assert!(malformed.starts_with("`config.json` in the model's folder is malformed: missing"));
}
