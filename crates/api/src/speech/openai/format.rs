//! A transcript in the forms that `OpenAI` writes it in.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::speech::{
    heard::{Final, join, round, words},
    recital::Summary,
};

/// A form of a transcript.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Json,
    Text,
    Srt,
    Vtt,
    VerboseJson,
}

impl Format {
    /// The form of this name; what there is, where there is none.
    pub(super) fn named(name: Option<&str>) -> Result<Self, String> {
        Ok(match name {
            None | Some("json") => Self::Json,
            Some("text") => Self::Text,
            Some("srt") => Self::Srt,
            Some("vtt") => Self::Vtt,
            Some("verbose_json") => Self::VerboseJson,
            Some(_) => {
                return Err("response_format is json, text, srt, vtt or verbose_json; speakers \
                            are not told apart here"
                    .to_owned());
            }
        })
    }

    /// What kind of body it is.
    pub(super) const fn content_type(self) -> &'static str {
        match self {
            Self::Json | Self::VerboseJson => "application/json",
            Self::Text | Self::Srt => "text/plain; charset=utf-8",
            Self::Vtt => "text/vtt; charset=utf-8",
        }
    }
}

/// A whole transcript.
#[derive(Debug)]
pub(super) struct Transcript {
    pub(super) said: Vec<Final>,
    pub(super) summary: Summary,
    /// Whether words are listed one by one, in `verbose_json`.
    pub(super) has_words: bool,
}

impl Transcript {
    pub(super) fn write(&self, format: Format) -> String {
        match format {
            Format::Json => {
                json!({ "text": self.text(), "usage": usage(self.summary.duration) }).to_string()
            }
            Format::Text => self.text() + "\n",
            Format::Srt => self.cues("", ','),
            Format::Vtt => self.cues("WEBVTT\n\n", '.'),
            Format::VerboseJson => self.verbose().to_string(),
        }
    }

    pub(super) fn text(&self) -> String {
        join(self.said.iter().map(|said| &*said.text))
    }

    /// Subtitles: SRT has numbers, both have times.
    fn cues(&self, head: &str, point: char) -> String {
        let mut cues = head.to_owned();
        for (at, said) in self.said.iter().enumerate() {
            let (start, end) = said.span.seconds();
            let number = if head.is_empty() { format!("{}\n", at + 1) } else { String::new() };
            // Writing to a string cannot fail.
            writeln!(
                cues,
                "{number}{} --> {}\n{}\n",
                time(start, point),
                time(end, point),
                said.text
            )
            .ok();
        }
        cues
    }

    fn verbose(&self) -> Value {
        let segments: Vec<Value> = self
            .said
            .iter()
            .enumerate()
            .map(|(id, said)| {
                let (start, end) = said.span.seconds();
                // What the model does not give is 0 or empty; clients ask for every field.
                json!({
                    "id": id, "seek": 0, "start": round(start), "end": round(end),
                    "text": format!(" {}", said.text), "tokens": [], "temperature": 0.0,
                    "avg_logprob": 0.0, "compression_ratio": 0.0, "no_speech_prob": 0.0,
                })
            })
            .collect();
        let mut verbose = json!({
            "task": "transcribe", "language": "english", "duration": round(self.summary.duration),
            "text": self.text(), "segments": segments, "usage": usage(self.summary.duration),
        });
        if self.has_words {
            let words = self.said.iter().flat_map(|said| words(&said.text, &said.span));
            let list = words
                .map(|word| json!({ "word": word.text, "start": word.start, "end": word.end }));
            verbose["words"] = list.collect();
        }
        verbose
    }
}

/// What a client is charged for elsewhere.
pub(super) fn usage(seconds: f64) -> Value {
    json!({ "type": "duration", "seconds": round(seconds) })
}

/// Hours, minutes, seconds and milliseconds.
fn time(seconds: f64, point: char) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a time in a file is not negative and not long"
    )]
    let all = (seconds * 1000.0).round() as u64;
    let (hours, minutes, seconds) = (all / 3_600_000, all / 60_000 % 60, all / 1000 % 60);
    format!("{hours:02}:{minutes:02}:{seconds:02}{point}{:03}", all % 1000)
}

#[cfg(test)]
mod tests {
    use paceline_pipeline::speech::{EndReason, Span};

    use super::*;

    fn transcript() -> Transcript {
        let said = |start, end, text: &str| Final {
            channel: 0,
            span: Span { start, end },
            text: text.to_owned(),
            ended: EndReason::Silence,
        };
        Transcript {
            said: vec![said(0, 24_000, "Hello there."), said(60_000_000, 60_016_000, "Bye.")],
            summary: Summary { duration: 3751.0, n_channels: 1 },
            has_words: true,
        }
    }

    #[test]
    fn each_form_is_as_its_readers_expect() {
        let written = |format| transcript().write(format);

        assert_eq!(written(Format::Text), "Hello there. Bye.\n");
        assert_eq!(
            written(Format::Srt),
            "1\n00:00:00,000 --> 00:00:01,500\nHello there.\n\n\
             2\n01:02:30,000 --> 01:02:31,000\nBye.\n\n"
        );
        assert_eq!(
            written(Format::Vtt),
            "WEBVTT\n\n00:00:00.000 --> 00:00:01.500\nHello there.\n\n\
             01:02:30.000 --> 01:02:31.000\nBye.\n\n"
        );
        let short: Value = serde_json::from_str(&written(Format::Json)).unwrap();
        assert_eq!(
            short,
            json!({"text": "Hello there. Bye.", "usage": {"type": "duration", "seconds": 3751.0}})
        );
    }

    #[test]
    fn the_long_form_has_every_field_that_types_ask_for() {
        let long: Value = serde_json::from_str(&transcript().write(Format::VerboseJson)).unwrap();

        for field in [
            "id",
            "seek",
            "start",
            "end",
            "text",
            "tokens",
            "temperature",
            "avg_logprob",
            "compression_ratio",
            "no_speech_prob",
        ] {
            assert!(long["segments"][1].get(field).is_some(), "{field}");
        }
        assert_eq!(long["words"].as_array().unwrap().len(), 3);
        assert_eq!(long["words"][2]["word"], "Bye.");
        assert_eq!(long["duration"], 3751.0);
    }

    #[test]
    fn an_unknown_form_is_refused_with_those_that_are_known() {
        assert_eq!(Format::named(None), Ok(Format::Json));
        assert!(Format::named(Some("diarized_json")).unwrap_err().contains("verbose_json"));
    }
}
