//! One stream: plays the tape at real time and watches the clock.

use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep_until};

use super::expect::Tape;
use crate::client::{self, Ear, Mouth};

/// How late a chunk may be sent, and how late the last result may come.
pub(super) const SEND_SLACK: Duration = Duration::from_millis(500);
const END_SLACK: Duration = Duration::from_secs(1);

/// What became of one stream, or of several.
#[derive(Debug, Default)]
pub(super) struct Played {
    pub(super) kept_realtime: bool,
    pub(super) lost_samples: u64,
    pub(super) reordered: u64,
    pub(super) latencies_ms: Vec<f64>,
}

impl Played {
    pub(super) fn add(&mut self, other: Self) {
        self.lost_samples += other.lost_samples;
        self.reordered += other.reordered;
        self.latencies_ms.extend(other.latencies_ms);
    }
}

/// Plays the tape, beginning so much later.
pub(super) async fn play(url: &str, tape: &Tape, begins: Duration) -> anyhow::Result<Played> {
    let began = Instant::now() + begins;
    sleep_until(began).await;
    let (mut mouth, ear) = client::connect(url, "segmented").await?;
    let start = json!({"request": "start", "summary": true, "format": {
        "encoding": "s16le", "sample_rate": 16_000, "channels": 1}});
    mouth.send(&start).await?;
    let began = Instant::now();
    let (late, heard) = tokio::join!(speak(mouth, tape, began), hear(ear, tape, began));
    let (late, (mut played, ended)) = (late?, heard?);
    let is_in_time = ended < began + tape.duration() + END_SLACK;
    played.kept_realtime = late < SEND_SLACK && is_in_time;
    Ok(played)
}

/// Sends every chunk when it is due; says how late the latest was.
pub(super) async fn speak(
    mut mouth: Mouth,
    tape: &Tape,
    began: Instant,
) -> anyhow::Result<Duration> {
    let mut latest = Duration::ZERO;
    for (at, chunk) in tape.chunks().enumerate() {
        let due = began + tape.due(at);
        sleep_until(due).await;
        mouth.audio(chunk).await?;
        latest = latest.max(due.elapsed());
    }
    mouth.stop().await?;
    Ok(latest)
}

async fn hear(mut ear: Ear, tape: &Tape, began: Instant) -> anyhow::Result<(Played, Instant)> {
    let mut played = Played { lost_samples: tape.n_samples(), ..Played::default() };
    let (mut is_active, mut last_end) = (false, 0.0);
    while let Some(event) = ear.next().await? {
        let time = |field: &str| event[field].as_f64().unwrap_or(f64::NAN);
        match event["type"].as_str() {
            Some("active") => {
                if let Some(decided) = tape.decided(time("time")) {
                    let late = (began + decided).elapsed();
                    played.latencies_ms.push(late.as_secs_f64() * 1000.0);
                }
                played.reordered += u64::from(std::mem::replace(&mut is_active, true));
            }
            Some("inactive") => {
                played.reordered += u64::from(!std::mem::replace(&mut is_active, false));
            }
            Some("segment") => {
                played.reordered += u64::from(time("start_time") < last_end);
                last_end = time("end_time");
            }
            Some("end") => {
                let heard = event["samples"].as_u64().unwrap_or(0);
                played.lost_samples = tape.n_samples().saturating_sub(heard);
            }
            _ => anyhow::bail!("unexpected: {event}"),
        }
    }
    Ok((played, Instant::now()))
}
