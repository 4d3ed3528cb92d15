//! Rules that no compiler keeps: which crate may use which, what every file begins with, and which
//! files know no clock.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// Which of our crates each may use. A crate that is not here may use none.
const EDGES: &[(&str, &[&str])] = &[
    ("types", &[]),
    ("batch", &["types"]),
    ("backend", &["batch", "types"]),
    ("backend-moonshine", &["asr", "backend", "types"]),
    ("backend-onnx", &["backend", "types"]),
    ("backend-python", &["backend", "types"]),
    ("backend-remote", &["backend", "types"]),
    ("simd", &[]),
    ("asr", &["simd"]),
    ("audio", &["batch", "simd", "types"]),
    ("text", &[]),
    ("pipeline", &["audio", "backend", "batch", "text", "types"]),
    ("frames", &[]),
    ("ingest", &["frames", "pipeline", "batch", "types"]),
    ("api", &["pipeline", "batch", "types"]),
    (
        "server",
        &[
            "api",
            "audio",
            "backend",
            "backend-moonshine",
            "backend-onnx",
            "backend-python",
            "backend-remote",
            "batch",
            "ingest",
            "pipeline",
            "text",
            "types",
        ],
    ),
    ("load", &["frames"]),
    // `audio`: the stream bench knows when the voice detector must have decided. `pipeline`: the
    // synthesis bench runs what decides in sessions. `asr`: the file bench runs the model with nothing
    // around it.
    ("cli", &["api", "asr", "audio", "batch", "frames", "load", "pipeline", "server", "types"]),
    // The client's half of gRPC, and where a camera's frames go.
    ("chaos", &["api", "backend", "ingest"]),
    ("testkit", &[]),
];

/// Files that decide and never wait.
const PURE: &[&str] = &[
    "api/src/speech/deepgram/live.rs",
    "api/src/speech/dialect.rs",
    "api/src/speech/heard.rs",
    "api/src/speech/native/reply.rs",
    "api/src/speech/native/request.rs",
    "api/src/speech/native/rounds.rs",
    "api/src/speech/native/terms.rs",
    "api/src/speech/openai/item.rs",
    "api/src/speech/openai/realtime.rs",
    "api/src/speech/openai/settings.rs",
    "audio/src/segment.rs",
    "audio/src/segment/settings.rs",
    "audio/src/segment/tape.rs",
    "batch/src/buckets.rs",
    "batch/src/fair.rs",
    "batch/src/gaps.rs",
    "batch/src/lane.rs",
    "batch/src/latency.rs",
    "batch/src/limits.rs",
    "batch/src/policy.rs",
    "batch/src/queue.rs",
    "batch/src/recent.rs",
    "batch/src/scheduler.rs",
    "batch/src/scheduler/explain.rs",
    "batch/src/settings.rs",
    "batch/src/slot.rs",
    "batch/src/sorted.rs",
    "batch/src/stats.rs",
    "load/src/arrivals.rs",
    "load/src/batches.rs",
    "load/src/http/answer.rs",
    "load/src/oip.rs",
    "load/src/record.rs",
    "load/src/search.rs",
    "ingest/src/backoff.rs",
    "ingest/src/entry.rs",
    "ingest/src/line.rs",
    "ingest/src/pace.rs",
    "ingest/src/policy.rs",
    "ingest/src/prepare.rs",
    "ingest/src/rendezvous.rs",
    "frames/src/shard.rs",
    "pipeline/src/speech/agreement.rs",
    "pipeline/src/speech/channel.rs",
    "pipeline/src/speech/order.rs",
    "pipeline/src/speech/segmented.rs",
    "pipeline/src/speech/simple.rs",
    "pipeline/src/synthesis/bind.rs",
    "pipeline/src/synthesis/listener.rs",
    "pipeline/src/synthesis/plan.rs",
    "pipeline/src/synthesis/playback.rs",
    "pipeline/src/synthesis/seam.rs",
    "pipeline/src/synthesis/shape.rs",
    "pipeline/src/synthesis/tape.rs",
];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() && !path.ends_with("generated") {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn crates_use_only_crates_to_their_right() {
    let allowed: BTreeMap<&str, &[&str]> = EDGES.iter().copied().collect();
    let mut wrong = Vec::new();
    for entry in fs::read_dir(crates()).expect("the crates").flatten() {
        let name = entry.file_name().into_string().expect("a plain name");
        let manifest = fs::read_to_string(entry.path().join("Cargo.toml")).expect("a manifest");
        let manifest: toml::Table = manifest.parse().expect("TOML");
        let used = manifest["dependencies"].as_table().expect("a table").keys();
        for used in used.filter_map(|name| name.strip_prefix("paceline-")) {
            if !allowed.get(&*name).is_some_and(|allowed| allowed.contains(&used)) {
                wrong.push(format!("{name} uses {used}"));
            }
        }
    }

    assert!(wrong.is_empty(), "not in the picture of ARCHITECTURE.md: {wrong:?}");
}

#[test]
fn every_file_says_what_it_is() {
    let mut files = Vec::new();
    rust_files(&crates(), &mut files);
    let silent: Vec<_> = files
        .iter()
        .filter(|path| !fs::read_to_string(path).expect("text").starts_with("//!"))
        .collect();

    assert!(files.len() > 50, "the files are found");
    assert!(silent.is_empty(), "these do not begin with `//!`: {silent:?}");
}

#[test]
fn what_decides_knows_no_clock() {
    for path in PURE {
        let text = fs::read_to_string(crates().join(path)).expect("a pure file");
        for banned in ["tokio", "Instant", "SystemTime", "std::sync"] {
            // Documentation may name what drives a pure file.
            let names_it =
                |line: &&str| line.contains(banned) && !line.trim_start().starts_with("//");
            let line = text.lines().find(names_it);
            assert_eq!(line, None, "{path} names {banned}");
        }
    }
}
