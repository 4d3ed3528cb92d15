//! One stream that speaks and waits for its words.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use anyhow::Context as _;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{
    super::{
        expect::Tape,
        player::{SEND_SLACK, speak},
    },
    IN_TIME_MS,
};
use crate::client;

/// What each utterance says, by where it begins in thousandths of a second.
pub(super) type Script = BTreeMap<u64, String>;

/// What every stream of a measurement plays, and what they have heard together.
pub(super) struct Play {
    pub(super) url: String,
    pub(super) tape: Arc<Tape>,
    pub(super) script: Arc<Script>,
    pub(super) interim: bool,
    pub(super) heard: Heard,
}

/// What was heard so far.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// Streams that have ended with everything sent on time.
    pub(super) n_in_time: AtomicU32,
    /// Streams that the server closed or refused.
    pub(super) n_broken: AtomicU32,
    /// Final words that came, those of them that came late, and those that were not the script's.
    pub(super) n_finals: AtomicU32,
    pub(super) n_late: AtomicU32,
    pub(super) n_wrong: AtomicU32,
    pub(super) times: std::sync::Mutex<Times>,
}

/// How long words took, in milliseconds.
#[derive(Debug, Default)]
pub(super) struct Times {
    pub(super) finals: Vec<f64>,
    pub(super) first_interims: Vec<f64>,
}

impl Play {
    /// Plays the tape as one stream, beginning so much later.
    pub(super) async fn listen(&self, begins_after: Duration) -> anyhow::Result<()> {
        sleep(begins_after).await;
        let (mut mouth, mut ear) = client::connect(&self.url, "segmented").await?;
        mouth.send(&start(self.interim)).await?;
        let began = Instant::now();
        let hear = async {
            let mut has_interim = false;
            while let Some(event) = ear.next().await? {
                anyhow::ensure!(event["type"] != "error", "the server says: {event}");
                if event["type"] == "segment" {
                    self.hear(&event, began, &mut has_interim);
                }
            }
            anyhow::Ok(())
        };
        let (late, heard) = tokio::join!(speak(mouth, &self.tape, began), hear);
        // What the server said is wrong explains why it would not listen.
        heard?;
        self.heard.n_in_time.fetch_add(u32::from(late? < SEND_SLACK), Relaxed);
        Ok(())
    }

    fn hear(&self, event: &Value, began: Instant, has_interim: &mut bool) {
        let since = |seconds: f64| {
            let due = began + Duration::from_secs_f64(seconds.max(0.0));
            Instant::now().saturating_duration_since(due).as_secs_f64() * 1000.0
        };
        let time = |field: &str| event[field].as_f64().unwrap_or(0.0);
        let utterance = self.tape.utterance(time("start_time"));
        let mut times = self.heard.times.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if event["is_final"] == false {
            if !std::mem::replace(has_interim, true)
                && let Some(utterance) = utterance
            {
                times.first_interims.push(since(utterance.onset()));
            }
            return;
        }
        *has_interim = false;
        // A server with settings of its own finds other utterances: then by where they end.
        let spoken = utterance.map_or_else(|| time("end_time"), |utterance| utterance.spoken);
        let took = since(spoken);
        times.finals.push(took);
        let expected = self.script.get(&begins(event)).map(String::as_str);
        self.heard.n_wrong.fetch_add(u32::from(event["text"].as_str() != expected), Relaxed);
        self.heard.n_late.fetch_add(u32::from(IN_TIME_MS <= took), Relaxed);
        self.heard.n_finals.fetch_add(1, Relaxed);
    }
}

/// What the utterances of the tape say, as one stream alone hears them.
pub(super) async fn read(url: &str, tape: &Tape) -> anyhow::Result<Script> {
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
