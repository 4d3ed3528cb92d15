//! `/api/v1/simple`: every sample goes to the model.

use serde_json::json;

use crate::support::{count, of, pieces, raw, speech, start, talk, with};

#[tokio::test(flavor = "multi_thread")]
async fn every_sample_comes_back_once_in_order_and_in_time() {
    let server = start(&["models.simulated-speech.simulated.delay=2ms"]).await;
    let audio = speech();

    for (seed, longest) in [(1, 300), (2, 5000), (3, 400_000)] {
        let events =
            talk(&server, "simple", &raw(16_000, 1, 16, false), pieces(&audio, seed, longest))
                .await;

        assert_eq!(count(&events), audio.len() as u64 / 2);
        let mut end = 0.0;
        for event in &events {
            assert_eq!(
                (event["type"].as_str(), &event["is_final"]),
                (Some("segment"), &json!(null))
            );
            assert_eq!(event["start_time"], end);
            end = event["end_time"].as_f64().unwrap();
        }
        assert_eq!(end, audio.len() as f64 / 2.0 / 16_000.0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_rates_channels_and_formats_give_the_same_length() {
    let server = start(&[]).await;
    for rate in [8_000_u32, 16_000, 32_000, 44_100, 48_000] {
        for channels in [1_u32, 2] {
            for (depth, is_float) in [(16, false), (24, false), (32, false), (32, true)] {
                // More than any block of a resampler, and no round number.
                let n_frames = 10_007_u32;
                let n_bytes = n_frames * channels * depth / 8;
                let audio: Vec<u8> = vec![0; n_bytes as usize];
                let start = raw(rate, channels, depth, is_float);

                let events = talk(&server, "simple", &start, pieces(&audio, 9, 9001)).await;

                let expected = (f64::from(n_frames) * 16_000.0 / f64::from(rate)).round();
                for channel in 0..channels {
                    let own: Vec<_> = events
                        .iter()
                        .filter(|event| event["channel"] == channel)
                        .cloned()
                        .collect();
                    assert_eq!(count(&own) as f64, expected, "{rate} Hz, {channels}, {depth} bit");
                }
                assert_eq!(count(&events) as f64, expected * f64::from(channels));
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_says_its_own_rate_and_channels() {
    let server = start(&[]).await;
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../audio/tests/fixtures");
    for (file, encoding) in [
        ("speech.flac", "flac"),
        ("stereo.mp3", "auto"),
        ("hybrid.ogg", "opus"),
        ("file.webm", "webm"),
    ] {
        let bytes = std::fs::read(format!("{folder}/{file}")).unwrap();
        let start = json!({"request": "start", "format": {"encoding": encoding}, "summary": true});

        let whole = talk(&server, "simple", &start, [&bytes[..]]).await;
        let cut = talk(&server, "simple", &start, pieces(&bytes, 5, 999)).await;

        assert!(1000 < count(&whole), "{file}: {whole:?}");
        assert_eq!(count(&whole), count(&cut), "{file}");
        let (end, n_channels) = (of(&cut, "end")[0], if file == "stereo.mp3" { 2 } else { 1 });
        assert_eq!(end["samples"].as_u64().unwrap() * n_channels, count(&cut), "{file}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_waits_for_a_slow_model_is_taken_at_once() {
    let server =
        start(&["models.simulated-speech.simulated.delay=20ms", "speech.stream_in_flight=1"]).await;
    let audio = speech();

    let events = talk(&server, "simple", &raw(16_000, 1, 16, false), audio.chunks(640)).await;

    let n_chunks = audio.len().div_ceil(640);
    assert!(events.len() * 4 < n_chunks, "{} inferences for {n_chunks} messages", events.len());
    assert_eq!(count(&events), audio.len() as u64 / 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_model_says_so_for_each_segment_and_the_stream_goes_on() {
    let server = start(&["models.simulated-speech.simulated.failure_rate=0.5"]).await;
    let start = raw(16_000, 1, 16, false);
    let audio = speech();

    let events = talk(&server, "simple", &start, audio.chunks(3200)).await;

    let errors = of(&events, "error");
    assert!(!errors.is_empty() && errors.len() < events.len());
    let mut end = 0.0;
    for event in &events {
        assert_eq!(event["start_time"], end, "failed segments keep their place");
        end = event["end_time"].as_f64().unwrap();
    }
    for error in errors {
        assert_eq!(error["message"], "Unexpected inference failure");
        assert_eq!(error["code"], "model_failed");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panicking_model_is_an_internal_server_error_and_the_stream_goes_on() {
    let server = start(&[
        // With this seed, warming up does not panic and every fourth call or so does.
        "models.simulated-speech.simulated.panic_rate=0.25",
        "models.simulated-speech.simulated.seed=5",
        "models.simulated-speech.batch.max_items=1",
    ])
    .await;
    let audio = speech();

    let events = talk(&server, "simple", &raw(16_000, 1, 16, false), audio.chunks(3200)).await;

    let errors = of(&events, "error");
    assert!(!errors.is_empty() && !of(&events, "segment").is_empty());
    assert!(errors.iter().all(|error| error["message"] == "Internal server error"), "{errors:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_never_see_each_others_results() {
    // The identity gives back the very samples that it got.
    let server = start(&["speech.model=simulated", "models.simulated.simulated.delay=1ms"]).await;
    let clients = (0..16_u32).map(|number| {
        let server = &server;
        async move {
            let samples: Vec<f32> =
                (0..4000).map(|at| (number * 4000 + at) as f32 / 65536.0).collect();
            let bytes: Vec<u8> = samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
            let id = format!("client-{number}");
            let start = with(raw(16_000, 1, 32, true), "request_id", json!(id));

            let events = talk(server, "simple", &start, pieces(&bytes, 77, 3000)).await;

            let mut heard = Vec::new();
            for event in &events {
                assert_eq!(event["request_id"], json!(id));
                match &event["OUTPUT"] {
                    serde_json::Value::Array(values) => heard.extend(values.clone()),
                    lone => heard.push(lone.clone()),
                }
            }
            let heard: Vec<f32> =
                heard.iter().map(|value| value.as_f64().unwrap() as f32).collect();
            assert_eq!(heard, samples);
        }
    });
    futures_util::future::join_all(clients).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flush_is_answered_once_everything_before_it_is() {
    let server = start(&["models.simulated-speech.simulated.delay=5ms"]).await;
    let mut client = server.connect("simple").await;
    client.send(&raw(16_000, 1, 16, false)).await;
    for round in 1..=3_u64 {
        for _ in 0..10 {
            client.audio(&[0; 640]).await;
        }
        client.send(&json!({"request": "flush", "id": format!("mark {round}")})).await;
        let mut last = 0.0;
        loop {
            let event = client.next().await.unwrap();
            if event["type"] == "flushed" {
                assert_eq!(event["id"], format!("mark {round}"));
                break;
            }
            last = event["end_time"].as_f64().unwrap();
        }
        assert_eq!(last, (round * 3200) as f64 / 16_000.0, "all samples before the mark");
    }
}
