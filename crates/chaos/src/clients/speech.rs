//! Streams of speech: every sample of a round must be answered, in order and once.

use std::{net::SocketAddr, sync::Arc};

use anyhow::{Context as _, bail, ensure};
use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async, tungstenite::Message};

use super::Stage;
use crate::ledger::Outcome;

/// Eleven seconds of a voice and silence, 16 kHz mono, behind a WAV header.
const SPEECH: &[u8] = include_bytes!("../../../cli/assets/speech.wav");
const WAV_HEADER: usize = 44;

/// The beginning of a voice, in so many samples.
pub(crate) fn voice(n_samples: usize) -> &'static [u8] {
    &SPEECH[WAV_HEADER..][..n_samples * 2]
}

/// Rounds of noise: what the model counts must be what was sent.
pub(crate) async fn simple_on_and_on(stage: Stage, seed: u64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    while !stage.is_over() {
        let n_samples = random.random_range(1..100_000_usize);
        let chunks = chunks(&mut random, n_samples * 2);
        let audio: Arc<[u8]> = vec![0; n_samples * 2].into();
        stage
            .settle("simple", async {
                match talk(stage.server.http, "simple", &audio, &chunks).await {
                    Ok(heard) => heard.judge(|heard| every_sample(heard, n_samples)),
                    Err(error) => Outcome::Cut(error.to_string()),
                }
            })
            .await;
    }
}

/// One round of so many samples, at once.
pub(crate) async fn simple(at: SocketAddr, n_samples: usize) -> Outcome {
    let audio = vec![0; n_samples * 2];
    match talk(at, "simple", &audio, &[audio.len()]).await {
        Ok(heard) => heard.judge(|heard| every_sample(heard, n_samples)),
        Err(error) => Outcome::Cut(error.to_string()),
    }
}

/// One voice over and over, cut differently each time: the utterances must be the same.
pub(crate) async fn segmented_on_and_on(stage: Stage, seed: u64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let audio: Arc<[u8]> = SPEECH[WAV_HEADER..].into();
    let mut known: Option<Vec<Value>> = None;
    while !stage.is_over() {
        let chunks = chunks(&mut random, audio.len());
        let talked = talk(stage.server.http, "segmented", &audio, &chunks);
        let known = &mut known;
        stage
            .settle("segmented", async move {
                match talked.await {
                    Ok(heard) => heard.judge(|heard| same_as_before(heard, known)),
                    Err(error) => Outcome::Cut(error.to_string()),
                }
            })
            .await;
    }
}

/// The utterances of a voice that ends after so many samples.
pub(crate) async fn utterances(at: SocketAddr, n_samples: usize) -> anyhow::Result<Vec<Value>> {
    let audio = voice(n_samples);
    let heard = talk(at, "segmented", audio, &[audio.len()]).await?;
    let said: Vec<Value> = segments(&heard.events).cloned().collect();
    ensure!(!said.is_empty(), "there is no voice in {n_samples} samples: {heard:?}");
    Ok(said)
}

/// Random cuts of so many bytes; a sample may be split.
fn chunks(random: &mut ChaCha8Rng, mut bytes: usize) -> Vec<usize> {
    let mut chunks = Vec::new();
    while bytes != 0 {
        let chunk = random.random_range(1..=bytes.min(16_384));
        chunks.push(chunk);
        bytes -= chunk;
    }
    chunks
}

/// What a server said in one round.
#[derive(Debug)]
struct Heard {
    events: Vec<Value>,
    code: Option<u16>,
}

impl Heard {
    fn judge(self, judge: impl FnOnce(&[Value]) -> Result<(), String>) -> Outcome {
        let error = self.events.iter().find(|event| event["type"] == "error");
        match (self.code, error) {
            (Some(1000), None) => match judge(&self.events) {
                Ok(()) => Outcome::Right,
                Err(said) => Outcome::Wrong(said),
            },
            (Some(1000), Some(error)) => Outcome::Failed(error.to_string()),
            (Some(code @ (1001 | 1013)), _) => Outcome::Refused(format!("closed with {code}")),
            (None, _) => Outcome::Cut("no close frame".to_owned()),
            (Some(code), _) => Outcome::Wrong(format!("closed with {code}")),
        }
    }
}

