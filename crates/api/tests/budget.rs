//! What requests hold together is bounded, on every wire. The first request is at the model's gate
//! and holds its share meanwhile.
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

use gated::{BODY, PATIENCE, Rig, ask, connect, send};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

/// An answer: its head, and as much of its body as came with it.
async fn answer(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    while !text.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
        let n_read = timeout(PATIENCE, stream.read_buf(&mut text)).await.unwrap().unwrap();
        assert_ne!(n_read, 0, "no whole head came");
    }
    String::from_utf8(text).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_fit_beside_the_others_is_refused_and_fits_once_they_are_gone() {
    let mut rig = Rig::open(BODY.len() + 20).await;

    let refused = answer(&mut send(rig.http).await).await;
    assert!(refused.starts_with("HTTP/1.1 503"), "{refused}");
    assert!(refused.contains("retry-after: 1"), "{refused}");
    let mut packed = TcpStream::connect(rig.http).await.unwrap();
    let length = BODY.len();
    let head = "POST /v2/models/m/infer HTTP/1.1\r\nHost: test\r\nAccept-Encoding: gzip\r\n";
    packed
        .write_all(format!("{head}Content-Length: {length}\r\n\r\n{BODY}").as_bytes())
        .await
        .unwrap();
    let refused = answer(&mut packed).await;
    assert!(refused.starts_with("HTTP/1.1 503"), "through the router too: {refused}");
    let status = connect(rig.grpc).await.model_infer(ask()).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::ResourceExhausted, "{status}");

    rig.release.send(()).unwrap();
    assert!(answer(&mut rig.first).await.starts_with("HTTP/1.1 200"));
    for _ in 0..3 {
        rig.release.send(()).unwrap();
        assert!(answer(&mut send(rig.http).await).await.starts_with("HTTP/1.1 200"));
    }
    rig.release.send(()).unwrap();
    connect(rig.grpc).await.model_infer(ask()).await.unwrap();
}
