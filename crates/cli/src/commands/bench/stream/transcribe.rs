//! Real-time streams of real speech with text: how long after the end of speech the words come.
//!
//! Every stream plays the same tape. What its utterances say is found out beforehand by one stream
//! alone, so that a word that differs, or that is somebody else's, is seen. The server runs twice:
//! as it is, and with one utterance at a time on each instance.

use std::{collections::BTreeMap, fmt::Write as _, sync::Arc, time::Duration};

use anyhow::Context as _;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use super::{StreamArgs, Usage, expect::Tape, player::speak};
use crate::{client, commands::own};

/// How long after the end of speech the words may come, of nineteen in twenty utterances.
const IN_TIME_MS: f64 = 1000.0;
/// How late a chunk may be sent.
const SEND_SLACK: Duration = Duration::from_millis(500);

/// The server's settings for each way to run it.
const WAYS: [(&str, &[&str]); 2] = [
    ("on", &[]),
    ("off", &["models.moonshine.backend=moonshine", "models.moonshine.batch.max_items=1"]),
];

/// One line of the table.
#[derive(Debug, Clone, Serialize)]
struct Row {
    batching: &'static str,
    streams: u32,
    /// Streams that were sent on time.
    sent_in_time: u32,
    utterances: usize,
    /// Utterances whose words are not those of one stream alone.
    wrong: usize,
    /// From the last sample of speech to the words.
    p50_final_ms: f64,
    p95_final_ms: f64,
    /// From the first frame of speech to the first interim result, where those are asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    p50_first_interim_ms: Option<f64>,
    /// Processor seconds of this process, which is the server too.
    cpu_s: f64,
    rss_mb: f64,
}

impl Row {
    fn keeps_up(&self) -> bool {
        self.sent_in_time == self.streams && self.wrong == 0 && self.p95_final_ms < IN_TIME_MS
    }
}

/// What one stream heard.
#[derive(Debug, Default)]
struct Heard {
    is_in_time: bool,
    n_utterances: usize,
    n_wrong: usize,
    final_ms: Vec<f64>,
    first_interim_ms: Vec<f64>,
}

/// What each utterance says, by where it begins in thousandths of a second.
type Script = BTreeMap<u64, String>;

pub(super) async fn run(args: &StreamArgs) -> anyhow::Result<String> {
    let tape = Arc::new(Tape::new(args.seconds, args.chunk_ms));
    let ways = if args.url.is_some() { &WAYS[..1] } else { &WAYS };
    let mut rows = Vec::new();
    for (batching, settings) in ways {
        let (url, server) = if let Some(url) = &args.url {
            (url.clone(), None)
        } else {
            let settings: Vec<&str> = super::OWN[1..].iter().chain(*settings).copied().collect();
            let (url, stop) = own::serve(&args.config, &settings).await?;
            (url, Some(stop))
        };
        let bench = Bench { url, script: Arc::default(), tape: Arc::clone(&tape), batching, args };
        bench.run(&mut rows).await?;
        drop(server);
    }
    Ok(if args.json { serde_json::to_string_pretty(&rows)? + "\n" } else { table(&rows) })
}

/// One way to run the server.
struct Bench<'a> {
    url: String,
    script: Arc<Script>,
    tape: Arc<Tape>,
    batching: &'static str,
    args: &'a StreamArgs,
}

impl Bench<'_> {
    async fn run(mut self, rows: &mut Vec<Row>) -> anyhow::Result<()> {
        self.script = Arc::new(read(&self.url, &self.tape).await?);
        if !self.args.find_max {
            rows.push(self.measure(self.args.streams).await?);
            return Ok(());
        }
        let (mut good, mut bad, mut next) = (0, None, self.args.streams);
        let first = rows.len();
        while bad.is_none_or(|bad: u32| good + (good / 8).max(1) < bad) {
            let row = self.measure(next).await?;
            if row.keeps_up() {
                good = next;
            } else {
                bad = Some(next);
            }
            rows.push(row);
            next = bad.map_or(next * 2, |bad| good.midpoint(bad)).max(1);
            if bad == Some(1) {
                break;
            }
        }
        rows[first..].sort_by_key(|row| row.streams);
        Ok(())
    }

    /// Plays so many streams at once.
    async fn measure(&self, streams: u32) -> anyhow::Result<Row> {
        let before = Usage::now();
        let players: Vec<_> = (0..streams)
            .map(|number| {
                let (url, tape) = (self.url.clone(), Arc::clone(&self.tape));
                let (script, interim) = (Arc::clone(&self.script), self.args.interim);
                // People do not begin together.
                let begins = tape.round() * number / streams;
                #[expect(clippy::disallowed_methods, reason = "each stream is a client of its own")]
                tokio::spawn(async move { play(&url, &tape, &script, (begins, interim)).await })
            })
            .collect();
        let mut row = Row {
            batching: self.batching,
            streams,
            sent_in_time: 0,
            utterances: 0,
            wrong: 0,
            p50_final_ms: 0.0,
            p95_final_ms: 0.0,
            p50_first_interim_ms: None,
            cpu_s: 0.0,
            rss_mb: 0.0,
        };
        let (mut finals, mut interims) = (Vec::new(), Vec::new());
        for player in players {
            let heard = player.await.context("a player ended badly")??;
            row.sent_in_time += u32::from(heard.is_in_time);
            row.utterances += heard.n_utterances;
            row.wrong += heard.n_wrong;
            row.rss_mb = row.rss_mb.max(Usage::now().rss_mb);
            finals.extend(heard.final_ms);
            interims.extend(heard.first_interim_ms);
        }
        finals.sort_by(f64::total_cmp);
        interims.sort_by(f64::total_cmp);
        row.p50_final_ms = super::quantile(&finals, 0.5);
        row.p95_final_ms = super::quantile(&finals, 0.95);
        row.p50_first_interim_ms = self.args.interim.then(|| super::quantile(&interims, 0.5));
        row.cpu_s = Usage::now().cpu_s - before.cpu_s;
        Ok(row)
    }
}

