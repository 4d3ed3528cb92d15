//! `paceline bench files`: how fast files become text, and how far that is from the model alone.
//!
//! Each file is the same speech over and over. The bare loop runs the very utterances that the
//! server finds in it through the model on as many threads as the server has instances, with nothing
//! around them: no sockets, no decoding, no voice detection, no batcher.

mod bare;

use std::fmt::Write as _;

use clap::Args;
use futures_util::future::try_join_all;
use serde::Serialize;
use serde_json::json;
use tokio::time::Instant;

use super::stream::SPEECH;
use crate::{args::ConfigArgs, client, commands::own};

/// Bytes that are sent at once.
const CHUNK: usize = 32 << 10;
/// Bytes of a second of audio.
const SECOND: usize = 32_000;

/// Transcribe files, and see how fast that is.
#[derive(Debug, Clone, Args)]
pub(crate) struct FilesArgs {
    /// How many files at once, one after the other
    #[arg(long, value_delimiter = ',', default_values_t = [1, 4, 16])]
    concurrency: Vec<u32>,
    /// Seconds of each file
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u32).range(12..=3600))]
    seconds: u32,
    /// A running server; without one, it runs in this process
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    config: ConfigArgs,
}

/// One line of the table.
#[derive(Debug, Clone, Serialize)]
struct Row {
    what: String,
    files: u32,
    audio_s: f64,
    took_s: f64,
    /// Seconds of audio in a second.
    speed: f64,
    /// Of the bare loop's speed.
    share_of_bare: f64,
}

pub(super) async fn run(args: &FilesArgs) -> anyhow::Result<String> {
    let audio: Vec<u8> =
        SPEECH.iter().copied().cycle().take(args.seconds as usize * SECOND).collect();
    let (url, _server) = if let Some(url) = &args.url {
        (url.clone(), None)
    } else {
        let (url, stop) = own::serve(&args.config, &[]).await?;
        (url, Some(stop))
    };
    let seconds = f64::from(args.seconds);
    let began = Instant::now();
    let utterances = transcribe(&url, &audio).await?;
    tracing::debug!(took = ?began.elapsed(), utterances = utterances.len(), "warm");
    let folder = args.config.model_repository.clone().unwrap_or_else(|| "models".into());
    let bare = bare::speed(&folder.join("moonshine/1"), &audio, &utterances)?;
    let mut rows = vec![Row {
        what: "bare model loop".to_owned(),
        files: 1,
        audio_s: seconds,
        took_s: seconds / bare,
        speed: bare,
        share_of_bare: 1.0,
    }];
    for files in &args.concurrency {
        let began = Instant::now();
        try_join_all((0..*files).map(|_| transcribe(&url, &audio))).await?;
        let (took_s, audio_s) = (began.elapsed().as_secs_f64(), seconds * f64::from(*files));
        let speed = audio_s / took_s;
        let what = "server".to_owned();
        rows.push(Row { what, files: *files, audio_s, took_s, speed, share_of_bare: speed / bare });
    }
    Ok(if args.json { serde_json::to_string_pretty(&rows)? + "\n" } else { table(&rows) })
}

/// Streams a file as fast as it is taken; where its utterances are, in bytes.
async fn transcribe(url: &str, audio: &[u8]) -> anyhow::Result<Vec<(usize, usize)>> {
    let (mut mouth, mut ear) = client::connect(url, "segmented").await?;
    let start = json!({"request": "start", "events": false, "format": {
        "encoding": "s16le", "sample_rate": 16_000, "channels": 1}});
    mouth.send(&start).await?;
    let speak = async {
        for chunk in audio.chunks(CHUNK) {
            mouth.audio(chunk).await?;
        }
        mouth.stop().await
    };
    let hear = async {
        let mut utterances = Vec::new();
        while let Some(event) = ear.next().await? {
            anyhow::ensure!(event["text"].is_string(), "the server gives no text but {event}");
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a place in the file"
            )]
            let place = |field: &str| {
                2 * (event[field].as_f64().unwrap_or(0.0) * 16_000.0).round() as usize
            };
            utterances.push((place("start_time"), place("end_time")));
        }
        Ok(utterances)
    };
    let (spoken, utterances) = tokio::join!(speak, hear);
    spoken?;
    utterances
}

fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "{:<16}{:>6}{:>10}{:>9}{:>18}{:>10}\n",
        "", "files", "audio", "took", "audio s per s", "of bare"
    );
    for row in rows {
        _ = writeln!(
            text,
            "{:<16}{:>6}{:>8.0} s{:>7.2} s{:>18.1}{:>9.0}%",
            row.what,
            row.files,
            row.audio_s,
            row.took_s,
            row.speed,
            row.share_of_bare * 100.0
        );
    }
    text
}
