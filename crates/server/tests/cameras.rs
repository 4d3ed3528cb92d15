//! Frames that are pushed into a whole server, over real sockets: WebSocket and gRPC.

use std::net::SocketAddr;

use futures_util::{SinkExt as _, StreamExt as _};
use paceline_api::grpc::cameras::{
    Failure, Format, Frame, Outcome, cameras_client::CamerasClient, outcome::Outcome as Fate,
};
use paceline_server::{Server, config::load::load};
use serde_json::{Value, json};
use tokio::{net::TcpStream, sync::oneshot};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async, tungstenite::Message};
use tonic::transport::Endpoint;

struct Running {
    http: SocketAddr,
    grpc: SocketAddr,
    _stop: oneshot::Sender<()>,
}

/// A server without Redis whose model answers its input; `yard` keeps only the latest.
async fn start(sets: &[&str]) -> Running {
    let own = [
        "server.listen=127.0.0.1:0",
        "server.grpc_listen=127.0.0.1:0",
        "server.model_repository=none",
        "cameras.source='push'",
        "cameras.model='eyes'",
        "cameras.in_model=1",
        "cameras.policies=[{ cameras = 'yard', keep = 'latest' }]",
        "models.eyes.backend='simulated'",
        "models.eyes.simulated.dtype='UINT8'",
    ];
    let all: Vec<String> = own.iter().chain(sets).map(|set| (*set).to_owned()).collect();
    let server = Server::build(load(None, [], &all).unwrap()).await.unwrap();
    let (http, grpc) = (server.address(), server.grpc_address());
    let (stop, stopped) = oneshot::channel::<()>();
    tokio::spawn(server.run(async {
        stopped.await.ok();
    }));
    Running { http, grpc, _stop: stop }
}

/// A model that is busy for so long that frames wait behind one another.
const SLOW: &str = "models.eyes.simulated.delay=100ms";

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

async fn open(server: &Running, camera: &str) -> Socket {
    let url = format!("ws://{}/v1/cameras/{camera}/stream", server.http);
    connect_async(url).await.unwrap().0
}

async fn text(socket: &mut Socket) -> Value {
    match socket.next().await.unwrap().unwrap() {
        Message::Text(text) => serde_json::from_str(&text).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_message_of_a_socket_is_a_frame_and_each_is_answered_in_order() {
    let server = start(&[]).await;
    let mut socket = open(&server, "door").await;

    for frame in 0..40_u8 {
        socket.send(Message::Binary(vec![frame; 4].into())).await.unwrap();
    }
    for number in 0..40_u8 {
        let answer = text(&mut socket).await;
        assert_eq!(
            (&answer["number"], &answer["outputs"][0]["shape"]),
            (&json!(number), &json!([1, 4]))
        );
        let data = socket.next().await.unwrap().unwrap();
        assert_eq!(data, Message::Binary(vec![number; 4].into()));
    }
    socket.send(Message::Binary(b"\xff\xd8\xff no picture".to_vec().into())).await.unwrap();
    let refused = text(&mut socket).await;
    assert_eq!((&refused["number"], &refused["code"]), (&json!(40), &json!("invalid_input")));
    assert!(refused["error"].as_str().unwrap().contains("no pictures"), "{refused}");
    socket.close(None).await.unwrap();
    assert!(matches!(socket.next().await, Some(Ok(Message::Close(_))) | None));
}

#[tokio::test(flavor = "multi_thread")]
async fn over_a_socket_the_latest_wins_and_the_others_are_told() {
    let server = start(&[SLOW]).await;
    let mut socket = open(&server, "yard").await;
    for frame in 0..5_u8 {
        socket.send(Message::Binary(vec![frame; 4].into())).await.unwrap();
    }

    let mut fates = Vec::new();
    while fates.len() < 5 {
        let answer = text(&mut socket).await;
        if answer["outputs"].is_array() {
            socket.next().await.unwrap().unwrap();
            fates.push("result");
        } else {
            assert!(answer["error"].as_str().unwrap().contains("superseded"), "{answer}");
            fates.push("superseded");
        }
    }
    assert_eq!((fates[0], fates[4]), ("result", "result"), "{fates:?}");
    assert!(fates.contains(&"superseded"), "{fates:?}");
}

async fn push(server: &Running, frames: Vec<Frame>) -> Vec<Outcome> {
    let channel = Endpoint::from_shared(format!("http://{}", server.grpc)).unwrap();
    let mut client = CamerasClient::new(channel.connect().await.unwrap());
    let answers = client.push(futures_util::stream::iter(frames)).await.unwrap().into_inner();
    answers.map(Result::unwrap).collect().await
}

fn frame(camera: &str, data: &[u8]) -> Frame {
    Frame { camera: camera.to_owned(), data: data.to_vec().into(), ..Frame::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_of_any_cameras_go_through_one_grpc_stream_in_order() {
    let server = start(&[]).await;
    let mut frames: Vec<Frame> = (0..40_u8)
        .map(|number| frame(["door", "gate"][usize::from(number % 2)], &[number; 4]))
        .collect();
    frames.push(Frame { format: Format::Picture.into(), ..frame("door", b"no picture") });
    frames.push(frame("", b"nobody's"));

    let outcomes = push(&server, frames).await;

    assert_eq!(outcomes.len(), 42);
    for (number, outcome) in (0..).zip(&outcomes) {
        assert_eq!(outcome.number, number);
        match outcome.outcome.as_ref().unwrap() {
            Fate::Tensors(tensors) => {
                assert_eq!(tensors.data, vec![u8::try_from(number).unwrap(); 4]);
                let outputs: Value = serde_json::from_slice(&tensors.outputs).unwrap();
                assert_eq!(outputs[0]["shape"], json!([1, 4]));
            }
            Fate::Failure(Failure { code, .. }) => {
                assert!(40 <= number && code == "invalid_input", "{outcome:?}");
            }
            Fate::Json(_) => panic!("{outcome:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn over_grpc_the_latest_wins_and_the_others_are_told() {
    let server = start(&[SLOW]).await;

    let outcomes =
        push(&server, (0..5_u8).map(|number| frame("yard", &[number; 4])).collect()).await;

    let is_result = |outcome: &Outcome| matches!(outcome.outcome, Some(Fate::Tensors(_)));
    assert!(is_result(&outcomes[0]) && is_result(&outcomes[4]), "{outcomes:?}");
    let superseded = outcomes.iter().filter(|outcome| match &outcome.outcome {
        Some(Fate::Failure(failure)) => failure.message.contains("superseded"),
        _ => false,
    });
    assert!(0 < superseded.count(), "{outcomes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_cameras_says_so_over_grpc() {
    let own = [
        "server.listen=127.0.0.1:0",
        "server.grpc_listen=127.0.0.1:0",
        "server.model_repository=none",
    ];
    let server = Server::build(load(None, [], &own.map(str::to_owned)).unwrap()).await.unwrap();
    let grpc = server.grpc_address();
    tokio::spawn(server.run(std::future::pending()));
    let channel = Endpoint::from_shared(format!("http://{grpc}")).unwrap();
    let mut client = CamerasClient::new(channel.connect().await.unwrap());

    let refused = client.push(futures_util::stream::empty()).await.unwrap_err();

    assert_eq!(refused.code(), tonic::Code::NotFound);
}
