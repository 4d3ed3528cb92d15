//! Real speech to real words: the same whoever speaks beside, and however the audio was cut.

use std::os::unix::fs::symlink;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Running, of, pieces, raw, speech, start, talk, with};

/// A server with the recogniser.
async fn recogniser() -> (Running, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/moonshine");
    symlink(model, folder.path().join("moonshine")).unwrap();
    let repository = format!("server.model_repository=\"{}\"", folder.path().display());
    (start(&[&repository]).await, folder)
}

/// Five seconds of somebody else.
fn other() -> Vec<u8> {
    let wav = concat!(env!("CARGO_MANIFEST_DIR"), "/../asr/tests/golden/two_cities.wav");
    let wav = std::fs::read(wav).unwrap();
    let data = wav.windows(4).position(|name| name == b"data").unwrap();
    wav[data + 8..data + 8 + 2 * 5 * 16_000].to_vec()
}

/// The words of final segments.
fn words(events: &[Value]) -> Vec<String> {
    let is_final = |event: &&&Value| event["is_final"] == true;
    let text = |event: &&Value| event["text"].as_str().unwrap().to_owned();
    of(events, "segment").iter().filter(is_final).map(text).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn everybody_gets_their_own_words_in_any_company_and_any_chunking() {
    let (server, _folder) = recogniser().await;
    let start = raw(16_000, 1, 16, false);
    let (one, two) = (speech(), other());
    let alone = [
        words(&talk(&server, "segmented", &start, [&one[..]]).await),
        words(&talk(&server, "segmented", &start, [&two[..]]).await),
    ];
    assert!(alone[0].join(" ").contains("fellow Americans"), "{alone:?}");
    assert!(alone[1].join(" ").contains("best of times"), "{alone:?}");

    // One that leaves in the middle, with an utterance under way.
    let mut leaver = server.connect("segmented").await;
    leaver.send(&with(start.clone(), "interim_results", json!(true))).await;
    leaver.audio(&one[..100_000]).await;
    let talks = (0..6_u64).map(|number| {
        let audio = if number.is_multiple_of(2) { &one } else { &two };
        let start = with(start.clone(), "interim_results", json!(number < 3));
        let server = &server;
        async move { talk(server, "segmented", &start, pieces(audio, number, 9_999)).await }
    });
    let talks: Vec<_> = talks.collect();
    drop(leaver);
    for (number, events) in futures_util::future::join_all(talks).await.iter().enumerate() {
        assert_eq!(words(events), alone[number % 2], "client {number}");
    }
    server.stop().await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_stable_only_grows_until_the_final_words() {
    let (server, _folder) = recogniser().await;
    let start = with(raw(16_000, 1, 16, false), "interim_results", json!(true));
    // No pause ends the utterance, so that every second of it has an interim result.
    let start = with(start, "vad", json!({"redemption_time_ms": 3000}));
    let mut client = server.connect("segmented").await;
    client.send(&start).await;
    let (mut stable, mut n_stable) = (String::new(), 0);
    for piece in speech()[..7 * 32_000].chunks(32_000) {
        client.audio(piece).await;
        let interim = loop {
            let event = client.next().await.unwrap();
            if event["is_final"] == false {
                break event;
            }
        };
        let text = |field: &str| interim[field].as_str().unwrap().to_owned();
        assert!(text("text").starts_with(&text("stable")), "{interim}");
        assert!(text("stable").starts_with(&stable), "{stable:?}, then {interim}");
        n_stable += usize::from(text("stable") != stable);
        stable = text("stable");
    }
    client.send(&json!({"request": "stop", "disconnect": true})).await;
    let (events, _) = client.rest().await;

    assert!(2 <= n_stable && stable.contains("fellow Americans"), "{n_stable} {stable:?}");
    let last = of(&events, "segment").last().copied().unwrap();
    assert_eq!((&last["is_final"], &last["text"]), (&json!(true), &last["stable"]));
    assert!(last["text"].as_str().unwrap().starts_with(&stable), "{stable:?}, then {last}");
}
