//! One bad item fails alone, whichever way the model says so.

use paceline_backend::BackendError;

use crate::support::{cause, options, serve};

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_row_fails_alone_in_the_models_words() {
    let served = serve(&options("Refuses"), 1);

    let (good, bad, other) =
        tokio::join!(served.numbers(&[1.0]), served.numbers(&[-2.0]), served.numbers(&[3.0]));

    assert_eq!((good.unwrap(), other.unwrap()), (vec![1.0], vec![3.0]));
    let BackendError::Failed(text) = cause(bad.unwrap_err()) else { panic!("failed") };
    assert_eq!(text, "-2 is negative");
    let BackendError::Failed(text) = cause(served.numbers(&[-4.0]).await.unwrap_err()) else {
        panic!("failed")
    };
    assert_eq!(text, "-4 is negative", "also where nobody is answered");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exception_is_found_out_and_fails_the_item_that_caused_it() {
    let served = serve(&options("Raises"), 1);

    let (good, bad, other) =
        tokio::join!(served.numbers(&[1.0]), served.numbers(&[-2.0]), served.numbers(&[3.0]));

    assert_eq!((good.unwrap(), other.unwrap()), (vec![1.0], vec![3.0]));
    let BackendError::Failed(text) = cause(bad.unwrap_err()) else { panic!("failed") };
    assert_eq!(text, "ValueError: a negative number");
    assert_eq!(served.numbers(&[4.0]).await.unwrap(), [4.0], "the worker goes on");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_output_that_was_not_declared_is_refused_by_name() {
    let error =
        paceline_backend_python::PythonBackend::load(&options("Wrong"), 0).map(|mut backend| {
            use paceline_backend::{Backend as _, Call};
            let input = paceline_types::Tensor::from_f32(&[1, 1], &[0.0]).unwrap();
            backend.run(&Call { inputs: &[input], rows: 1 }).unwrap_err()
        });

    let text = "output `OUTPUT` is FP32 [-1, -1], but FP32 [1, 1, 1] was given";
    assert_eq!(error.unwrap().to_string(), text);
}
