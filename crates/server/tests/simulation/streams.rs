//! Streams of audio: every sample that the server heard is answered, in order and once, also where
//! it stops in the middle of it.

use futures_util::{SinkExt as _, StreamExt as _};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};
use tokio_tungstenite::{client_async, tungstenite::Message};

use crate::{wire::pause, world::World};

const RATE: f64 = 16_000.0;

pub(crate) async fn stream(world: &World, seed: u64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let Some(pipe) = world.connect(&mut random).await else { return };
    let Ok((socket, _)) = client_async("ws://simulated/api/v1/simple", pipe).await else {
        if !world.is_draining() {
            world.ledger.violation("a stream was not let in".to_owned());
        }
        return;
    };
    world.ledger.count(|total| total.streams += 1);
    let (mut sink, mut source) = socket.split();
    let leaves = random.random_bool(0.2);
    let say = async {
        let format =
            json!({"channels": 1, "sample_rate": 16000, "bit_depth": 16, "is_float": false});
        let start = json!({"request": "start", "format": format}).to_string();
        sink.send(Message::Text(start.into())).await.ok()?;
        let (mut n_bytes, mut left) = (0, 0);
        for _ in 0..random.random_range(0..8) {
            let bytes = random.random_range(1..6000);
            sink.send(Message::Binary(vec![0; bytes].into())).await.ok()?;
            n_bytes += bytes;
            left = n_bytes % 2;
            pause(&mut random, 200).await;
        }
        if leaves {
            return None;
        }
        if left == 1 {
            sink.send(Message::Binary(vec![0].into())).await.ok()?;
            n_bytes += 1;
        }
        let stop = json!({"request": "stop", "disconnect": true}).to_string();
        sink.send(Message::Text(stop.into())).await.ok()?;
        Some(n_bytes / 2)
    };
    let hear = async {
        let mut events = Vec::<Value>::new();
        loop {
            match source.next().await {
                Some(Ok(Message::Text(text))) => events.push(serde_json::from_str(&text).unwrap()),
                Some(Ok(Message::Close(frame))) => {
                    return (events, frame.map(|frame| u16::from(frame.code)));
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return (events, None),
            }
        }
    };
    if leaves {
        // Both halves go when it has said all that it says.
        tokio::select! {
            _ = say => {}
            _ = hear => {}
        }
        return;
    }
    let (sent, (events, code)) = tokio::join!(say, hear);
    judge(world, sent, &events, code);
}

fn judge(world: &World, sent: Option<usize>, events: &[Value], code: Option<u16>) {
    let heard = match heard(world, events) {
        Ok(heard) => heard,
        Err(said) => return world.ledger.violation(said),
    };
    world.ledger.count(|total| total.samples += heard);
    match (code, sent) {
        (Some(1000), Some(sent)) if sent as u64 == heard => {}
        // It says nothing about how much it heard before it was told to stop.
        (Some(1001), _) if world.is_draining() => {}
        _ => world.ledger.violation(format!(
            "a stream of {sent:?} samples was answered for {heard} and closed with {code:?}: {events:?}"
        )),
    }
}

/// How many samples were answered, each once and in order.
fn heard(world: &World, events: &[Value]) -> Result<u64, String> {
    let (mut end, mut heard) = (0.0, 0);
    for event in events {
        let is_segment = event["type"] == "segment";
        if !is_segment && (event["type"] != "error" || event["start_time"].is_null()) {
            continue;
        }
        if !is_segment && !world.excuses.failed {
            return Err(format!("a model without moods gave {event}"));
        }
        if event["start_time"].as_f64() != Some(end) {
            return Err(format!("{event} does not begin at {end}"));
        }
        let from = end;
        end = event["end_time"].as_f64().unwrap_or_default();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few seconds")]
        let n_samples = ((end - from) * RATE).round() as u64;
        if is_segment && event["count"].as_u64() != Some(n_samples) {
            return Err(format!("{n_samples} samples were counted as {event}"));
        }
        heard += n_samples;
    }
    Ok(heard)
}
