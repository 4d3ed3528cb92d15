//! Deepgram's messages. Every field that the strictest of its clients asks for is always there.

use paceline_pipeline::speech::Span;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::speech::{
    heard::{round, words},
    name::{self, Chosen},
};

/// The model gives none, and clients that ask for a minimum must not lose what was said.
const CONFIDENCE: f64 = 1.0;

/// What a client sends as text.
#[derive(Debug, Deserialize, PartialEq)]
#[serde(tag = "type")]
pub(super) enum Asked {
    KeepAlive {},
    Finalize {
        #[serde(default)]
        channel: Option<usize>,
    },
    CloseStream {},
    Configure {
        #[serde(flatten)]
        wanted: Map<String, Value>,
    },
}

/// What a client is told.
#[derive(Debug, Serialize)]
#[serde(tag = "type")]
pub(super) enum Reply<'a> {
    Results {
        channel_index: [usize; 2],
        duration: f64,
        start: f64,
        is_final: bool,
        speech_final: bool,
        from_finalize: bool,
        channel: Alternatives<'a>,
        metadata: &'a About,
    },
    SpeechStarted {
        channel: [usize; 2],
        timestamp: f64,
    },
    UtteranceEnd {
        channel: [usize; 2],
        last_word_end: f64,
    },
    Metadata {
        transaction_key: &'static str,
        request_id: &'a str,
        sha256: &'a str,
        created: &'a str,
        duration: f64,
        channels: usize,
    },
    ConfigureSuccess {
        request_id: &'a str,
    },
    ConfigureFailure {
        request_id: &'a str,
        code: &'static str,
        description: String,
    },
    Error {
        variant: &'static str,
        description: &'a str,
        message: &'a str,
    },
}

/// Which request, and which model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct About {
    pub(super) request_id: String,
    pub(super) model_info: ModelInfo,
    pub(super) model_uuid: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct ModelInfo {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) arch: String,
}

impl About {
    pub(super) fn new(model: &Chosen, request_id: &str) -> Self {
        let Chosen { name, version, .. } = model.clone();
        let model_uuid = name::of(&format!("{name} {version}"));
        let model_info = ModelInfo { arch: name.clone(), name, version };
        Self { request_id: request_id.to_owned(), model_info, model_uuid }
    }
}

/// What was said, in one alternative.
#[derive(Debug, Serialize)]
pub(super) struct Alternatives<'a> {
    pub(super) alternatives: [Alternative<'a>; 1],
}

#[derive(Debug, Serialize)]
pub(super) struct Alternative<'a> {
    pub(super) transcript: &'a str,
    pub(super) confidence: f64,
    pub(super) words: Vec<Spoken>,
}

#[derive(Debug, Serialize)]
pub(super) struct Spoken {
    word: String,
    start: f64,
    end: f64,
    confidence: f64,
    punctuated_word: String,
}

impl<'a> Alternatives<'a> {
    pub(super) fn of(transcript: &'a str, words: Vec<Spoken>) -> Self {
        Self { alternatives: [Alternative { transcript, confidence: CONFIDENCE, words }] }
    }
}

/// The words of an utterance.
pub(super) fn spoken(text: &str, span: &Span) -> Vec<Spoken> {
    let bare = |word: &str| {
        let bare = word.trim_matches(|letter: char| letter.is_ascii_punctuation());
        if bare.is_empty() { word.to_owned() } else { bare.to_lowercase() }
    };
    words(text, span)
        .map(|word| Spoken {
            word: bare(word.text),
            start: word.start,
            end: word.end,
            confidence: CONFIDENCE,
            punctuated_word: word.text.to_owned(),
        })
        .collect()
}

/// Where a span begins and how long it is, in seconds.
pub(super) fn place(span: &Span) -> (f64, f64) {
    let (start, end) = span.seconds();
    (round(start), round(end - start))
}

/// An utterance of a file.
#[derive(Debug, Serialize)]
pub(super) struct Utterance<'a> {
    pub(super) start: f64,
    pub(super) end: f64,
    pub(super) confidence: f64,
    pub(super) channel: usize,
    pub(super) transcript: &'a str,
    pub(super) words: Vec<Spoken>,
    pub(super) id: String,
}

impl<'a> Utterance<'a> {
    pub(super) fn new(channel: usize, span: &Span, transcript: &'a str) -> Self {
        let (start, end) = span.seconds();
        Self {
            start: round(start),
            end: round(end),
            confidence: CONFIDENCE,
            channel,
            transcript,
            words: spoken(transcript, span),
            id: name::fresh(),
        }
    }
}
