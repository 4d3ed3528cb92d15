//! Several results for one item, as they come.

use paceline_backend::{BackendError, Item};
use paceline_batch::{Failure, Tag, Ticket};
use paceline_types::Tensor;
use tokio::sync::mpsc::{Receiver, channel};

use crate::support::{Served, cause, file_in, options, serve, until};

async fn stream(served: &Served, number: f32) -> (Receiver<Vec<Tensor>>, Ticket<Vec<Tensor>>) {
    let (early, results) = channel(64);
    let input = Tensor::from_f32(&[1, 1], &[number]).unwrap();
    let item = Item { inputs: [input].into_iter().collect(), early: Some(early), trace: None };
    (results, served.model.submit(item, &Tag::default()).await.unwrap())
}

async fn all(
    (mut results, ticket): (Receiver<Vec<Tensor>>, Ticket<Vec<Tensor>>),
) -> (Vec<f32>, Result<Vec<Tensor>, Failure>) {
    let mut numbers = Vec::new();
    while let Some(result) = results.recv().await {
        numbers.push(result[0].to_f32().unwrap()[0]);
    }
    (numbers, ticket.await)
}

#[tokio::test(flavor = "multi_thread")]
async fn each_item_of_a_batch_gets_its_own_results_in_order() {
    let served = serve(&options("Counts"), 1);
    let mut streams = Vec::new();
    for n in [3_u16, 1, 5, 0] {
        streams.push((n, stream(&served, f32::from(n)).await));
    }

    for (n, stream) in streams {
        let (numbers, end) = all(stream).await;
        let expected: Vec<f32> = (1..=n).map(f32::from).collect();
        assert_eq!(numbers, expected);
        assert_eq!(end.unwrap(), []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_fails_in_the_middle_ends_alone() {
    let served = serve(&options("Counts"), 1);
    let (seven, eight) = (stream(&served, 7.0).await, stream(&served, 8.0).await);

    let (numbers, end) = all(seven).await;
    assert_eq!(numbers, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert_eq!(cause(end.unwrap_err()).to_string(), "seven");
    let (numbers, end) = all(eight).await;
    assert_eq!((numbers.len(), end.is_ok()), (8, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_handed_out_is_not_handed_out_again() {
    let mut options = options("Counts");
    options.retry_safe = true;
    let served = serve(&options, 1);

    let (numbers, end) = all(stream(&served, 20.0).await).await;
    assert_eq!(numbers.len(), 12);
    assert_eq!(cause(end.unwrap_err()).to_string(), "ValueError: thirteen");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_nobody_reads_is_ended() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = options("Endless");
    let (closed, text) = file_in(&folder, "closed");
    options.env.insert("ONCE".to_owned(), text);
    let served = serve(&options, 1);
    let is_closed = || std::fs::read_to_string(&closed).is_ok_and(|text| text == "closed");

    std::fs::remove_file(&closed).unwrap();
    drop(stream(&served, 1.0).await);
    let left = stream(&served, 1.0).await;
    let error = cause(left.1.await.unwrap_err());
    assert!(matches!(error, BackendError::SlowReader), "{error}");
    until("the end of the stream", is_closed).await;
    let (numbers, end) = all(stream(&served, 0.0).await).await;
    assert_eq!((numbers, end.is_ok()), (vec![1.0], true), "the worker goes on");
}
