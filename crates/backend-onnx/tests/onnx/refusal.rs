//! Files that are no models, models that cannot be run, calls that do not fit: each an error that
//! says what is wrong, never a panic.

use std::fs;

use paceline_backend::{Backend as _, BackendError, Call};
use paceline_backend_onnx::{Engine, OnnxBackend, OnnxOptions};
use paceline_types::Tensor;
use rten_onnx::onnx::DataType;

use crate::{
    graphs::GraphFile,
    support::{ENGINES, in_repository, options, run},
};

fn error(options: &OnnxOptions) -> String {
    let error = OnnxBackend::load(options).unwrap_err();
    assert!(matches!(error, BackendError::Load(_)), "{error:?}");
    error.to_string()
}

fn x(rows: usize) -> Tensor {
    Tensor::from_f32(&[rows, 2], &vec![1.0; rows * 2]).unwrap()
}

#[test]
fn a_file_that_is_no_model_is_named() {
    let missing = OnnxOptions::new("no/such/model.onnx");
    assert!(error(&missing).contains("no/such/model.onnx cannot be read"));
    for content in [&b""[..], b"hello, this is text", &[0xff; 64]] {
        let file = GraphFile::of_bytes(content);
        for engine in ENGINES {
            let error = error(&options(file.path(), engine));
            assert!(error.contains("model.onnx is not an ONNX model, or is cut short"), "{error}");
        }
    }
}

#[test]
fn a_model_cut_short_anywhere_is_an_error_on_both_engines() {
    let whole = fs::read(in_repository("models/blazeface/1/model.onnx")).unwrap();
    for engine in ENGINES {
        for part in 0..20 {
            let file = GraphFile::of_bytes(&whole[..whole.len() * part / 20]);
            assert!(OnnxBackend::load(&options(file.path(), engine)).is_err(), "{part}");
        }
    }
}

#[test]
fn a_damaged_model_is_refused_or_runs_and_never_panics() {
    let whole = fs::read(in_repository("models/blazeface/1/model.onnx")).unwrap();
    let picture = Tensor::from_f32(&[1, 3, 128, 128], &vec![0.5; 3 * 128 * 128]).unwrap();
    // The graph is at both ends of the file; the weights between them damage nothing but answers.
    let spots = (0..12_000).chain(whole.len() - 12_000..whole.len()).step_by(97);
    for engine in ENGINES {
        let mut n_refused = 0;
        for spot in spots.clone() {
            let mut damaged = whole.clone();
            damaged[spot] ^= 0x55;
            let file = GraphFile::of_bytes(&damaged);
            match OnnxBackend::load(&options(file.path(), engine)) {
                Err(error) => {
                    assert!(matches!(error, BackendError::Load(_)));
                    n_refused += 1;
                }
                // Whether it runs does not matter, only that it comes back.
                Ok(mut backend) => {
                    drop(backend.run(&Call { inputs: std::slice::from_ref(&picture), rows: 1 }));
                }
            }
        }
        assert!(n_refused > 20, "{engine:?} refused only {n_refused}");
    }
}

#[test]
fn weights_beside_the_model_are_read_and_those_elsewhere_are_not() {
    let beside = GraphFile::external("w.data");
    let weights: Vec<u8> = [10.0_f32, 20.0].iter().flat_map(|w| w.to_le_bytes()).collect();
    fs::write(beside.path().with_file_name("w.data"), &weights).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let secret = elsewhere.path().join("w.data");
    fs::write(&secret, &weights).unwrap();
    let linked = GraphFile::external("link.data");
    #[cfg(unix)]
    std::os::unix::fs::symlink(&secret, linked.path().with_file_name("link.data")).unwrap();
    let absolute = GraphFile::external(secret.to_str().unwrap());

    for engine in ENGINES {
        let declared = |path, names: &[&str]| OnnxOptions {
            external_data: names.iter().map(|name| (*name).to_owned()).collect(),
            ..options(path, engine)
        };
        let mut backend = OnnxBackend::load(&declared(beside.path(), &["w.data"])).unwrap();
        assert_eq!(run(&mut backend, &[x(1)], 1), [[11.0, 21.0]]);
        let undeclared = error(&declared(beside.path(), &[]));
        assert!(undeclared.contains("which is not declared"), "{undeclared}");
        for file in [&linked, &absolute] {
            let names = ["link.data", secret.to_str().unwrap()];
            let error = error(&declared(file.path(), &names));
            assert!(error.contains("weight files must lie in the model's own folder"), "{error}");
        }
    }
}

