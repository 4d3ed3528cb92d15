//! A server, a client, and speech.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use futures_util::{SinkExt as _, StreamExt as _};
use paceline_pipeline::{Models, speech::Speech};
use paceline_server::{Server, config::load::load};
use serde_json::{Value, json};
use tokio::{
    net::TcpStream,
    sync::oneshot,
    task::JoinHandle,
    time::{sleep, timeout},
};
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async,
    tungstenite::{Message, protocol::CloseFrame},
};

pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) vosk: Option<SocketAddr>,
    pub(crate) wyoming: Option<SocketAddr>,
    pub(crate) models: Arc<Models>,
    pub(crate) speech: Speech,
    stop: oneshot::Sender<()>,
    done: JoinHandle<Result<(), paceline_server::RunError>>,
}

/// Starts a server with these settings on free ports, without the repository's models.
pub(crate) async fn start(sets: &[&str]) -> Running {
    let own = [
        "server.listen=127.0.0.1:0",
        "server.grpc_listen=127.0.0.1:0",
        "server.model_repository=none",
    ];
    let all: Vec<String> = own.iter().chain(sets).map(|set| (*set).to_owned()).collect();
    let server = Server::build(load(None, [], &all).unwrap()).await.unwrap();
    let (address, vosk, wyoming) =
        (server.address(), server.vosk_address(), server.wyoming_address());
    let (models, speech) = (Arc::clone(server.models()), server.speech().clone());
    let (stop, stopped) = oneshot::channel::<()>();
    let done = tokio::spawn(server.run(async {
        stopped.await.ok();
    }));
    Running { address, vosk, wyoming, models, speech, stop, done }
}

impl Running {
    pub(crate) async fn connect(&self, path: &str) -> Client {
        let url = format!("ws://{}/api/v1/{path}", self.address);
        Client { socket: connect_async(url).await.unwrap().0 }
    }

    /// Tells the server to stop; the end of it is to be waited for.
    pub(crate) fn stop(self) -> JoinHandle<Result<(), paceline_server::RunError>> {
        self.stop.send(()).unwrap();
        self.done
    }
}

pub(crate) struct Client {
    pub(crate) socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
}

impl Client {
    pub(crate) async fn send(&mut self, request: &Value) {
        self.socket.send(Message::Text(request.to_string().into())).await.unwrap();
    }

    pub(crate) async fn audio(&mut self, bytes: &[u8]) {
        self.socket.send(Message::Binary(bytes.to_vec().into())).await.unwrap();
    }

    /// The next event, or how the server closed.
    pub(crate) async fn next(&mut self) -> Result<Value, Option<CloseFrame>> {
        loop {
            match self.socket.next().await {
                Some(Ok(Message::Text(text))) => return Ok(serde_json::from_str(&text).unwrap()),
                Some(Ok(Message::Close(frame))) => return Err(frame),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Err(None),
            }
        }
    }

    /// Everything until the server closes, and the code with which it does.
    pub(crate) async fn rest(&mut self) -> (Vec<Value>, Option<u16>) {
        let mut events = Vec::new();
        loop {
            match self.next().await {
                Ok(event) => events.push(event),
                Err(frame) => return (events, frame.map(|frame| frame.code.into())),
            }
        }
    }
}

/// Sends a start, audio in these chunks, and a stop; returns every event.
pub(crate) async fn talk(
    server: &Running,
    path: &str,
    start: &Value,
    chunks: impl IntoIterator<Item = &[u8]>,
) -> Vec<Value> {
    let mut client = server.connect(path).await;
    client.send(start).await;
    for chunk in chunks {
        client.audio(chunk).await;
    }
    client.send(&json!({"request": "stop", "disconnect": true})).await;
    let (events, code) = client.rest().await;
    assert_eq!(code, Some(1000), "{events:?}");
    events
}

/// A start message for raw samples.
pub(crate) fn raw(rate: u32, channels: u32, depth: u32, is_float: bool) -> Value {
    json!({"request": "start", "format": {
        "channels": channels, "sample_rate": rate, "bit_depth": depth, "is_float": is_float}})
}

/// The same with a further field.
pub(crate) fn with(mut start: Value, field: &str, value: Value) -> Value {
    start[field] = value;
    start
}

/// Eleven seconds of speech: 16 kHz, mono, s16.
pub(crate) fn speech() -> Vec<u8> {
    let wav = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../cli/assets/speech.wav"));
    let wav = wav.unwrap();
    let data = wav.windows(4).position(|name| name == b"data").unwrap();
    wav[data + 8..].to_vec()
}

/// Events of one kind.
pub(crate) fn of<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["type"] == kind).collect()
}

/// Sum of all counts.
pub(crate) fn count(events: &[Value]) -> u64 {
    of(events, "segment").iter().map(|event| event["count"].as_u64().unwrap()).sum()
}

/// Cuts audio into random pieces, odd ones too.
pub(crate) fn pieces(audio: &[u8], seed: u64, longest: usize) -> Vec<&[u8]> {
    let mut state = seed | 1;
    let (mut rest, mut pieces) = (audio, Vec::new());
    while !rest.is_empty() {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let length = (state >> 33) as usize % longest + 1;
        let (piece, later) = rest.split_at(length.min(rest.len()));
        pieces.push(piece);
        rest = later;
    }
    pieces
}

/// Waits, within bounds, for what the server does in its own time.
pub(crate) async fn eventually(mut holds: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !holds().await {
            sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(Duration::from_secs(20), wait).await.unwrap();
}
