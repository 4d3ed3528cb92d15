//! `paceline transcribe`: files to text, several at a time.
//!
//! Files are streamed to a server as fast as it takes them: it cuts them into utterances and knows
//! their words in batches over all files. Nothing is held but the words, so a file may be of any
//! length.

mod format;
mod progress;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};

use self::{
    format::{Format, Segment, Transcript},
    progress::Progress,
};
use super::{own, stream::source::Sound};
use crate::{
    args::ConfigArgs,
    client::{self, Ear, Mouth},
    exit::{self, Failure},
};

/// Bytes that are sent at once.
const CHUNK: usize = 32 << 10;

/// Write down what is said in files.
///
/// WAV, FLAC, MP3, AAC, M4A, Ogg and Matroska, of any length. Without a running server (`--url`) it
/// starts one of its own for as long as it takes.
#[derive(Debug, Clone, Args)]
pub(crate) struct TranscribeArgs {
    /// The files
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// How transcripts are written
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Write a file for each into this folder, instead of to standard output
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// A running server
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Files at once
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: u16,
    /// The model; the server's choice where it is left out
    #[arg(long)]
    model: Option<String>,
    #[command(flatten)]
    config: ConfigArgs,
}

pub(crate) fn run(args: &TranscribeArgs) -> Result<(), Failure> {
    let is_several = 1 < args.files.len();
    if is_several && args.output.is_none() && matches!(args.format, Format::Srt | Format::Vtt) {
        let why = "subtitles of several files need --output DIR, a file for each";
        return Err(Failure::Refused(why.to_owned()));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.context("no runtime")?;
    runtime.block_on(async {
        let (url, _server) = if let Some(url) = &args.url {
            (url.clone(), None)
        } else {
            let (url, stop) = own::serve(&args.config, &[]).await?;
            (url, Some(stop))
        };
        let failed = transcribe(args, &url).await?;
        match failed {
            0 => Ok(()),
            n => Err(Failure::Failed(anyhow::anyhow!("{n} of {} files failed", args.files.len()))),
        }
    })
}

/// Transcribes every file, in order; says how many failed.
async fn transcribe(args: &TranscribeArgs, url: &str) -> Result<usize, Failure> {
    let size = |file: &PathBuf| std::fs::metadata(file).map_or(0, |facts| facts.len());
    let progress = Progress::new(args.files.len(), args.files.iter().map(size).sum());
    let jobs = args.files.iter().map(|file| {
        let (progress, model) = (&progress, args.model.as_deref());
        async move {
            let transcript = one(url, file, model, progress).await;
            progress.done();
            (file, transcript)
        }
    });
    let mut transcripts = stream::iter(jobs).buffered(args.jobs.into());
    let mut n_failed = 0;
    while let Some((file, transcript)) = transcripts.next().await {
        progress.clear();
        let written = transcript.and_then(|transcript| write(args, file, &transcript));
        if let Err(error) = written {
            n_failed += 1;
            exit::complain(&format!("{}: {error:#}", file.display()));
        }
    }
    progress.clear();
    Ok(n_failed)
}

fn write(args: &TranscribeArgs, file: &Path, transcript: &Transcript) -> anyhow::Result<()> {
    let text = args.format.write(transcript);
    if let Some(folder) = &args.output {
        let mut name = file.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}", args.format.extension()));
        let path = folder.join(name);
        std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::write(&path, text))
            .with_context(|| format!("cannot write {}", path.display()))?;
        return Ok(());
    }
    let head = if 1 < args.files.len() && args.format == Format::Text {
        format!("==> {} <==\n", file.display())
    } else {
        String::new()
    };
    exit::print(&(head + &text)).map_err(|_| anyhow::anyhow!("standard output is gone"))
}

/// What is said in one file.
async fn one(
    url: &str,
    file: &Path,
    model: Option<&str>,
    progress: &Progress,
) -> anyhow::Result<Transcript> {
    let name = file.display().to_string();
    let sound = Sound::open(&name, "auto", 16_000, 1).await?;
    let (mut mouth, ear) = client::connect(url, "segmented").await?;
    let mut start = json!({"request": "start", "events": false, "summary": true,
        "format": sound.format()});
    if let Some(model) = model {
        start["model"] = json!(model);
    }
    mouth.send(&start).await?;
    let (spoken, heard) = tokio::join!(speak(mouth, sound, progress), hear(ear, progress));
    // What the server said is wrong explains why it would not listen.
    let (segments, duration) = heard?;
    spoken?;
    let words: Vec<&str> = segments.iter().map(|segment| &*segment.text).collect();
    Ok(Transcript { file: name, duration, text: words.join(" "), segments })
}

async fn speak(mut mouth: Mouth, mut sound: Sound, progress: &Progress) -> anyhow::Result<()> {
    while let Some(bytes) = sound.next(CHUNK).await? {
        mouth.audio(&bytes).await?;
        progress.sent(bytes.len());
    }
    mouth.stop().await
}

/// The utterances, and how long the audio was.
async fn hear(mut ear: Ear, progress: &Progress) -> anyhow::Result<(Vec<Segment>, f64)> {
    let (mut segments, mut duration, mut heard) = (Vec::new(), 0.0, 0.0);
    while let Some(event) = ear.next().await? {
        let time = |field: &str| event[field].as_f64().unwrap_or(0.0);
        match event["type"].as_str() {
            Some("segment") => {
                let segment = segment(&event)?;
                progress.heard((segment.end - heard).max(0.0));
                heard = segment.end.max(heard);
                if !segment.text.is_empty() {
                    segments.push(segment);
                }
            }
            Some("end") => {
                duration = time("end_time");
                progress.heard((duration - heard).max(0.0));
            }
            Some("error") => bail!("{}", event["message"].as_str().unwrap_or("refused")),
            _ => {}
        }
    }
    Ok((segments, duration))
}

fn segment(event: &Value) -> anyhow::Result<Segment> {
    let time = |field: &str| event[field].as_f64().unwrap_or(0.0);
    let text = event["text"].as_str().with_context(|| {
        "the server's model gives no text; serve models/moonshine, or name a recogniser with --model"
    })?;
    Ok(Segment {
        start: time("start_time"),
        end: time("end_time"),
        channel: event["channel"].as_u64().unwrap_or(0),
        text: text.to_owned(),
    })
}
