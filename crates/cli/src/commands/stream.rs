//! `paceline stream`: plays audio to a server and prints what it hears.

mod show;
pub(super) mod source;

use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use self::{show::Show, source::Sound};
use crate::{
    client::{self, Ear, Mouth},
    exit::Failure,
};

/// Stream audio to a server and print what it hears.
///
/// WAV, FLAC, MP3, AAC, M4A, Ogg and Matroska files say themselves what they are; for raw samples give
/// `--encoding`, `--rate` and `--channels`.
#[derive(Debug, Clone, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct StreamArgs {
    /// The file; `-` for standard input
    #[arg(value_name = "FILE")]
    file: String,
    /// The server
    #[arg(long, default_value = "ws://127.0.0.1:8000", value_name = "URL")]
    url: String,
    /// Every sample goes to the model
    #[arg(long, conflicts_with = "segmented")]
    simple: bool,
    /// Utterances go to the model (the default)
    #[arg(long)]
    segmented: bool,
    /// Show results while an utterance is spoken
    #[arg(long)]
    interim: bool,
    /// Send no faster than it would be spoken (WAV and raw samples)
    #[arg(long)]
    realtime: bool,
    /// Encoding of the audio, such as s16le, f32le, mulaw, ogg
    #[arg(long, default_value = "auto")]
    encoding: String,
    /// Sample rate of raw samples
    #[arg(long, default_value_t = 16_000)]
    rate: u32,
    /// Channels of raw samples
    #[arg(long, default_value_t = 1)]
    channels: u16,
    /// The model; the server's choice where it is left out
    #[arg(long)]
    model: Option<String>,
    /// The language, for models that know several
    #[arg(long)]
    language: Option<String>,
    /// Audio that is sent at once, in milliseconds
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(5..=5000))]
    chunk_ms: u64,
    /// Print events as JSON lines
    #[arg(long)]
    json: bool,
}

impl StreamArgs {
    fn start(&self, sound: &Sound) -> Value {
        let mut start = json!({
            "request": "start",
            "format": sound.format(),
            "interim_results": self.interim,
            "summary": true,
        });
        for (field, value) in [("model", &self.model), ("language", &self.language)] {
            if let Some(value) = value {
                start[field] = json!(value);
            }
        }
        start
    }
}

pub(crate) fn run(args: &StreamArgs) -> Result<(), Failure> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime")?;
    Ok(runtime.block_on(stream(args))?)
}

async fn stream(args: &StreamArgs) -> anyhow::Result<()> {
    let sound = Sound::open(&args.file, &args.encoding, args.rate, args.channels).await?;
    if args.realtime && sound.bytes_per_second().is_none() {
        anyhow::bail!(
            "--realtime needs a WAV file or raw samples: others do not say how long a byte lasts"
        );
    }
    let path = if args.simple { "simple" } else { "segmented" };
    let (mut mouth, ear) = client::connect(&args.url, path).await?;
    mouth.send(&args.start(&sound)).await?;
    let began = Instant::now();
    // ORDER: hearing ends when the server closes; who speaks first need not be done by then.
    let (spoken, heard) = tokio::join!(
        speak(mouth, sound, args, began),
        hear(ear, Show::new(args.json, began, args.realtime))
    );
    heard?.sum_up(spoken?)
}

/// Sends everything; says when the last audio was sent.
async fn speak(
    mut mouth: Mouth,
    mut sound: Sound,
    args: &StreamArgs,
    began: Instant,
) -> anyhow::Result<Instant> {
    let chunk = Duration::from_millis(args.chunk_ms);
    let mut n_sent: u64 = 0;
    let rate = sound.bytes_per_second();
    let n_chunk = rate.map_or(4096, |rate| u128::from(rate) * chunk.as_millis() / 1000);
    let n_chunk = usize::try_from(n_chunk).unwrap_or(4096).clamp(1, 512 << 10);
    while let Some(bytes) = sound.next(n_chunk).await? {
        if let (true, Some(rate)) = (args.realtime, rate) {
            // A chunk is there once it was spoken.
            n_sent += bytes.len() as u64;
            #[expect(clippy::cast_precision_loss, reason = "seconds for a timer")]
            let spoken = Duration::from_secs_f64(n_sent as f64 / rate as f64);
            sleep_until(began + spoken).await;
        }
        if mouth.audio(&bytes).await.is_err() {
            // The server has closed; it says why to whoever hears.
            return Ok(Instant::now());
        }
    }
    let sent = Instant::now();
    // As before: what is wrong is heard.
    drop(mouth.stop().await);
    Ok(sent)
}

async fn hear(mut ear: Ear, mut show: Show) -> anyhow::Result<Show> {
    loop {
        match ear.next().await {
            Ok(Some(event)) => show.event(&event)?,
            Ok(None) => return Ok(show),
            Err(error) => {
                show.clear()?;
                return Err(error);
            }
        }
    }
}
