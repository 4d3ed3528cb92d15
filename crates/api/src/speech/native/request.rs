//! What clients send as text.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

/// A message of a client.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub(super) enum Request {
    /// What is going to be sent.
    Start(Box<Start>),
    /// The round is over.
    Stop {
        /// Whether the socket is to be closed too.
        disconnect: bool,
    },
    /// Everything so far is to be answered; the id comes back when it is.
    Flush {
        /// A string or a number of the client's.
        #[serde(default)]
        id: Value,
    },
    /// The client is still there.
    Keepalive {},
}

/// What is going to be sent, and what is wanted.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a field of the message")]
pub(super) struct Start {
    /// A W3C `traceparent`, since browsers cannot set headers on a WebSocket.
    #[serde(default)]
    pub(super) trace_id: Option<String>,
    pub(super) format: Format,
    #[serde(default)]
    pub(super) interim_results: bool,
    #[serde(default)]
    pub(super) interim_interval_ms: Option<u64>,
    #[serde(default)]
    pub(super) model: Option<String>,
    #[serde(default)]
    pub(super) language: Option<String>,
    #[serde(default)]
    pub(super) parameters: BTreeMap<String, Value>,
    #[serde(default)]
    pub(super) vad: Vad,
    /// Whether voice activity is told.
    #[serde(default = "yes")]
    pub(super) events: bool,
    #[serde(default)]
    pub(super) single_utterance: bool,
    /// Whether the end of each round is told.
    #[serde(default)]
    pub(super) summary: bool,
    /// Comes back in every message.
    #[serde(default)]
    pub(super) request_id: Option<String>,
    /// What nobody knows. The client is told.
    #[serde(flatten)]
    pub(super) unknown: BTreeMap<String, Value>,
}

/// What the audio is.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Format {
    #[serde(default)]
    pub(super) channels: Option<u64>,
    #[serde(default)]
    pub(super) sample_rate: Option<u64>,
    #[serde(default)]
    pub(super) bit_depth: Option<u64>,
    #[serde(default)]
    pub(super) is_float: Option<bool>,
    /// By name, instead of the two above.
    #[serde(default)]
    pub(super) encoding: Option<String>,
    #[serde(flatten)]
    pub(super) unknown: BTreeMap<String, Value>,
}

/// How voice becomes utterances; what is left out is the server's choice.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub(super) struct Vad {
    pub(super) positive_threshold: Option<f32>,
    pub(super) negative_threshold: Option<f32>,
    pub(super) pre_speech_pad_ms: Option<u64>,
    pub(super) post_speech_pad_ms: Option<u64>,
    pub(super) redemption_time_ms: Option<u64>,
    pub(super) min_speech_time_ms: Option<u64>,
    pub(super) max_utterance_ms: Option<u64>,
    #[serde(flatten)]
    pub(super) unknown: BTreeMap<String, Value>,
}

const fn yes() -> bool {
    true
}

impl Start {
    /// Fields that nobody knows, for a sentence.
    pub(super) fn unknown(&self) -> Option<String> {
        let part = |prefix: &'static str, fields: &BTreeMap<String, Value>| {
            let clipped = |name: &String| name.chars().take(64).collect::<String>();
            let names: Vec<_> =
                fields.keys().map(|name| format!("`{prefix}{}`", clipped(name))).take(8).collect();
            names
        };
        let mut names = part("", &self.unknown);
        names.extend(part("format.", &self.format.unknown));
        names.extend(part("vad.", &self.vad.unknown));
        (!names.is_empty()).then(|| names.join(", "))
    }
}

/// Reads a message.
///
/// # Errors
///
/// What is wrong with it, in a sentence for the client.
pub(super) fn read(text: &str) -> Result<Request, String> {
    serde_json::from_str(text).map_err(|error| {
        let what: String = error.to_string().chars().take(300).collect();
        format!("not a request that is understood: {what}")
    })
}
