//! Calls that are made by the threads which serve clients.

use std::{sync::Arc, time::Duration};

use paceline_backend::BackendError;

use crate::support::{cause, options, serve};

#[tokio::test(flavor = "multi_thread")]
async fn an_instant_model_answers_and_survives_its_worker() {
    let mut options = options("Dies");
    options.instant = true;
    let served = serve(&options, 1);

    assert_eq!(served.numbers(&[0.0, 8.0]).await.unwrap(), [0.0, 8.0]);
    let error = cause(served.numbers(&[2.0]).await.unwrap_err());
    assert!(matches!(error, BackendError::Crashed(_)), "{error}");
    assert_eq!(served.numbers(&[0.0]).await.unwrap(), [0.0]);
}

/// One thread serves all clients here, so a call that kept it would keep everybody.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_call_that_takes_long_all_the_same_holds_nobody_up() {
    let mut options = options("Dies");
    options.instant = true;
    options.call_timeout = Duration::from_secs(20);
    let (hung, well) = (Arc::new(serve(&options, 1)), Arc::new(serve(&options, 1)));
    let hangs = tokio::spawn(async move { hung.numbers(&[1.0]).await });

    let answers = tokio::spawn(async move { well.numbers(&[0.0]).await });

    assert_eq!(answers.await.unwrap().unwrap(), [0.0]);
    assert!(!hangs.is_finished());
    hangs.abort();
}
