//! `paceline transcribe` as a user runs it, with a server of its own.

use std::process::{Command, Output};

use serde_json::{Value, json};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn transcribe(line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paceline"));
    let arguments = line.split_whitespace();
    command.current_dir(ROOT).arg("transcribe").args(arguments).output().unwrap()
}

#[test]
fn files_become_text_in_their_order_and_a_bad_one_does_not_stop_the_others() {
    let line = "crates/cli/assets/speech.wav no-such-file.wav crates/asr/tests/golden/beckett.wav --format json";
    let Output { status, stdout, stderr } = transcribe(line);

    assert_eq!(status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&stderr);
    assert!(stderr.contains("no-such-file.wav: cannot read"), "{stderr}");
    assert!(stderr.contains("1 of 3 files failed"), "{stderr}");
    let transcripts: Vec<Value> = serde_json::Deserializer::from_slice(&stdout)
        .into_iter()
        .collect::<Result<_, _>>()
        .unwrap();
    assert_eq!(transcripts.len(), 2);
    for (transcript, words, duration) in
        [(&transcripts[0], "fellow", 11.0), (&transcripts[1], "no matter", 9.96)]
    {
        let text = transcript["text"].as_str().unwrap().to_lowercase();
        assert!(text.contains(words), "{text}");
        assert!((transcript["duration"].as_f64().unwrap() - duration).abs() < 0.1, "{transcript}");
        let ends: Vec<f64> = transcript["segments"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|segment| [&segment["start"], &segment["end"]])
            .map(|time| time.as_f64().unwrap())
            .collect();
        assert!(ends.is_sorted(), "{ends:?}");
    }
}

#[test]
fn subtitles_of_several_files_are_files() {
    let folder = tempfile::tempdir().unwrap();
    let two = "crates/cli/assets/speech.wav crates/audio/tests/golden/jfk.wav --format srt";

    let refused = transcribe(two);
    assert_eq!(refused.status.code(), Some(3));

    let written = transcribe(&format!("{two} --output {}", folder.path().display()));
    assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
    assert!(written.stdout.is_empty());
    for name in ["speech.wav.srt", "jfk.wav.srt"] {
        let text = std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(text.starts_with("1\n00:00:00,") && text.contains(" --> "), "{text}");
    }
}

#[test]
fn benches_of_words_count_them() {
    let bench = |line: &str| -> Vec<Value> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_paceline"));
        let output = command.current_dir(ROOT).arg("bench").args(line.split_whitespace()).output();
        let Output { status, stdout, stderr } = output.unwrap();
        assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
        serde_json::from_slice(&stdout).unwrap()
    };

    let files = bench("files --seconds 12 --concurrency 1,2 --json");
    assert_eq!(files.len(), 3, "the bare loop and two sizes: {files:?}");
    assert!(files.iter().all(|row| 0.0 < row["speed"].as_f64().unwrap()), "{files:?}");

    let streams = bench("stream --transcribe --compare --interim --streams 2 --seconds 12 --json");
    assert_eq!([&streams[0]["batching"], &streams[1]["batching"]], ["on", "off"]);
    for row in &streams {
        // Three utterances in twelve seconds, each heard by both streams as one alone hears it.
        let counts = ["utterances", "missing", "wrong"].map(|count| &row[count]);
        assert_eq!(counts, [&json!(6), &json!(0), &json!(0)], "{row}");
        // The silence that ends an utterance is a part of the wait for its words.
        assert!(600.0 <= row["p50_final_ms"].as_f64().unwrap(), "{row}");
    }
}