async fn talk(at: SocketAddr, path: &str, audio: &[u8], chunks: &[usize]) -> anyhow::Result<Heard> {
    let url = format!("ws://{at}/api/v1/{path}");
    let (socket, _) = connect_async(url).await?;
    let (mut sink, mut stream) = socket.split();
    let say = async {
        sink.send(Message::Text(start().into())).await?;
        let mut rest = audio;
        for &chunk in chunks {
            let (now, later) = rest.split_at(chunk);
            rest = later;
            sink.send(Message::Binary(now.to_vec().into())).await?;
        }
        let stop = json!({"request": "stop", "disconnect": true}).to_string();
        sink.send(Message::Text(stop.into())).await
    };
    let hear = async {
        let mut events = Vec::new();
        loop {
            match stream.next().await {
                Some(Ok(Message::Text(text))) => {
                    events.push(serde_json::from_str(&text).unwrap_or_default());
                }
                Some(Ok(Message::Close(frame))) => {
                    break Heard { events, code: frame.map(|frame| frame.code.into()) };
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => break Heard { events, code: None },
            }
        }
    };
    // A server that stops closes while audio is still being sent; what it said before that counts.
    let (_, heard) = tokio::join!(say, hear);
    Ok(heard)
}

/// A stream in mid-sentence: the server has heard all that was sent, and no end of it.
pub(crate) struct Open {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    events: Vec<Value>,
    /// What it must say when it stops.
    right: Right,
}

/// What the segments of a stream must be.
enum Right {
    Samples(usize),
    Segments(Vec<Value>),
}

impl Open {
    /// A stream of so many samples, each of which must be answered.
    pub(crate) async fn simple(at: SocketAddr, n_samples: usize) -> anyhow::Result<Self> {
        Self::begin(at, "simple", &vec![0; n_samples * 2], Right::Samples(n_samples)).await
    }

    /// A voice that is cut off so early, with the utterances that it has when it ends there.
    pub(crate) async fn segmented(at: SocketAddr, n_samples: usize) -> anyhow::Result<Self> {
        let right = Right::Segments(utterances(at, n_samples).await?);
        Self::begin(at, "segmented", voice(n_samples), right).await
    }

    /// The client's port.
    pub(crate) fn port(&self) -> anyhow::Result<u16> {
        let MaybeTlsStream::Plain(stream) = self.socket.get_ref() else { bail!("it is in TLS") };
        Ok(stream.local_addr()?.port())
    }

    async fn begin(at: SocketAddr, path: &str, audio: &[u8], right: Right) -> anyhow::Result<Self> {
        let (mut socket, _) = connect_async(format!("ws://{at}/api/v1/{path}")).await?;
        socket.send(Message::Text(start().into())).await?;
        socket.send(Message::Binary(audio.to_vec().into())).await?;
        // Messages are read one after the other, so who answers this has heard those before it.
        socket.send(Message::Ping(Bytes::new())).await?;
        let mut events = Vec::new();
        loop {
            match socket.next().await.context("a stream ended at its beginning")?? {
                Message::Pong(_) => return Ok(Self { socket, events, right }),
                Message::Text(text) => events.push(serde_json::from_str(&text)?),
                _ => {}
            }
        }
    }

    /// What a server that stops must do: answer everything that it has heard, and say that it goes.
    pub(crate) async fn end(mut self) -> anyhow::Result<()> {
        while let Some(Ok(message)) = self.socket.next().await {
            match message {
                Message::Text(text) => self.events.push(serde_json::from_str(&text)?),
                Message::Close(Some(frame)) => {
                    let code = u16::from(frame.code);
                    ensure!(code == 1001, "a stream was closed with {code}");
                    return self.judge();
                }
                _ => {}
            }
        }
        bail!("a stream got no close frame")
    }

    fn judge(self) -> anyhow::Result<()> {
        match self.right {
            Right::Samples(n) => every_sample(&self.events, n).map_err(anyhow::Error::msg),
            Right::Segments(right) => {
                let said: Vec<Value> = segments(&self.events).cloned().collect();
                ensure!(said == right, "instead of {right:?} a stream that was ended got {said:?}");
                Ok(())
            }
        }
    }
}

/// The message that begins a round.
fn start() -> String {
    let format = json!({"channels": 1, "sample_rate": 16000, "bit_depth": 16, "is_float": false});
    json!({"request": "start", "format": format}).to_string()
}

fn segments(events: &[Value]) -> impl Iterator<Item = &Value> {
    events.iter().filter(|event| event["type"] == "segment")
}

fn every_sample(events: &[Value], n_samples: usize) -> Result<(), String> {
    let (mut end, mut counted) = (0.0, 0);
    for segment in segments(events) {
        if segment["start_time"].as_f64() != Some(end) {
            return Err(format!("a segment begins where none ended, at {end}: {segment}"));
        }
        end = segment["end_time"].as_f64().unwrap_or_default();
        counted += segment["count"].as_u64().unwrap_or_default();
    }
    if u64::try_from(n_samples).ok() == Some(counted) {
        Ok(())
    } else {
        Err(format!("of {n_samples} samples, {counted} were answered"))
    }
}

fn same_as_before(events: &[Value], known: &mut Option<Vec<Value>>) -> Result<(), String> {
    let now: Vec<Value> = segments(events).cloned().collect();
    let known = known.get_or_insert_with(|| now.clone());
    if now.is_empty() || *known != now {
        return Err(format!("utterances were {known:?}, and are {now:?}"));
    }
    Ok(())
}
