//! A worker gets what it needs and no more.

use paceline_backend::BackendError;

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
