//! `/api/v1/segmented`: utterances go to the model.

use futures_util::SinkExt as _;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{
    Message,
    protocol::{CloseFrame, frame::coding::CloseCode},
};

use crate::support::{eventually, of, pieces, raw, speech, start, talk, with};

/// Events without interim results, in an order that does not depend on how busy the model was.
fn lasting(events: &[Value]) -> Vec<Value> {
    let is_lasting = |event: &&Value| event["is_final"] != json!(false);
    let mut lasting: Vec<Value> = events.iter().filter(is_lasting).cloned().collect();
    lasting.sort_by_key(ToString::to_string);
    lasting
}

/// Utterance by utterance: active, then inactive, then the final segment.
fn check_order(events: &[Value], channel: u64) {
    let mut is_active = false;
    let (mut ended, mut finals) = (Vec::new(), 0);
    for event in events.iter().filter(|event| event["channel"] == channel) {
        match event["type"].as_str().unwrap() {
            "active" => assert!(!std::mem::replace(&mut is_active, true)),
            "inactive" => {
                assert!(std::mem::replace(&mut is_active, false));
                ended.push(event["time"].as_f64().unwrap());
            }
            "segment" if event["is_final"] == true => {
                assert_eq!(event["end_time"].as_f64(), ended.get(finals).copied(), "{events:?}");
                finals += 1;
            }
            "segment" => assert!(is_active || finals < ended.len()),
            other => panic!("{other}: {event}"),
        }
    }
    assert!(!is_active && finals == ended.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn any_chunking_gives_the_same_events() {
    let server = start(&[]).await;
    let audio = speech();
    let start = raw(16_000, 1, 16, false);

    let whole = talk(&server, "segmented", &start, [&audio[..]]).await;

    check_order(&whole, 0);
    assert!(2 <= of(&whole, "segment").len(), "{whole:?}");
    let thirty: Vec<&[u8]> = audio.chunks(960).collect();
    let thirty_one: Vec<&[u8]> = audio.chunks(992).collect();
    let hundred: Vec<&[u8]> = audio.chunks(3200).collect();
    for chunks in [thirty, thirty_one, hundred, pieces(&audio, 3, 16_001), pieces(&audio, 4, 99)] {
        let events = talk(&server, "segmented", &start, chunks).await;
        check_order(&events, 0);
        assert_eq!(lasting(&events), lasting(&whole));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn segments_hold_the_samples_that_their_times_say() {
    let server = start(&[]).await;
    let audio = speech();

    let events = talk(&server, "segmented", &raw(16_000, 1, 16, false), [&audio[..]]).await;

    for segment in of(&events, "segment") {
        let seconds =
            segment["end_time"].as_f64().unwrap() - segment["start_time"].as_f64().unwrap();
        assert_eq!(segment["count"].as_f64().unwrap(), (seconds * 16_000.0).round());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_in_mid_speech_gives_inactive_and_then_the_final_segment() {
    let server = start(&[]).await;
    let audio = &speech()[..2 * 16_000];

    let events = talk(&server, "segmented", &raw(16_000, 1, 16, false), [audio]).await;

    let kinds: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["active", "inactive", "segment"]);
    assert_eq!((&events[1]["time"], &events[2]["end_time"]), (&json!(1.0), &json!(1.0)));
    assert_eq!(events[2]["is_final"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_close_in_mid_speech_is_answered_after_the_final_segment() {
    let server = start(&["models.simulated-speech.simulated.delay=100ms"]).await;
    let (begin, spoken) = (raw(16_000, 1, 16, false), &speech()[..2 * 32_000]);
    let stopped = talk(&server, "segmented", &begin, [spoken]).await;
    let mut client = server.connect("segmented").await;
    client.send(&begin).await;
    client.audio(spoken).await;

    let frame = CloseFrame { code: CloseCode::Away, reason: "bye".into() };
    client.socket.send(Message::Close(Some(frame))).await.unwrap();

    let (events, code) = client.rest().await;
    assert_eq!(events, stopped, "as after a stop");
    assert_eq!(code, Some(1001), "the client's own word is given back");
    eventually(async || server.speech.stats().streams == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_closes_and_leaves_at_once_takes_its_work_with_it() {
    let server = start(&[
        "models.simulated-speech.simulated.delay=4s",
        "models.simulated-speech.batch.max_items=1",
    ])
    .await;
    let model = server.models.find("simulated-speech", None).unwrap();
    let mut client = server.connect("segmented").await;
    client.send(&raw(16_000, 1, 16, false)).await;
    client.audio(&speech()[..2 * 32_000]).await;
    client.socket.send(Message::Close(None)).await.unwrap();
    eventually(async || 0 < model.batch_stats().accepted).await;

    drop(client);

    eventually(async || 0 < server.speech.stats().cancelled).await;
    eventually(async || server.speech.stats().streams == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn channels_are_heard_each_by_itself() {
    let server = start(&[]).await;
    let audio = speech();
    // Left speaks, right is silent.
    let stereo: Vec<u8> = audio.chunks(2).flat_map(|sample| [sample[0], sample[1], 0, 0]).collect();
    let start = raw(16_000, 2, 16, false);

    let events = talk(&server, "segmented", &start, pieces(&stereo, 1, 10_001)).await;
    let mono = talk(&server, "segmented", &raw(16_000, 1, 16, false), [&audio[..]]).await;

    check_order(&events, 0);
    assert!(events.iter().all(|event| event["channel"] == 0), "the silent one says nothing");
    assert_eq!(lasting(&events), lasting(&mono), "who else is there does not matter");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_vad_can_be_set_within_bounds() {
    let server = start(&[]).await;
    let audio = speech();
    let start = raw(16_000, 1, 16, false);
    let vad = json!({"redemption_time_ms": 3000});

    let long = with(start.clone(), "vad", vad);
    let long = talk(&server, "segmented", &long, [&audio[..]]).await;
    let quiet =
        talk(&server, "segmented", &with(start.clone(), "events", json!(false)), [&audio[..]])
            .await;
    let usual = talk(&server, "segmented", &start, [&audio[..]]).await;

    assert_eq!(of(&long, "segment").len(), 1, "pauses do not end an utterance");
    assert!(quiet.iter().all(|event| event["type"] == "segment"));
    assert_eq!(of(&quiet, "segment").len(), of(&usual, "segment").len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_single_utterance_is_all_that_is_heard() {
    let server = start(&[]).await;
    let audio = speech();
    let once = with(raw(16_000, 1, 16, false), "single_utterance", json!(true));

    let events = talk(&server, "segmented", &once, audio.chunks(6400)).await;

    let kinds: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(kinds[..3], ["active", "inactive", "segment"]);
    assert!(kinds[3..].iter().all(|kind| *kind == "warning" || *kind == "error"), "{kinds:?}");
    assert!(!kinds[3..].is_empty(), "what is not heard is told");
}
