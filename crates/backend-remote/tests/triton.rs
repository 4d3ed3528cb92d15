//! Remote models on a real Triton, which `scripts/test-remote-triton` starts.

use std::thread;

use paceline_backend::{Backend, Call, conformance};
use paceline_backend_remote::{RemoteModel, RemoteOptions};
use paceline_types::{DType, Dim, Tensor};

/// The endpoints of the Triton that the script started.
fn endpoints() -> Vec<String> {
    let text = std::env::var("TRITON_ENDPOINTS").expect("run scripts/test-remote-triton");
    text.split(',').map(str::to_owned).collect()
}

fn model(name: &str, endpoints: &[String]) -> RemoteModel {
    let endpoints = endpoints.iter().map(|endpoint| endpoint.parse().unwrap()).collect();
    RemoteModel::new(RemoteOptions::new(name, endpoints))
}

#[test]
#[ignore = "needs a Triton: scripts/test-remote-triton"]
fn a_model_on_triton_is_like_a_local_one() {
    for endpoint in endpoints() {
        for name in ["fp32", "int64", "bytes", "whole"] {
            let model = model(name, std::slice::from_ref(&endpoint));

            let checked = conformance::check(|| Ok(Box::new(model.open()?) as Box<dyn Backend>));

            assert_eq!(checked, Ok(()), "{name} at {endpoint}");
        }
    }
}

#[test]
#[ignore = "needs a Triton: scripts/test-remote-triton"]
fn what_triton_declares_is_read() {
    for endpoint in endpoints() {
        let batched = model("fp32", std::slice::from_ref(&endpoint)).open().unwrap();
        assert!(batched.signature().batched);
        assert_eq!(batched.max_rows(), Some(8));
        assert_eq!(batched.signature().inputs[0].dims, [Dim::Any]);

        let whole = model("whole", &[endpoint]).open().unwrap();
        assert!(!whole.signature().batched);
        assert_eq!(whole.max_rows(), None);
    }
}

#[test]
#[ignore = "needs a Triton: scripts/test-remote-triton"]
fn instances_ask_at_once_over_both_protocols_and_get_their_own() {
    let model = model("int64", &endpoints());
    thread::scope(|scope| {
        for seed in 0..8_u64 {
            let mut backend = model.open().unwrap();
            scope.spawn(move || {
                for round in 0..50_u64 {
                    let rows = usize::try_from(round % 8 + 1).unwrap();
                    let data: Vec<u8> = (0..rows as u64 * 4)
                        .flat_map(|at| (at + seed * 1000 + round * 100_000).to_le_bytes())
                        .collect();
                    let shape = [rows, 4].as_slice().into();
                    let input = Tensor::build(DType::I64, shape, data.into()).unwrap();

                    let call = Call { inputs: std::slice::from_ref(&input), rows };
                    let outputs = backend.run(&call).unwrap();

                    assert_eq!(outputs.tensors, [input]);
                }
            });
        }
    });
}

#[test]
#[ignore = "needs a Triton: scripts/test-remote-triton"]
fn a_model_that_fails_on_triton_says_so_in_its_own_words() {
    for endpoint in endpoints() {
        let mut backend = model("fails", &[endpoint]).open().unwrap();
        let input = Tensor::from_f32(&[1, 2], &[1.0, 2.0]).unwrap();

        let error = backend.run(&Call { inputs: &[input], rows: 1 }).unwrap_err();

        assert!(error.to_string().contains("told to fail"), "{error}");
    }
}
