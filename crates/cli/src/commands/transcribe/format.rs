//! What was said in a file, as people and players read it. Pure.

use std::fmt::Write as _;

use clap::ValueEnum;
use serde::Serialize;

/// How transcripts are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// The words, a line for each utterance
    Text,
    /// `SubRip` subtitles
    Srt,
    /// `WebVTT` subtitles
    Vtt,
    /// Everything that is known, a line for each file
    Json,
}

/// What was said in one file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Transcript {
    pub(super) file: String,
    /// Seconds of audio.
    pub(super) duration: f64,
    pub(super) text: String,
    pub(super) segments: Vec<Segment>,
}

/// One utterance.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Segment {
    /// Seconds.
    pub(super) start: f64,
    pub(super) end: f64,
    pub(super) channel: u64,
    pub(super) text: String,
}

impl Format {
    /// What files of this form are called.
    pub(super) const fn extension(self) -> &'static str {
        match self {
            Self::Text => "txt",
            Self::Srt => "srt",
            Self::Vtt => "vtt",
            Self::Json => "json",
        }
    }

    /// A transcript in this form.
    pub(super) fn write(self, transcript: &Transcript) -> String {
        match self {
            Self::Text => text(transcript),
            Self::Srt => srt(transcript),
            Self::Vtt => vtt(transcript),
            Self::Json => serde_json::to_string(transcript).unwrap_or_default() + "\n",
        }
    }
}

fn text(transcript: &Transcript) -> String {
    let is_several = transcript.is_several();
    transcript.segments.iter().fold(String::new(), |mut text, segment| {
        if is_several {
            _ = write!(text, "{}: ", segment.channel);
        }
        text + &segment.text + "\n"
    })
}

fn srt(transcript: &Transcript) -> String {
    let is_several = transcript.is_several();
    let mut text = String::new();
    for (number, segment) in transcript.segments.iter().enumerate() {
        let (start, end) = (time(segment.start, ','), time(segment.end, ','));
        let who = if is_several { format!("{}: ", segment.channel) } else { String::new() };
        // A line of an arrow would begin another subtitle.
        let words = segment.text.replace("-->", "->");
        _ = write!(text, "{}\n{start} --> {end}\n{who}{words}\n\n", number + 1);
    }
    text
}

fn vtt(transcript: &Transcript) -> String {
    let is_several = transcript.is_several();
    let mut text = String::from("WEBVTT\n\n");
    for segment in &transcript.segments {
        let (start, end) = (time(segment.start, '.'), time(segment.end, '.'));
        let who = if is_several { format!("<v {}>", segment.channel) } else { String::new() };
        let words = segment.text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        _ = write!(text, "{start} --> {end}\n{who}{words}\n\n");
    }
    text
}

impl Transcript {
    /// Whether several channels speak.
    fn is_several(&self) -> bool {
        self.segments.iter().any(|segment| segment.channel != self.segments[0].channel)
    }
}

/// Hours, minutes, seconds and thousandths.
fn time(seconds: f64, point: char) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "float casts saturate"
    )]
    let millis = (seconds * 1000.0).round() as u64;
    let (hours, minutes) = (millis / 3_600_000, millis / 60_000 % 60);
    format!("{hours:02}:{minutes:02}:{:02}{point}{:03}", millis / 1000 % 60, millis % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transcript(channels: [u64; 2]) -> Transcript {
        let segment = |start: f64, channel, text: &str| Segment {
            start,
            end: start + 1.5,
            channel,
            text: text.to_owned(),
        };
        Transcript {
            file: "a.wav".to_owned(),
            duration: 3700.0,
            text: "Ask not. 1 < 2 --> yes".to_owned(),
            segments: vec![
                segment(0.2, channels[0], "Ask not."),
                segment(3661.9996, channels[1], "1 < 2 --> yes"),
            ],
        }
    }

    #[test]
    fn subtitles_are_as_players_read_them() {
        assert_eq!(
            Format::Srt.write(&transcript([0, 0])),
            "1\n00:00:00,200 --> 00:00:01,700\nAsk not.\n\n\
             2\n01:01:02,000 --> 01:01:03,500\n1 < 2 -> yes\n\n"
        );
        assert_eq!(
            Format::Vtt.write(&transcript([0, 1])),
            "WEBVTT\n\n00:00:00.200 --> 00:00:01.700\n<v 0>Ask not.\n\n\
             01:01:02.000 --> 01:01:03.500\n<v 1>1 &lt; 2 --&gt; yes\n\n"
        );
    }

    #[test]
    fn words_are_lines_and_everything_is_json() {
        assert_eq!(Format::Text.write(&transcript([0, 0])), "Ask not.\n1 < 2 --> yes\n");
        assert_eq!(Format::Text.write(&transcript([0, 1])), "0: Ask not.\n1: 1 < 2 --> yes\n");
        let json: serde_json::Value =
            serde_json::from_str(&Format::Json.write(&transcript([0, 0]))).unwrap();
        assert_eq!(json["segments"][1]["start"], 3661.9996);
    }
}
