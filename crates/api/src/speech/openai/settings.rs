//! What a realtime session is set to: how `session.update` changes it, what it is opened with, and
//! how it is told.

use std::time::Duration;

use paceline_batch::Key;
use paceline_pipeline::speech::{
    Encoding, INTERIM_INTERVAL, SegmentSettings, Source, Style, Terms, Utterances,
};
use serde_json::{Map, Value, json};

use crate::{
    ApiError,
    speech::fields::{clip, wrong},
};

/// What a session is set to.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Settings {
    pub(super) format: Format,
    /// As the client wrote it.
    pub(super) model: Option<String>,
    pub(super) turns: Option<Turns>,
    /// What is said back and has no effect.
    pub(super) unused: Map<String, Value>,
}

/// What audio is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Pcm,
    Pcmu,
    Pcma,
}

/// How the server finds where somebody stops to speak; without it, the client says so.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Turns {
    threshold: f32,
    prefix_padding_ms: u64,
    silence_duration_ms: u64,
}

impl Default for Turns {
    fn default() -> Self {
        Self { threshold: 0.5, prefix_padding_ms: 300, silence_duration_ms: 500 }
    }
}

impl Default for Settings {
    fn default() -> Self {
        let turns = Some(Turns::default());
        Self { format: Format::Pcm, model: None, turns, unused: Map::new() }
    }
}

impl Format {
    const fn source(self) -> Source {
        match self {
            Self::Pcm => Source::raw(Encoding::S16le, 24_000, 1),
            Self::Pcmu => Source::raw(Encoding::Mulaw, 8000, 1),
            Self::Pcma => Source::raw(Encoding::Alaw, 8000, 1),
        }
    }

    /// Bytes of so many samples of ours.
    pub(super) const fn bytes(self, samples: u64) -> u64 {
        match self {
            Self::Pcm => samples * 3,
            Self::Pcmu | Self::Pcma => samples / 2,
        }
    }

    fn named(name: &str) -> Result<Self, ApiError> {
        match name {
            "audio/pcm" | "pcm16" => Ok(Self::Pcm),
            "audio/pcmu" | "g711_ulaw" => Ok(Self::Pcmu),
            "audio/pcma" | "g711_alaw" => Ok(Self::Pcma),
            other => Err(wrong(format!(
                "the format is {}; it is audio/pcm, audio/pcmu or audio/pcma",
                clip(other)
            ))),
        }
    }

    fn told(self) -> Value {
        match self {
            Self::Pcm => json!({ "type": "audio/pcm", "rate": 24_000 }),
            Self::Pcmu => json!({ "type": "audio/pcmu" }),
            Self::Pcma => json!({ "type": "audio/pcma" }),
        }
    }
}

impl Settings {
    /// The same with what the client changed: what it left out stays.
    pub(super) fn changed(&self, session: &Value) -> Result<Self, ApiError> {
        let mut changed = self.clone();
        if let Some(kind) = session.get("type")
            && kind != "transcription"
        {
            return Err(wrong("session.type is transcription here: this server only listens"));
        }
        // The older form has everything at the top, the newer one under `audio.input`.
        let input = session.pointer("/audio/input").unwrap_or(session);
        if let Some(format) = input.get("format") {
            changed.format = format_of(format)?;
        }
        if let Some(Value::String(format)) = session.get("input_audio_format") {
            changed.format = Format::named(format)?;
        }
        let spoken =
            input.get("transcription").or_else(|| session.get("input_audio_transcription"));
        if let Some(Value::String(model)) = spoken.and_then(|spoken| spoken.get("model")) {
            changed.model = Some(model.clone());
        }
        if let Some(turns) = input.get("turn_detection") {
            changed.turns = turns_of(turns, self.turns.unwrap_or_default())?;
        }
        for (name, value) in spoken.and_then(Value::as_object).into_iter().flatten() {
            if name != "model" && name.len() <= 64 && changed.unused.len() < 16 {
                changed.unused.insert(name.clone(), value.clone());
            }
        }
        changed.terms(None)?;
        Ok(changed)
    }

    /// What a session with a model of ours is opened with.
    pub(super) fn terms(&self, model: Option<String>) -> Result<Terms, ApiError> {
        let default = SegmentSettings::default();
        let settings = match self.turns {
            None => default,
            Some(turns) => SegmentSettings {
                positive_threshold: turns.threshold,
                negative_threshold: (turns.threshold - 0.15).max(0.01),
                pre_speech_pad: Duration::from_millis(turns.prefix_padding_ms),
                redemption_time: Duration::from_millis(turns.silence_duration_ms),
                ..default
            },
        };
        let settings =
            settings.validate().map_err(|error| wrong(format!("turn_detection: {error}")))?;
        Ok(Terms {
            source: self.format.source(),
            model,
            params: Key::ANY,
            // What is stable of an utterance under way is told where turns are, as deltas that
            // nothing takes back.
            style: Style::Segmented(Utterances {
                settings,
                interim: self.turns.map(|_| INTERIM_INTERVAL),
                keeps_stable: true,
                ..Utterances::default()
            }),
            mix: true,
            trace: None,
        })
    }

