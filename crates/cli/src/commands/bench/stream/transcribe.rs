//! Real-time streams of real speech with text: how long after the end of speech the words come.
//!
//! Every stream plays the same tape. What its utterances say is found out beforehand by one stream
//! alone, so that a word that differs, or that is somebody else's, is seen. With `--compare`, the
//! server runs a second time with one utterance at a time on each instance.
//!
//! A measurement ends in bounded time: once it is plain that too many words come too late, and at
//! the latest a few seconds after the last stream has spoken.

mod listener;

use std::{
    fmt::Write as _,
    sync::{Arc, PoisonError, atomic::Ordering::Relaxed},
    time::Duration,
};

use anyhow::Context as _;
use serde::Serialize;
use tokio::{task::JoinSet, time::Instant};

use self::listener::{Heard, Play, Script};
use super::{StreamArgs, Usage, expect::Tape, search::Search};
use crate::commands::{bench::live::Live, own};

/// How long after the end of speech the words may come, of nineteen in twenty utterances.
const IN_TIME_MS: f64 = 1000.0;
/// How long after the last stream has spoken its words are waited for.
const GRACE: Duration = Duration::from_secs(5);
/// How often it is looked how far a measurement is.
const LOOK: Duration = Duration::from_millis(250);

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
    /// Utterances whose words came.
    utterances: u32,
    /// Utterances whose words did not come before the measurement was over.
    missing: u32,
    /// Utterances whose words are not those of one stream alone.
    wrong: u32,
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
        self.sent_in_time == self.streams
            && (self.missing, self.wrong) == (0, 0)
            && self.p95_final_ms < IN_TIME_MS
    }
}

pub(super) async fn run(args: &StreamArgs) -> anyhow::Result<String> {
    let tape = Arc::new(Tape::new(args.seconds, args.chunk_ms));
    let ways = if args.compare { &WAYS[..] } else { &WAYS[..1] };
    let mut rows = Vec::new();
    for (batching, settings) in ways {
        let (url, server) = if let Some(url) = &args.url {
            (url.clone(), None)
        } else {
            let settings: Vec<&str> = super::OWN[1..].iter().chain(*settings).copied().collect();
            let (url, stop) = own::serve(&args.config, &settings).await?;
            (url, Some(stop))
        };
        let script = Arc::new(listener::read(&url, &tape).await?);
        let live = Live::new();
        let bench = Bench { url, script, tape: Arc::clone(&tape), batching, args, live };
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
    live: Live,
}

impl Bench<'_> {
    async fn run(self, rows: &mut Vec<Row>) -> anyhow::Result<()> {
        let lasts = (self.tape.duration() + self.tape.round() + GRACE).as_secs();
        self.live.note(&format!("batching {}: at most {lasts} s for each line", self.batching));
        if !self.args.find_max {
            rows.push(self.measure(self.args.streams).await?);
            return Ok(());
        }
        let mut search = Search::new(self.args.streams);
        let first = rows.len();
        while let Some(streams) = search.next() {
            let row = self.measure(streams).await?;
            search.learn(row.keeps_up());
            rows.push(row);
        }
        rows[first..].sort_by_key(|row| row.streams);
        Ok(())
    }

    /// Plays so many streams at once.
    async fn measure(&self, streams: u32) -> anyhow::Result<Row> {
        let (before, began) = (Usage::now(), Instant::now());
        let play = Arc::new(Play {
            url: self.url.clone(),
            tape: Arc::clone(&self.tape),
            script: Arc::clone(&self.script),
            interim: self.args.interim,
            heard: Heard::default(),
        });
        let mut players = JoinSet::new();
        for number in 0..streams {
            let play = Arc::clone(&play);
            // People do not begin together.
            let begins = self.tape.round() * number / streams;
            players.spawn(async move { play.listen(begins).await });
        }
        let expected = streams * u32::try_from(self.script.len()).unwrap_or(u32::MAX);
        let rss_mb = self.wait(&mut players, &play.heard, (streams, expected, began)).await?;
        // Whoever still speaks is told to stop by its socket's end.
        players.shutdown().await;
        let Heard { n_in_time, n_finals, n_wrong, times, .. } = &play.heard;
        let mut times = times.lock().unwrap_or_else(PoisonError::into_inner);
        times.finals.sort_by(f64::total_cmp);
        times.first_interims.sort_by(f64::total_cmp);
        let utterances = n_finals.load(Relaxed);
        let row = Row {
            batching: self.batching,
            streams,
            sent_in_time: n_in_time.load(Relaxed),
            utterances,
            missing: expected.saturating_sub(utterances),
            wrong: n_wrong.load(Relaxed),
            p50_final_ms: super::quantile(&times.finals, 0.5),
            p95_final_ms: super::quantile(&times.finals, 0.95),
            p50_first_interim_ms: self
                .args
                .interim
                .then(|| super::quantile(&times.first_interims, 0.5)),
            cpu_s: Usage::now().cpu_s - before.cpu_s,
            rss_mb,
        };
        self.live.note(&format!(
            "batching {}, {streams} streams: p95 {:.0} ms, {} after {:.0} s",
            self.batching,
            row.p95_final_ms,
            if row.keeps_up() { "held" } else { "not held" },
            began.elapsed().as_secs_f64()
        ));
        Ok(row)
    }

    /// Waits for the streams, or until it is plain how this ends; the most memory that was seen.
    async fn wait(
        &self,
        players: &mut JoinSet<anyhow::Result<()>>,
        heard: &Heard,
        (streams, expected, began): (u32, u32, Instant),
    ) -> anyhow::Result<f64> {
        let lasts = self.tape.duration() + self.tape.round() + GRACE;
        let mut looks = tokio::time::interval(LOOK);
        let mut rss_mb = 0.0_f64;
        loop {
            tokio::select! {
                player = players.join_next() => match player {
                    None => return Ok(rss_mb),
                    Some(player) => if let Err(error) = player.context("a player ended badly")?
                        && heard.n_broken.fetch_add(1, Relaxed) == 0
                    {
                        self.live.note(&format!("a stream broke: {error:#}"));
                    },
                },
                _ = looks.tick() => {
                    rss_mb = rss_mb.max(Usage::now().rss_mb);
                    let (n_finals, n_late) =
                        (heard.n_finals.load(Relaxed), heard.n_late.load(Relaxed));
                    let took = began.elapsed();
                    self.live.show(&format!(
                        "batching {}, {streams} streams: {:.0} of {:.0} s, {n_finals} of {expected} utterances, {n_late} late",
                        self.batching, took.as_secs_f64(), lasts.as_secs_f64()
                    ));
                    let is_lost = self.args.find_max && expected < 20 * n_late;
                    if lasts < took || is_lost || heard.n_broken.load(Relaxed) == streams {
                        return Ok(rss_mb);
                    }
                }
            }
        }
    }
}

fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "{:>9}{:>9}{:>9}{:>12}{:>9}{:>7}{:>11}{:>11}{:>16}{:>8}{:>9}\n",
        "batching",
        "streams",
        "in time",
        "utterances",
        "missing",
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
            "{:>9}{:>9}{:>9}{:>12}{:>9}{:>7}{:>8.0} ms{:>8.0} ms{:>16}{:>6.1} s{:>6.0} MB",
            row.batching,
            row.streams,
            row.sent_in_time,
            row.utterances,
            row.missing,
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
