//! `paceline transcribe` as a user runs it, with a server of its own.

use std::process::{Command, Output};

use serde_json::Value;

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
