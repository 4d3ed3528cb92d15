//! A client that leaves before its request is with the model takes the request along, on every
//! wire, and is counted. Real sockets; the model is held by a gate.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that cannot go on has failed, and it supervises itself"
)]

#[path = "common/app.rs"]
mod app;
#[path = "common/gated.rs"]
mod gated;
#[path = "common/model.rs"]
mod model;

use axum::{body::Body, http::Request};
use gated::{BODY, PATIENCE, Rig, ask, connect, send};
use hyper_util::rt::{TokioExecutor, TokioIo};
use paceline_api::oip::proto::ModelStatisticsRequest;
use paceline_batch::Dropped;
use tokio::{io::AsyncReadExt as _, net::TcpStream, time::timeout};

/// A second request waits behind the first.
async fn has_second(rig: &Rig) {
    rig.until(|model| model.batch_stats().waiting_items == 1).await;
}

/// The second one has left; the first is answered, and nothing else was ever run.
async fn check(mut rig: Rig) {
    rig.until(|model| model.stats().n_cancelled == 1).await;
    let stats = rig.model.batch_stats();
    assert_eq!((stats.waiting_items, stats.items_dropped(Dropped::Cancelled)), (0, 1));
    let mut client = connect(rig.grpc).await;
    let asked = ModelStatisticsRequest { name: "m".to_owned(), ..Default::default() };
    let told = client.model_statistics(asked).await.unwrap().into_inner();
    let told = told.model_stats[0].response_stats["0"].cancel.unwrap();
    assert_eq!(told.count, 1);

    rig.release.send(()).unwrap();
    let mut head = [0; 12];
    timeout(PATIENCE, rig.first.read_exact(&mut head)).await.unwrap().unwrap();
    assert_eq!(&head, b"HTTP/1.1 200");
    let (requests, calls) = (rig.model.stats(), rig.model.batch_stats().batch_rows.count());
    assert_eq!((requests.n_good, requests.n_failed, calls), (1, 0, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_http_1_by_closing_the_connection() {
    let rig = Rig::open(1 << 20).await;
    let leaving = send(rig.http).await;
    has_second(&rig).await;
    drop(leaving);
    check(rig).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_http_2_by_resetting_the_stream() {
    let rig = Rig::open(1 << 20).await;
    let stream = TokioIo::new(TcpStream::connect(rig.http).await.unwrap());
    let (mut client, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    tokio::spawn(connection);
    let url = format!("http://{}/v2/models/m/infer", rig.http);
    let request = Request::post(url).body(Body::from(BODY)).unwrap();
    let leaving = tokio::spawn(client.send_request(request));
    has_second(&rig).await;
    // The connection stays open: only this stream ends.
    leaving.abort();
    check(rig).await;
    drop(client);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_grpc_by_cancelling_the_call() {
    let rig = Rig::open(1 << 20).await;
    let mut client = connect(rig.grpc).await;
    let leaving = tokio::spawn(async move { client.model_infer(ask()).await });
    has_second(&rig).await;
    leaving.abort();
    check(rig).await;
}
