//! `POST /v1/audio/speech`, as `OpenAI`'s clients ask.

use std::collections::BTreeMap;

use axum::{
    Json,
    body::Bytes,
    extract::State,
    response::{IntoResponse as _, Response},
};
use paceline_pipeline::synthesis::{Container, Request};
use serde::Deserialize;
use serde_json::json;

use super::{
    bad_json,
    body::{Speech, respond, respond_as},
    container, invalid,
};
use crate::{ApiError, App, http::Whole};

/// What a client sends. What we have no use for is not looked at.
#[derive(Debug, Deserialize)]
pub(super) struct Ask {
    input: String,
    model: Option<String>,
    voice: Option<VoiceName>,
    response_format: Option<String>,
    speed: Option<f32>,
    stream_format: Option<String>,
    /// Not `OpenAI`'s: for models that speak several.
    language: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum VoiceName {
    Plain(String),
    Object { id: String },
}

/// Names of `OpenAI`'s that stand for whatever speaks here.
const THEIRS: [&str; 4] = ["tts-1", "tts-1-hd", "gpt-4o-mini-tts", "gpt-4o-mini-tts-2025-12-15"];

/// Bare samples have this rate, by `OpenAI`'s contract.
const PCM_RATE: u32 = 24_000;

/// `POST /v1/audio/speech`
pub(crate) async fn speech(State(app): State<App>, Whole(body): Whole) -> Response {
    match speak(&app, body).await {
        Ok(response) => response,
        Err(error) => refuse(&error),
    }
}

async fn speak(app: &App, body: Result<Bytes, ApiError>) -> Result<Response, ApiError> {
    let ask: Ask = serde_json::from_slice(&body?).map_err(|error| bad_json(&error))?;
    // Their default is MP3, which is not made here; a client that does not say gets a WAV.
    let container = container(ask.response_format.as_deref().unwrap_or("wav"))?;
    let is_events = match ask.stream_format.as_deref() {
        None | Some("audio") => false,
        Some("sse") => true,
        Some(_) => return Err(invalid("stream_format is `audio` or `sse`")),
    };
    let request = Request {
        text: ask.input,
        model: ask.model.filter(|model| !THEIRS.contains(&model.as_str())),
        voice: ask.voice.map(|voice| match voice {
            VoiceName::Plain(name) => name,
            VoiceName::Object { id } => id,
        }),
        language: ask.language,
        parameters: ask.speed.map(|speed| ("speed".to_owned(), speed)).into_iter().collect(),
    };
    let n_characters = request.text.chars().count();
    let rate = (container == Container::Pcm).then_some(PCM_RATE);
    let speech = Speech::begin(&app.streams.synthesis, &request, container, rate).await?;
    if !is_events {
        return Ok(respond(speech, container));
    }
    let usage = BTreeMap::from([
        ("input_tokens", n_characters),
        ("output_tokens", 0),
        ("total_tokens", n_characters),
    ]);
    let done = event(&json!({ "type": "speech.audio.done", "usage": usage }));
    let delta =
        |bytes: Vec<u8>| event(&json!({ "type": "speech.audio.delta", "audio": base64(&bytes) }));
    Ok(respond_as("text/event-stream", speech, delta, Some(done)))
}

fn event(data: &serde_json::Value) -> Bytes {
    Bytes::from(format!("data: {data}\n\n"))
}

/// An error in the form that `OpenAI`'s clients read.
fn refuse(error: &ApiError) -> Response {
    let status = error.status;
    let kind = if status.is_client_error() { "invalid_request_error" } else { "server_error" };
    let body = json!({
        "error": {
            "message": error.message,
            "type": kind,
            "param": null,
            "code": error.code.as_str(),
        }
    });
    let mut response = (status, Json(body)).into_response();
    if status == axum::http::StatusCode::SERVICE_UNAVAILABLE {
        let soon = axum::http::HeaderValue::from_static("1");
        response.headers_mut().insert(axum::http::header::RETRY_AFTER, soon);
    }
    response
}

/// Bytes as text.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits = group.iter().fold(0_usize, |bits, byte| bits << 8 | usize::from(*byte));
        let bits = bits << (8 * (3 - group.len()));
        for at in 0..4 {
            let letter = LETTERS[bits >> (18 - 6 * at) & 63];
            text.push(if at <= group.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn bytes_are_written_as_everybody_writes_them() {
        for (bytes, text) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        assert_eq!(base64(&[255, 254, 253]), "//79");
    }
}