/// What the utterances of the tape say, as one stream alone hears them.
async fn read(url: &str, tape: &Tape) -> anyhow::Result<Script> {
    let (mut mouth, mut ear) = client::connect(url, "segmented").await?;
    mouth.send(&start(false)).await?;
    let tell = async {
        for chunk in tape.chunks() {
            mouth.audio(chunk).await?;
        }
        mouth.stop().await
    };
    let hear = async {
        let mut script = Script::new();
        while let Some(event) = ear.next().await? {
            if event["type"] == "segment" {
                let text = event["text"].as_str().context(
                    "the server's model gives no text; run this where models/moonshine is, or give --model-repository",
                )?;
                script.insert(begins(&event), text.to_owned());
            }
        }
        anyhow::Ok(script)
    };
    let (told, script) = tokio::join!(tell, hear);
    told?;
    script
}

fn start(interim: bool) -> Value {
    json!({"request": "start", "interim_results": interim, "format": {
        "encoding": "s16le", "sample_rate": 16_000, "channels": 1}})
}

/// Where a segment begins, in thousandths of a second.
fn begins(event: &Value) -> u64 {
    let seconds = event["start_time"].as_f64().unwrap_or(0.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "casts saturate")]
    let millis = (seconds * 1000.0).round() as u64;
    millis
}

/// Plays the tape, beginning so much later, with interim results or without.
async fn play(
    url: &str,
    tape: &Tape,
    script: &Script,
    (begins_after, interim): (Duration, bool),
) -> anyhow::Result<Heard> {
    sleep_until(Instant::now() + begins_after).await;
    let (mut mouth, mut ear) = client::connect(url, "segmented").await?;
    mouth.send(&start(interim)).await?;
    let began = Instant::now();
    let since = |seconds: f64| {
        let due = began + Duration::from_secs_f64(seconds.max(0.0));
        Instant::now().saturating_duration_since(due).as_secs_f64() * 1000.0
    };
    let hear = async {
        let mut heard = Heard::default();
        let mut has_interim = false;
        while let Some(event) = ear.next().await? {
            if event["type"] != "segment" {
                anyhow::ensure!(event["type"] != "error", "the server says: {event}");
                continue;
            }
            if event["is_final"] == false {
                if !std::mem::replace(&mut has_interim, true)
                    && let Some(onset) = tape.onset(event["start_time"].as_f64().unwrap_or(0.0))
                {
                    heard.first_interim_ms.push(since(onset));
                }
                continue;
            }
            has_interim = false;
            heard.n_utterances += 1;
            heard.final_ms.push(since(event["end_time"].as_f64().unwrap_or(0.0)));
            let expected = script.get(&begins(&event)).map(String::as_str);
            heard.n_wrong += usize::from(event["text"].as_str() != expected);
        }
        anyhow::Ok(heard)
    };
    let (late, heard) = tokio::join!(speak(mouth, tape, began), hear);
    let (late, mut heard) = (late?, heard?);
    heard.is_in_time = late < SEND_SLACK;
    // An utterance that never came is as wrong as one with other words.
    heard.n_wrong += script.len().saturating_sub(heard.n_utterances);
    Ok(heard)
}

fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "{:>9}{:>9}{:>9}{:>12}{:>7}{:>11}{:>11}{:>16}{:>8}{:>9}\n",
        "batching",
        "streams",
        "in time",
        "utterances",
        "wrong",
        "p50 final",
        "p95 final",
        "first interim",
        "cpu",
        "memory"
    );
    for row in rows {
        let interim =
            row.p50_first_interim_ms.map_or("-".to_owned(), |millis| format!("{millis:.0} ms"));
        _ = writeln!(
            text,
            "{:>9}{:>9}{:>9}{:>12}{:>7}{:>8.0} ms{:>8.0} ms{:>16}{:>6.1} s{:>6.0} MB",
            row.batching,
            row.streams,
            row.sent_in_time,
            row.utterances,
            row.wrong,
            row.p50_final_ms,
            row.p95_final_ms,
            interim,
            row.cpu_s,
            row.rss_mb
        );
    }
    for (batching, _) in WAYS {
        let good = rows.iter().filter(|row| row.batching == batching && row.keeps_up());
        if let Some(most) = good.map(|row| row.streams).max() {
            _ = writeln!(
                text,
                "\nbatching {batching}: {most} streams had their words within a second of the end of speech (p95)."
            );
        }
    }
    text
}
