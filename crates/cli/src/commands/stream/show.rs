//! Events for people: one line each, and one live line for what is being said.

use std::io::{self, IsTerminal as _, Write as _};

use serde_json::Value;
use tokio::time::Instant;

/// Fields that are shown as times or not at all.
const OWN: [&str; 6] = ["type", "channel", "start_time", "end_time", "is_final", "request_id"];

/// For whom events are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Programs: every event as it came.
    Json,
    /// A person who watches.
    Terminal,
    /// A file.
    Plain,
}

pub(super) struct Show {
    form: Form,
    is_live: bool,
    is_realtime: bool,
    began: Instant,
    first: Option<Instant>,
    last: Option<Instant>,
    /// How long after an utterance had ended its final result came, in milliseconds.
    after_speech: Vec<f64>,
    audio_seconds: f64,
    n_segments: usize,
    n_errors: usize,
    /// What the server said was wrong with the stream as a whole.
    refused: Option<String>,
}

impl Show {
    pub(super) fn new(is_json: bool, began: Instant, is_realtime: bool) -> Self {
        let form = match io::stdout().is_terminal() {
            _ if is_json => Form::Json,
            true => Form::Terminal,
            false => Form::Plain,
        };
        Self {
            form,
            is_live: false,
            is_realtime,
            began,
            first: None,
            last: None,
            after_speech: Vec::new(),
            audio_seconds: 0.0,
            n_segments: 0,
            n_errors: 0,
            refused: None,
        }
    }

    pub(super) fn event(&mut self, event: &Value) -> anyhow::Result<()> {
        let now = Instant::now();
        let kind = event["type"].as_str().unwrap_or_default();
        if kind == "end" {
            self.audio_seconds = event["end_time"].as_f64().unwrap_or(0.0);
        } else {
            self.first.get_or_insert(now);
            self.last = Some(now);
        }
        let is_interim = event["is_final"] == false;
        match kind {
            "segment" if !is_interim => {
                self.n_segments += 1;
                let end = event["end_time"].as_f64().unwrap_or(0.0);
                self.after_speech.push(((now - self.began).as_secs_f64() - end) * 1000.0);
            }
            "error" => {
                self.n_errors += 1;
                // What concerns a segment says which; the stream goes on then.
                if event["start_time"].is_null() {
                    let message = event["message"].as_str().unwrap_or("the stream is refused");
                    self.refused.get_or_insert_with(|| message.to_owned());
                }
            }
            _ => {}
        }
        if self.form == Form::Json {
            return Ok(writeln!(io::stdout(), "{event}")?);
        }
        if kind == "end" || (is_interim && self.form == Form::Plain) {
            return Ok(());
        }
        self.clear()?;
        let mut out = io::stdout();
        write!(out, "{}", line(event))?;
        self.is_live = is_interim;
        if !is_interim {
            writeln!(out)?;
        }
        Ok(out.flush()?)
    }

    /// Takes the live line away.
    pub(super) fn clear(&mut self) -> anyhow::Result<()> {
        if std::mem::take(&mut self.is_live) {
            write!(io::stdout(), "\r\x1b[2K")?;
        }
        Ok(())
    }

    /// How it went; fails if the server refused the stream. `sent` is when the last audio was.
    pub(super) fn sum_up(mut self, sent: Instant) -> anyhow::Result<()> {
        self.clear()?;
        let ms = |from: Instant, to: Option<Instant>| {
            to.map(|to| to.saturating_duration_since(from).as_secs_f64() * 1000.0)
        };
        let first = ms(self.began, self.first);
        let rest = ms(sent, self.last);
        let took = self.last.map_or(0.0, |last| (last - self.began).as_secs_f64());
        let factor = (0.0 < self.audio_seconds).then(|| took / self.audio_seconds);
        self.after_speech.sort_by(f64::total_cmp);
        // Without pacing, when something was spoken is nobody's clock.
        let after = self.after_speech.get(self.after_speech.len() / 2);
        let after = after.filter(|_| self.is_realtime).copied();
        if self.form == Form::Json {
            let summary = serde_json::json!({
                "type": "summary",
                "audio_s": self.audio_seconds,
                "segments": self.n_segments,
                "errors": self.n_errors,
                "first_event_ms": first,
                "after_last_audio_ms": rest,
                "after_end_of_speech_p50_ms": after,
                "real_time_factor": factor,
            });
            writeln!(io::stderr(), "{summary}")?;
            return self.refused.map_or(Ok(()), |why| Err(anyhow::anyhow!(why)));
        }
        let shown = |value: Option<f64>| value.map_or("-".to_owned(), |ms| format!("{ms:.0} ms"));
        writeln!(
            io::stderr(),
            "{:.1} s of audio, {} segments, {} errors; first event after {}, last one {} after the last audio{}; real-time factor {}",
            self.audio_seconds,
            self.n_segments,
            self.n_errors,
            shown(first),
            shown(rest),
            after.map_or_else(String::new, |ms| format!(
                ", results {ms:.0} ms after the end of speech (median)"
            )),
            factor.map_or("-".to_owned(), |factor| format!("{factor:.3}")),
        )?;
        self.refused.map_or(Ok(()), |why| Err(anyhow::anyhow!(why)))
    }
}

/// One event as a person reads it.
fn line(event: &Value) -> String {
    let channel = event["channel"].as_u64().unwrap_or(0);
    let time = |field: &str| event[field].as_f64().unwrap_or(0.0);
    let kind = event["type"].as_str().unwrap_or("?");
    let says = |what: &str| format!("{channel}  {:>18}  {what}", format!("{:.2} s", time("time")));
    match kind {
        "active" => says("speaks"),
        "inactive" => says("is silent"),
        "segment" => {
            let span = format!("{:.2} to {:.2} s", time("start_time"), time("end_time"));
            let mark = if event["is_final"] == false { "… " } else { "" };
            format!("{channel}  {span:>18}  {mark}{}", words(event))
        }
        _ => format!("{channel}  {kind:>18}  {}", event["message"].as_str().unwrap_or_default()),
    }
}

/// What the model said: its text where it has one, else everything.
fn words(event: &Value) -> String {
    if let Some(text) = event["text"].as_str() {
        return text.to_owned();
    }
    let fields = event.as_object().into_iter().flatten();
    let own: Vec<String> = fields
        .filter(|(name, _)| !OWN.contains(&name.as_str()))
        .map(|(name, value)| format!("{name} {value}"))
        .collect();
    own.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn events_read_as_lines() {
        for (event, expected) in [
            (
                json!({"type": "active", "time": 0.32, "channel": 1}),
                "1              0.32 s  speaks",
            ),
            (
                json!({"type": "segment", "start_time": 0.0, "end_time": 2.5, "is_final": true,
                    "count": 40_000, "channel": 0}),
                "0      0.00 to 2.50 s  count 40000",
            ),
            (
                json!({"type": "segment", "start_time": 0.0, "end_time": 2.5, "is_final": false,
                    "text": "ask not", "channel": 0}),
                "0      0.00 to 2.50 s  … ask not",
            ),
            (
                json!({"type": "error", "message": "broken", "code": "internal", "channel": 0}),
                "0               error  broken",
            ),
        ] {
            assert_eq!(line(&event), expected);
        }
    }
}