#[test]
fn an_operator_that_no_engine_has_is_named_by_both() {
    let file = GraphFile::unary("Frobnicate", DataType::FLOAT);

    let auto = OnnxOptions { engine: Engine::Auto, ..options(file.path(), Engine::OnnxRuntime) };
    let error = error(&auto);

    assert!(
        error.contains("rten cannot run this model") && error.contains("Frobnicate"),
        "{error}"
    );
    assert!(error.contains("ONNX Runtime cannot run this model"), "{error}");
}

#[test]
fn without_onnx_runtime_the_error_says_how_to_get_it() {
    let file = GraphFile::unary("Identity", DataType::DOUBLE);
    for engine in [Engine::Auto, Engine::OnnxRuntime] {
        let error = error(&OnnxOptions { engine, ..OnnxOptions::new(file.path()) });
        assert!(error.contains("run `pip install onnxruntime`"), "{error}");
    }
    let cuda = OnnxOptions { cuda_device: Some(0), ..options(file.path(), Engine::Rten) };
    assert!(error(&cuda).contains("a CUDA `device` needs ONNX Runtime"));
}

#[test]
fn cuda_that_is_not_there_is_an_error_and_not_the_cpu() {
    let file = GraphFile::unary("Identity", DataType::FLOAT);
    let options = options(file.path(), Engine::OnnxRuntime);

    // The library that the tests install has no CUDA in it.
    let error = error(&OnnxOptions { cuda_device: Some(0), ..options });

    assert!(
        error.contains("CUDA device 0 cannot be had: CUDA execution provider is not enabled"),
        "{error}"
    );
    assert!(error.contains("install `onnxruntime-gpu`"), "{error}");
}

#[test]
fn a_call_that_does_not_fit_fails_and_the_next_one_does_not() {
    let file = GraphFile::unary("Identity", DataType::FLOAT);
    for engine in ENGINES {
        let mut backend = OnnxBackend::load(&options(file.path(), engine)).unwrap();
        let mut failure = |inputs: &[Tensor]| {
            let error = backend.run(&Call { inputs, rows: 1 }).unwrap_err();
            assert!(matches!(error, BackendError::Failed(_)), "{error:?}");
            error.to_string()
        };

        assert_eq!(failure(&[]), "the model takes 1 tensors, but 0 were given");
        let bytes =
            Tensor::build(paceline_types::DType::U8, [1, 2].as_slice().into(), vec![1, 2].into());
        assert_eq!(failure(&[bytes.unwrap()]), "input `x` is FP32, but UINT8 was given");
        let wide = Tensor::from_f32(&[1, 3], &[0.0; 3]).unwrap();
        assert!(!failure(&[wide]).is_empty());
        assert_eq!(run(&mut backend, &[x(3)], 3)[0].len(), 6);
    }
}

#[test]
fn a_graph_that_gives_more_rows_than_it_took_fails_the_call() {
    let file = GraphFile::adding_a_row();
    for engine in ENGINES {
        let mut backend = OnnxBackend::load(&options(file.path(), engine)).unwrap();

        let error = backend.run(&Call { inputs: &[x(2)], rows: 2 }).unwrap_err();

        assert_eq!(error.to_string(), "output `y` came back with the shape [3, 2] for 2 rows");
    }
}
