//! The known defects of the system that this protocol comes from, by name. None is here.

use serde_json::json;

use crate::support::{count, of, pieces, raw, speech, start, talk, with};

#[tokio::test(flavor = "multi_thread")]
async fn interim_results_come_only_when_asked_for() {
    let server = start(&[]).await;
    let audio = speech();
    let start = raw(16_000, 1, 16, false);
    let is_interim = |event: &&serde_json::Value| event["is_final"] == json!(false);

    let without = talk(&server, "segmented", &start, audio.chunks(3200)).await;
    assert_eq!(without.iter().filter(is_interim).count(), 0);
    // In the middle of an utterance nothing makes an interim result give way.
    let mut client = server.connect("segmented").await;
    client.send(&with(start, "interim_results", json!(true))).await;
    client.audio(&audio[..48_000]).await;
    assert_eq!(client.next().await.unwrap()["type"], "active");
    let interim = client.next().await.unwrap();
    assert_eq!(interim["is_final"], false, "{interim}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_of_more_than_a_block_leaves_no_backlog_and_loses_nothing() {
    let server = start(&[]).await;
    // 40000 frames in one message, resampled: no block, no remainder, no zero filling.
    for (rate, expected) in [(8_000, 80_000), (32_000, 20_000), (44_100, 14_512)] {
        let audio = vec![0; 2 * 40_000];
        let events = talk(&server, "simple", &raw(rate, 1, 16, false), [&audio[..]]).await;
        assert_eq!(count(&events), expected, "{rate} Hz");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stereo_that_is_resampled_ends_well() {
    let server = start(&[]).await;
    let audio = vec![0; 4 * 44_100];

    let events =
        talk(&server, "segmented", &raw(44_100, 2, 16, false), pieces(&audio, 8, 7001)).await;
    assert!(events.is_empty(), "{events:?}");
    let events = talk(&server, "simple", &raw(44_100, 2, 16, false), pieces(&audio, 8, 7001)).await;
    assert_eq!(count(&events), 32_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sample_that_is_split_between_messages_is_whole_again() {
    let server = start(&[]).await;
    let audio = speech();

    let events =
        talk(&server, "simple", &raw(16_000, 1, 16, false), audio[..9999].chunks(1).take(999))
            .await;

    assert_eq!(count(&events), 499);
    let warning = of(&events, "warning");
    assert_eq!(warning[0]["code"], "incomplete_audio", "half a sample at the end is told");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_client_does_wrong_it_is_told() {
    let server = start(&[]).await;
    let mut client = server.connect("segmented").await;

    client.audio(&[0; 10]).await;
    let told = client.next().await.unwrap();
    assert!(told["message"].as_str().unwrap().contains("audio came before start"), "{told}");
    client.send(&json!("nonsense")).await;
    assert_eq!(client.next().await.unwrap()["code"], "invalid_input");
    client.send(&raw(16_000, 1, 8, false)).await;
    let told = client.next().await.unwrap();
    assert_eq!(told["message"], "Unsupported format bit_depth: 8 is_float: false");
    assert_eq!(told["code"], "unsupported");
    client.send(&json!({"request": "start", "format": {"encoding": "flac"}})).await;
    client.audio(&vec![1; 100_000]).await;
    let told = client.next().await.unwrap();
    assert_eq!(
        (told["type"].as_str(), told["code"].as_str()),
        (Some("error"), Some("invalid_input"))
    );
    // And the stream is as good as new.
    client.send(&raw(16_000, 1, 16, false)).await;
    client.audio(&speech()[..32_000]).await;
    client.send(&json!({"request": "stop", "disconnect": true})).await;
    let (events, _) = client.rest().await;
    assert_eq!(of(&events, "segment").len(), 1, "{events:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn impossible_formats_are_refused() {
    let server = start(&[]).await;
    for (rate, channels) in [(0, 1), (16_000, 0), (16_000, 4_000_000_000), (4_000_000_000, 1)] {
        let mut client = server.connect("segmented").await;
        client.send(&raw(rate, channels, 16, false)).await;
        let told = client.next().await.unwrap();
        assert_eq!(told["code"], "invalid_input", "{told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_minute_of_speech_is_cut_into_contiguous_parts() {
    let server = start(&[]).await;
    let audio = speech();
    // One vowel of it, over and over: somebody who does not stop.
    let vowel: Vec<u8> = audio[2 * 16_000 * 3 / 10..2 * 16_000 * 12 / 10].to_vec();
    let endless: Vec<u8> = vowel.iter().copied().cycle().take(2 * 16_000 * 30).collect();
    let start = with(
        raw(16_000, 1, 16, false),
        "vad",
        json!({"max_utterance_ms": 5000, "min_speech_time_ms": 90}),
    );

    let events = talk(&server, "segmented", &start, endless.chunks(32_000)).await;

    let segments = of(&events, "segment");
    assert!(5 <= segments.len(), "{events:?}");
    for segment in &segments {
        assert!(segment["count"].as_u64().unwrap() <= 5 * 16_000 + 512);
    }
    for pair in segments.windows(2) {
        assert_eq!(pair[0]["end_time"], pair[1]["start_time"]);
    }
}
