//! From what a client writes to what a session is opened with.

use std::{str::FromStr as _, time::Duration};

use paceline_batch::Key;
use paceline_pipeline::speech::{
    self, Encoding, Format, INTERIM_INTERVAL, SegmentSettings, Source, Style, Terms, Utterances,
    Values,
};
use paceline_types::ErrorCode;
use serde_json::Value;

use super::request::{self, Start, Vad};
use crate::ApiError;

/// Which endpoint was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Simple,
    Segmented,
}

/// Most parameters of a stream.
const MAX_PARAMETERS: usize = 64;
/// Longest name, language or request id.
const MAX_TEXT: usize = 128;

fn wrong(message: impl Into<String>) -> ApiError {
    ApiError::new(ErrorCode::InvalidInput, message)
}

/// What a session is opened with.
pub(super) fn terms(kind: Kind, start: &Start) -> Result<Terms, ApiError> {
    let style = match kind {
        Kind::Simple => Style::Simple,
        Kind::Segmented => {
            let interval =
                start.interim_interval_ms.map_or(INTERIM_INTERVAL, Duration::from_millis);
            Style::Segmented(Utterances {
                settings: settings(&start.vad)
                    .validate()
                    .map_err(|error| wrong(format!("vad: {error}")))?,
                interim: start.interim_results.then_some(interval),
                keeps_stable: true,
                pause: None,
                single: start.single_utterance,
            })
        }
    };
    for (what, text) in [("language", &start.language), ("request_id", &start.request_id)] {
        if text.as_ref().is_some_and(|text| MAX_TEXT < text.len()) {
            return Err(wrong(format!("{what} is longer than {MAX_TEXT} bytes")));
        }
    }
    Ok(Terms {
        source: source(&start.format)?,
        model: start.model.clone(),
        params: params(start)?,
        style,
        mix: false,
        trace: None,
    })
}

/// What the audio is. A container says its rate and channels itself.
fn source(format: &request::Format) -> Result<Source, ApiError> {
    let encoding = match (&format.encoding, format.bit_depth, format.is_float) {
        (Some(name), ..) => {
            Encoding::from_str(name).map_err(|error| wrong(format!("format.encoding: {error}")))?
        }
        (None, Some(16), Some(false)) => Encoding::S16le,
        (None, Some(24), Some(false)) => Encoding::S24le,
        (None, Some(32), Some(false)) => Encoding::S32le,
        (None, Some(32), Some(true)) => Encoding::F32le,
        (None, Some(depth), Some(is_float)) => {
            return Err(ApiError::new(
                ErrorCode::Unsupported,
                format!("Unsupported format bit_depth: {depth} is_float: {is_float}"),
            ));
        }
        (None, ..) => return Err(wrong("format needs encoding, or bit_depth and is_float")),
    };
    if !encoding.is_raw() {
        return Ok(Source::container(encoding));
    }
    let (Some(channels), Some(rate)) = (format.channels, format.sample_rate) else {
        return Err(wrong(format!("format needs channels and sample_rate with {encoding}")));
    };
    // What does not fit is out of bounds all the more; the session says which these are.
    let channels = u16::try_from(channels).unwrap_or(u16::MAX);
    let rate = u32::try_from(rate).unwrap_or(u32::MAX);
    Ok(Source { encoding, format: Some(Format { rate, channels }) })
}

fn settings(vad: &Vad) -> SegmentSettings {
    let default = SegmentSettings::default();
    let time = |written: Option<u64>, default| written.map_or(default, Duration::from_millis);
    SegmentSettings {
        positive_threshold: vad.positive_threshold.unwrap_or(default.positive_threshold),
        negative_threshold: vad.negative_threshold.unwrap_or(default.negative_threshold),
        pre_speech_pad: time(vad.pre_speech_pad_ms, default.pre_speech_pad),
        post_speech_pad: time(vad.post_speech_pad_ms, default.post_speech_pad),
        redemption_time: time(vad.redemption_time_ms, default.redemption_time),
        min_speech_time: time(vad.min_speech_time_ms, default.min_speech_time),
        max_utterance: time(vad.max_utterance_ms, default.max_utterance),
    }
}

/// What the model may want to know. [`terms`] has seen to it that there is nothing else.
pub(super) fn values(start: &Start) -> Values {
    let language = start.language.clone().map(speech::Value::Text);
    let parameters = start.parameters.iter().filter_map(|(name, value)| {
        let value = match value {
            Value::String(text) => speech::Value::Text(text.clone()),
            Value::Bool(flag) => speech::Value::Flag(*flag),
            Value::Number(number) => speech::Value::Number(number.as_f64()?),
            Value::Null | Value::Array(_) | Value::Object(_) => return None,
        };
        Some((name.clone(), value))
    });
    language.map(|value| ("language".to_owned(), value)).into_iter().chain(parameters).collect()
}

/// A fingerprint of what changes the model's answers.
fn params(start: &Start) -> Result<Key, ApiError> {
    if start.language.is_none() && start.parameters.is_empty() {
        return Ok(Key::ANY);
    }
    if MAX_PARAMETERS < start.parameters.len() {
        return Err(wrong(format!("there are more than {MAX_PARAMETERS} parameters")));
    }
    let mut written = Vec::with_capacity(start.parameters.len());
    for (name, value) in &start.parameters {
        if MAX_TEXT < name.len() || matches!(value, Value::Array(_) | Value::Object(_)) {
            let name: String = name.chars().take(64).collect();
            return Err(wrong(format!(
                "parameter `{}` must be a string, a number, true or false, and its name at most {MAX_TEXT} bytes",
                name.escape_debug()
            )));
        }
        written.push((name, value.to_string()));
    }
    Ok(Key::of(&(&start.language, written)))
}
