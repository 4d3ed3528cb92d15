//! Streams of speech: every sample of a round must be answered, in order and once.

use std::sync::Arc;

use futures_util::{SinkExt as _, StreamExt as _};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};
use tokio_tungstenite::{connect_async, tungstenite::Message};

use super::Stage;
use crate::ledger::Outcome;

/// Eleven seconds of a voice and silence, 16 kHz mono, behind a WAV header.
const SPEECH: &[u8] = include_bytes!("../../../cli/assets/speech.wav");
const WAV_HEADER: usize = 44;

/// Rounds of noise: what the model counts must be what was sent.
pub(crate) async fn simple_on_and_on(stage: Stage, seed: u64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    while !stage.is_over() {
        let n_samples = random.random_range(1..100_000_usize);
        let chunks = chunks(&mut random, n_samples * 2);
        let audio: Arc<[u8]> = vec![0; n_samples * 2].into();
        stage
            .settle("simple", async {
                match talk(&stage, "simple", &audio, &chunks).await {
                    Ok(heard) => heard.judge(|heard| every_sample(heard, n_samples)),
                    Err(error) => Outcome::Cut(error.to_string()),
                }
            })
            .await;
    }
}

/// One voice over and over, cut differently each time: the utterances must be the same.
pub(crate) async fn segmented_on_and_on(stage: Stage, seed: u64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let audio: Arc<[u8]> = SPEECH[WAV_HEADER..].into();
    let mut known: Option<Vec<Value>> = None;
    while !stage.is_over() {
        let chunks = chunks(&mut random, audio.len());
        let talked = talk(&stage, "segmented", &audio, &chunks);
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

async fn talk(stage: &Stage, path: &str, audio: &[u8], chunks: &[usize]) -> anyhow::Result<Heard> {
    let url = format!("ws://{}/api/v1/{path}", stage.server.http);
    let (socket, _) = connect_async(url).await?;
    let (mut sink, mut stream) = socket.split();
    let say = async {
        let format =
            json!({"channels": 1, "sample_rate": 16000, "bit_depth": 16, "is_float": false});
        let start = json!({"request": "start", "format": format}).to_string();
        sink.send(Message::Text(start.into())).await?;
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
