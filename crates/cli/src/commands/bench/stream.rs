//! `paceline bench stream`: many real-time streams of speech and silence.
//!
//! Every stream plays the same minute of speech and silence and begins at its own moment. When the
//! server must have decided that somebody speaks is known beforehand, from the same detector run
//! here; how much later the event comes is what is measured, from when the audio that decides it
//! was due to be sent. Client and server share the machine.

mod expect;
mod player;
mod search;
mod transcribe;

use std::{fmt::Write as _, sync::Arc, time::Duration};

use anyhow::Context as _;
use clap::Args;
use serde::Serialize;

pub(super) use self::expect::SPEECH;
use self::{expect::Tape, player::Played, search::Search};
use super::{live::Live, process::Usage};
use crate::{args::ConfigArgs, commands::own};

/// How the bench's own server is set.
const OWN: [&str; 3] =
    ["server.model_repository=none", "speech.max_streams=20000", "server.max_connections=20000"];

/// Play many real-time streams of speech and silence, and see whether the server keeps up.
#[derive(Debug, Clone, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct StreamArgs {
    /// Streams at once; with --find-max, where to begin
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    streams: u32,
    /// Seconds of audio of each stream
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(4..=3600))]
    seconds: u32,
    /// A running server; without one, it runs in this process
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Audio that is sent at once, in milliseconds
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(10..=1000))]
    chunk_ms: u32,
    /// Look for the most streams that keep real time
    #[arg(long)]
    find_max: bool,
    /// The same again with nothing shared: a call of the voice detector for each stream; with
    /// --transcribe, one utterance at a time on each instance of the recogniser
    #[arg(long, conflicts_with = "url")]
    compare: bool,
    /// Measure how soon the words are there; the server's own models are those of ./models
    #[arg(long)]
    transcribe: bool,
    /// With --transcribe: ask for interim results too
    #[arg(long, requires = "transcribe")]
    interim: bool,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    config: ConfigArgs,
}

/// One line of the table.
#[derive(Debug, Clone, Serialize)]
struct Row {
    /// Whether streams shared calls of the voice detector, or each had its own.
    detection: Detection,
    streams: u32,
    /// Streams that were sent on time and whose last result came within a second.
    kept_realtime: u32,
    /// Samples that were sent and that the server did not count.
    lost_samples: u64,
    /// Events that came before one that they follow.
    reordered: u64,
    /// Speech-start events, counted from when the audio that decides them was due.
    p50_event_ms: f64,
    p99_event_ms: f64,
    /// Processor seconds of this process: of the server too where it runs here.
    cpu_s: f64,
    rss_mb: f64,
}

/// Who shares a call of the voice detector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Detection {
    /// All streams of the moment.
    Shared,
    /// Each stream has its own.
    Alone,
}

impl Detection {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Alone => "alone",
        }
    }
}

impl Row {
    fn keeps_up(&self) -> bool {
        self.kept_realtime == self.streams && self.p99_event_ms < 100.0 && self.lost_samples == 0
    }
}

/// What clients and a server in this process run on.
pub(super) fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().context("no runtime")
}

pub(super) fn run(args: &StreamArgs) -> anyhow::Result<String> {
    let runtime = runtime()?;
    if args.transcribe {
        return runtime.block_on(transcribe::run(args));
    }
    runtime.block_on(async {
        let mut rows = series(args, Detection::Shared).await?;
        if args.compare {
            rows.extend(series(args, Detection::Alone).await?);
        }
        if args.json {
            return Ok(serde_json::to_string_pretty(&rows)? + "\n");
        }
        Ok(table(&rows))
    })
}

/// All that is asked for, with voices detected in one way.
async fn series(args: &StreamArgs, detection: Detection) -> anyhow::Result<Vec<Row>> {
    let (url, stop) = if let Some(url) = &args.url {
        (url.clone(), None)
    } else {
        let mut sets = OWN.to_vec();
        sets.extend((detection == Detection::Alone).then_some("speech.voice_batch=1"));
        let (url, stop) = own::serve(&args.config, &sets).await?;
        (url, Some(stop))
    };
    let tape = Arc::new(Tape::new(args.seconds, args.chunk_ms));
    let mut rows = Vec::new();
    let mut search = Search::new(args.streams);
    let live = Live::new();
    while let Some(streams) = search.next() {
        live.show(&format!("{streams} streams, detection {}", detection.as_str()));
        let row = Row { detection, ..measure(&url, &tape, streams).await? };
        let held = if row.keeps_up() { "held" } else { "not held" };
        live.note(&format!("{streams} streams: p99 {:.1} ms, {held}", row.p99_event_ms));
        search.learn(row.keeps_up());
        rows.push(row);
        if !args.find_max {
            break;
        }
    }
    drop(stop);
    rows.sort_by_key(|row| row.streams);
    Ok(rows)
}

/// Plays so many streams at once.
async fn measure(url: &str, tape: &Arc<Tape>, streams: u32) -> anyhow::Result<Row> {
    let before = Usage::now();
    let spread = tape.duration().min(Duration::from_secs(10)) / 2;
    let players = (0..streams).map(|number| {
        let (url, tape) = (url.to_owned(), Arc::clone(tape));
        let begins = spread * number / streams;
        #[expect(clippy::disallowed_methods, reason = "each stream is a client of its own")]
        tokio::spawn(async move { player::play(&url, &tape, begins).await })
    });
    let players: Vec<_> = players.collect();
    let mut all = Played::default();
    let mut kept_realtime = 0;
    let mut rss_mb = 0.0_f64;
    for player in players {
        let played = player.await.context("a player ended badly")??;
        kept_realtime += u32::from(played.kept_realtime);
        rss_mb = rss_mb.max(Usage::now().rss_mb);
        all.add(played);
    }
    all.latencies_ms.sort_by(f64::total_cmp);
    Ok(Row {
        detection: Detection::Shared,
        streams,
        kept_realtime,
        lost_samples: all.lost_samples,
        reordered: all.reordered,
        p50_event_ms: quantile(&all.latencies_ms, 0.5),
        p99_event_ms: quantile(&all.latencies_ms, 0.99),
        cpu_s: Usage::now().cpu_s - before.cpu_s,
        rss_mb,
    })
}

/// What so large a share of sorted numbers does not exceed.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an index into what was measured"
    )]
    let at = (sorted.len() as f64 * share) as usize;
    sorted.get(at).or(sorted.last()).copied().unwrap_or(f64::NAN)
}

fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "{:>9}{:>8}{:>10}{:>8}{:>11}{:>11}{:>11}{:>8}{:>9}\n",
        "detected",
        "streams",
        "kept up",
        "lost",
        "reordered",
        "p50 event",
        "p99 event",
        "cpu",
        "memory"
    );
    for row in rows {
        _ = writeln!(
            text,
            "{:>9}{:>8}{:>10}{:>8}{:>11}{:>8.1} ms{:>8.1} ms{:>6.1} s{:>6.0} MB",
            row.detection.as_str(),
            row.streams,
            row.kept_realtime,
            row.lost_samples,
            row.reordered,
            row.p50_event_ms,
            row.p99_event_ms,
            row.cpu_s,
            row.rss_mb
        );
    }
    text.push('\n');
    for detection in [Detection::Shared, Detection::Alone] {
        let kept = rows.iter().filter(|row| row.keeps_up() && row.detection == detection);
        if let Some(most) = kept.map(|row| row.streams).max() {
            let how = detection.as_str();
            _ = writeln!(text, "{most} streams kept real time, with p99 under 100 ms ({how}).");
        }
    }
    text
}