    /// How a client is told of it.
    pub(super) fn told(&self, id: &str, is_beta: bool) -> Value {
        let turns = self.turns.map(|turns| {
            json!({
                "type": "server_vad",
                "threshold": turns.threshold,
                "prefix_padding_ms": turns.prefix_padding_ms,
                "silence_duration_ms": turns.silence_duration_ms,
            })
        });
        let mut transcription = self.unused.clone();
        transcription.insert("model".to_owned(), json!(self.model));
        if is_beta {
            let format = match self.format {
                Format::Pcm => "pcm16",
                Format::Pcmu => "g711_ulaw",
                Format::Pcma => "g711_alaw",
            };
            return json!({
                "id": id,
                "object": "realtime.transcription_session",
                "input_audio_format": format,
                "input_audio_transcription": transcription,
                "turn_detection": turns,
            });
        }
        json!({
            "type": "transcription",
            "object": "realtime.transcription_session",
            "id": id,
            "expires_at": 0,
            "audio": { "input": {
                "format": self.format.told(),
                "transcription": transcription,
                "noise_reduction": null,
                "turn_detection": turns,
            }},
            "include": null,
        })
    }
}

fn format_of(format: &Value) -> Result<Format, ApiError> {
    let named = Format::named(format["type"].as_str().unwrap_or_default())?;
    match format.get("rate").and_then(Value::as_u64) {
        Some(rate) if named == Format::Pcm && rate != 24_000 => {
            Err(wrong(format!("format.rate is {rate}; audio/pcm is sent at 24000")))
        }
        _ => Ok(named),
    }
}

fn turns_of(turns: &Value, before: Turns) -> Result<Option<Turns>, ApiError> {
    if turns.is_null() {
        return Ok(None);
    }
    match turns["type"].as_str() {
        None | Some("server_vad" | "semantic_vad") => {}
        Some(_) => {
            return Err(wrong("turn_detection.type is server_vad, or turn_detection is null"));
        }
    }
    let count = |name: &str, before| match turns.get(name) {
        None | Some(Value::Null) => Ok(before),
        Some(value) => value
            .as_u64()
            .ok_or_else(|| wrong(format!("turn_detection.{name} is a number of milliseconds"))),
    };
    #[expect(clippy::cast_possible_truncation, reason = "a threshold needs no more digits")]
    let threshold = turns["threshold"].as_f64().map_or(before.threshold, |value| value as f32);
    Ok(Some(Turns {
        threshold,
        prefix_padding_ms: count("prefix_padding_ms", before.prefix_padding_ms)?,
        silence_duration_ms: count("silence_duration_ms", before.silence_duration_ms)?,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_stays_and_null_clears() {
        let first = Settings::default()
            .changed(&json!({"type": "transcription", "audio": {"input": {
                "format": {"type": "audio/pcmu"},
                "transcription": {"model": "whisper-1", "language": "en"},
                "turn_detection": {"type": "server_vad", "silence_duration_ms": 200}}}}))
            .unwrap();
        assert_eq!(first.format, Format::Pcmu);
        assert_eq!(first.model.as_deref(), Some("whisper-1"));
        assert_eq!(first.turns.unwrap().prefix_padding_ms, 300);

        let manual = first.changed(&json!({"audio": {"input": {"turn_detection": null}}})).unwrap();

        assert_eq!(manual.turns, None);
        assert_eq!((manual.format, &manual.model), (first.format, &first.model));
        assert_eq!(manual.told("s", false)["audio"]["input"]["turn_detection"], Value::Null);
    }

    #[test]
    fn both_generations_say_the_same() {
        let older = json!({"input_audio_format": "g711_alaw",
            "input_audio_transcription": {"model": "m"}, "turn_detection": null});
        let newer = json!({"type": "transcription", "audio": {"input": {
            "format": {"type": "audio/pcma"}, "transcription": {"model": "m"},
            "turn_detection": null}}});

        assert_eq!(
            Settings::default().changed(&older).unwrap(),
            Settings::default().changed(&newer).unwrap()
        );
    }

    #[test]
    fn what_cannot_be_met_is_refused_with_a_sentence() {
        let input = |input: Value| json!({ "audio": { "input": input } });
        for wrong in [
            json!({"type": "realtime"}),
            input(json!({"format": {"type": "audio/mp3"}})),
            input(json!({"format": {"type": "audio/pcm", "rate": 16_000}})),
            input(json!({"turn_detection": {"type": "psychic"}})),
            input(json!({"turn_detection": {"type": "server_vad", "threshold": 7}})),
            input(json!({"turn_detection": {"silence_duration_ms": "long"}})),
            input(json!({"turn_detection": {"silence_duration_ms": 60_000}})),
        ] {
            let error = Settings::default().changed(&wrong).unwrap_err();
            assert!(10 < error.message.len(), "{wrong}");
        }
    }
}
