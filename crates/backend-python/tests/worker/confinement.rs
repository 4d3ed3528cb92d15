//! A worker gets what it needs and no more.

use paceline_backend::{Backend as _, BackendError, Call};
use paceline_backend_python::PythonBackend;
use paceline_types::Tensor;

use crate::support::{cause, options, serve};

#[tokio::test(flavor = "multi_thread")]
async fn a_sandboxed_model_answers_and_reaches_nothing_else() {
    let mut options = options("Boxed");
    options.sandbox = true;

    let served = serve(&options, 1);

    assert_eq!(served.numbers(&[1.0]).await.unwrap(), [1.0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn too_much_memory_fails_the_call_and_not_the_worker() {
    let mut options = options("Dies");
    options.memory_limit = Some(512 << 20);
    let served = serve(&options, 1);

    let error = cause(served.numbers(&[8.0]).await.unwrap_err());

    let BackendError::Failed(text) = error else { panic!("{error}") };
    assert!(text.starts_with("MemoryError"), "{text}");
    assert_eq!(served.numbers(&[0.0]).await.unwrap(), [0.0]);
}

#[test]
fn each_instance_sees_its_own_device() {
    let mut options = options("Device");
    options.devices = ["3", "7"].map(str::to_owned).to_vec();
    let inputs = [Tensor::from_f32(&[1, 1], &[0.0]).unwrap()];

    for (instance, device) in [(0, 3.0), (1, 7.0), (2, 3.0)] {
        let mut backend = PythonBackend::load(&options, instance).unwrap();
        let outputs = backend.run(&Call { inputs: &inputs, rows: 1 }).unwrap();
        assert_eq!(outputs.tensors[0].to_f32().unwrap(), [device], "instance {instance}");
    }
}
