//! Clients that are slow, silent, or too many. How long each may take is set very short, and what
//! is asserted is that the end comes, not when.

use std::net::SocketAddr;

use futures_util::{StreamExt as _, stream};
use paceline_api::oip::proto::{
    ModelInferRequest, grpc_inference_service_client::GrpcInferenceServiceClient,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
    sync::mpsc,
    time::{Duration, timeout},
};
use tonic::transport::Endpoint;

use crate::support::{Http2, PATIENCE, ask, ask_on, closed, start};

const LIVE: &[u8] = b"GET /v2/health/live HTTP/1.1\r\nhost: localhost\r\n\r\n";
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const NO_SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
/// Nobody has time here.
const SHORT: [&str; 3] =
    ["server.header_timeout=50ms", "server.idle_timeout=50ms", "server.stall_timeout=50ms"];

async fn say(address: SocketAddr, words: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(words).await.unwrap();
    stream
}

/// `GET /`, all of it in one frame.
fn http2_request() -> Vec<u8> {
    let head = [&[0x82, 0x86, 0x84][..], &[0x41, 9], b"localhost"].concat();
    let length = u8::try_from(head.len()).unwrap();
    [&[0, 0, length, 1, 5, 0, 0, 0, 1], &head[..]].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn who_begins_no_request_is_cut() {
    let long = ["server.header_timeout=50ms", "server.idle_timeout=1h", "server.stall_timeout=1h"];
    let server = start(&long).await;
    let settings = [PREFACE, NO_SETTINGS].concat();
    for address in [server.http, server.grpc] {
        for words in [
            &b""[..],
            b"G",
            b"GET /v2/health/live HTTP/1.1\r\nhost: loc",
            &PREFACE[..9],
            PREFACE,
            &settings,
        ] {
            closed(say(address, words).await).await;
        }
    }
    // One answered, the next one only begun.
    let mut stream = say(server.http, LIVE).await;
    assert!(stream.read(&mut [0; 1024]).await.unwrap() > 0);
    stream.write_all(b"GET /v2").await.unwrap();
    closed(stream).await;
    assert_eq!(ask(server.http, "GET", "/v2/health/live", &[]).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_idle_is_let_go() {
    let long =
        ["server.header_timeout=1h", "server.idle_timeout=50ms", "server.stall_timeout=50ms"];
    let server = start(&long).await;

    closed(say(server.http, LIVE).await).await;

    closed(say(server.http, &[PREFACE, NO_SETTINGS, &http2_request()].concat()).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_send_what_it_promised_is_cut() {
    let server = start(&["server.header_timeout=1h", "server.stall_timeout=50ms"]).await;
    for words in [
        "POST /v1/models/simulated/infer HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n[1",
        "POST /v1/models/simulated/infer HTTP/1.1\r\nhost: localhost\r\n\
         transfer-encoding: chunked\r\n\r\n1\r\n[\r\n",
    ] {
        closed(say(server.http, words.as_bytes()).await).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_read_is_cut() {
    // There is one place: another client is served only once the first one has lost it.
    let server = start(&[
        "server.stall_timeout=100ms",
        "server.idle_timeout=100ms",
        "server.max_connections=1",
        "server.max_connections_per_address=9",
    ])
    .await;
    let n_values = 2 << 20;
    let json = format!(
        r#"{{"inputs": [{{"name": "INPUT", "datatype": "FP32", "shape": [1, {n_values}],
            "parameters": {{"binary_data_size": {}}}}}],
            "parameters": {{"binary_data_output": true}}}}"#,
        n_values * 4
    );
    let request = format!(
        "POST /v2/models/simulated/infer HTTP/1.1\r\nhost: localhost\r\n\
         inference-header-content-length: {}\r\ncontent-length: {}\r\n\r\n{json}",
        json.len(),
        json.len() + n_values * 4
    );
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut held = socket.connect(server.http).await.unwrap();
    held.write_all(request.as_bytes()).await.unwrap();
    held.write_all(&vec![0; n_values * 4]).await.unwrap();

    assert_eq!(ask(server.http, "GET", "/v2/health/live", &[]).await.status, 200);

    // In HTTP/2 a client need not fill any buffer: it opens no window.
    let no_window = [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0];
    let held = [held, say(server.http, &[PREFACE, &no_window, &http2_request()].concat()).await];

    assert_eq!(ask(server.http, "GET", "/v2/health/live", &[]).await.status, 200);

    drop(held);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_is_bounded_and_a_body_by_other_bounds() {
    let server = start(&["server.max_head=2048"]).await;
    let long = |n_bytes: usize| {
        let begin = "POST /v1/models/simulated/infer HTTP/1.1\r\nhost: localhost\r\n\
                     connection: close\r\ncontent-length: 100000\r\nx: ";
        let end = "\r\n\r\n";
        format!("{begin}{}{end}", "x".repeat(n_bytes - begin.len() - end.len()))
    };
    let body = format!("{}1", " ".repeat(99_999));
    for (head, pieces, status) in [
        (long(2048), 2048, "200"),
        (long(2048), 100, "200"),
        (long(2049), 2049, "431"),
        (long(99_000), 100, "431"),
        // Its end never comes.
        (long(4096)[..4000].to_owned(), 4096, "431"),
    ] {
        let mut stream = say(server.http, b"").await;
        for piece in head.as_bytes().chunks(pieces) {
            // Whoever has heard enough hangs up.
            drop(stream.write_all(piece).await);
            tokio::task::yield_now().await;
        }
        drop(stream.write_all(body.as_bytes()).await);
        let mut answer = [0; 12];
        timeout(PATIENCE, stream.read_exact(&mut answer)).await.unwrap().unwrap();
        assert_eq!(str::from_utf8(&answer).unwrap(), format!("HTTP/1.1 {status}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_us_is_not_cut() {
    let slow = "models.simulated.simulated.delay=200ms";
    let server = start(&[&SHORT[..], &[slow]].concat()).await;
    let request = "POST /v1/models/simulated/infer HTTP/1.1\r\nhost: localhost\r\n\
                   connection: close\r\ncontent-length: 1\r\n\r\n1";
    let mut stream = say(server.http, request.as_bytes()).await;

    let mut answer = String::new();
    timeout(PATIENCE, stream.read_to_string(&mut answer)).await.unwrap().unwrap();

    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_may_be_silent_for_as_long_as_it_likes() {
    let server = start(&SHORT).await;
    let endpoint = Endpoint::from_shared(format!("http://{}", server.grpc)).unwrap();
    let mut client = GrpcInferenceServiceClient::new(endpoint.connect().await.unwrap());
    let (questions, receiver) = mpsc::channel::<ModelInferRequest>(1);
    let next = async |mut receiver: mpsc::Receiver<_>| Some((receiver.recv().await?, receiver));
    let asked = Box::pin(stream::unfold(receiver, next));
    let mut answers = client.model_stream_infer(asked).await.unwrap().into_inner();

    // Others come and are cut, one after the other, so some time passes.
    for _ in 0..4 {
        closed(say(server.grpc, b"").await).await;
    }

    questions.send(ModelInferRequest::default()).await.unwrap();
    let answer = timeout(PATIENCE, answers.next()).await.unwrap().unwrap().unwrap();
    assert!(!answer.error_message.is_empty(), "it asked for no model, and was answered");
}

#[tokio::test(flavor = "multi_thread")]
async fn there_are_so_many_places_and_no_more() {
    let sets = ["server.max_connections=2", "server.max_connections_per_address=9"];
    let server = start(&sets).await;
    let mut first = Http2::connect(server.http).await;
    let mut second = Http2::connect(server.grpc).await;
    assert_eq!(first.ask("GET", "/v2/health/live", &[]).await.status, 200);
    assert_eq!(second.call("/grpc.health.v1.Health/Check", &[]).await, None);
    let mut third = say(server.http, LIVE).await;

    let mut byte = [0];
    let early = timeout(Duration::from_millis(50), third.read(&mut byte)).await;
    assert!(early.is_err(), "both doors' places are taken");
    drop(second);
    assert_eq!(timeout(PATIENCE, third.read(&mut byte)).await.unwrap().unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_address_has_its_share_and_no_more() {
    let server = start(&["server.max_connections_per_address=2"]).await;
    let mut first = Http2::connect(server.http).await;
    let mut second = Http2::connect(server.grpc).await;
    assert_eq!(first.ask("GET", "/v2/health/live", &[]).await.status, 200);
    assert_eq!(second.call("/grpc.health.v1.Health/Check", &[]).await, None);

    for address in [server.http, server.grpc] {
        closed(TcpStream::connect(address).await.unwrap()).await;
    }
    let neighbour = TcpSocket::new_v4().unwrap();
    neighbour.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let stream = neighbour.connect(server.http).await.unwrap();
    assert_eq!(ask_on(stream, "GET", "/v2/health/live", &[]).await.status, 200);
    assert_eq!(first.ask("GET", "/v2/health/live", &[]).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_can_keep_the_server_from_stopping() {
    let server = start(&["server.drain_timeout=8s"]).await;
    let body = "POST /v1/models/simulated/infer HTTP/1.1\r\nhost: localhost\r\n\
                content-length: 9\r\n\r\n[1";
    let mut held = Vec::new();
    for words in [&b""[..], b"GET", PREFACE, LIVE, body.as_bytes()] {
        held.push(say(server.http, words).await);
        held.push(say(server.grpc, words).await);
    }
    assert_eq!(ask(server.http, "GET", "/v2/health/live", &[]).await.status, 200);

    server.stop().await.unwrap();

    drop(held);
}
