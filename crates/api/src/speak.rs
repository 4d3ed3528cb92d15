//! The doors to synthesis: text in, sound out as it is made. `docs/synthesis.md` is their contract.
//!
//! `openai`, `deepgram` and `seed` are three protocols for the same thing; `voices` lists and
//! registers; `body` is the way of the sound.

mod body;
pub(crate) mod deepgram;
mod deepgram_ws;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;
pub(crate) mod openai;
pub(crate) mod seed;
pub(crate) mod voices;

use axum::http::StatusCode;
use paceline_pipeline::synthesis::{Container, SynthesisError};
use paceline_types::ErrorCode;

use crate::ApiError;

impl From<SynthesisError> for ApiError {
    fn from(error: SynthesisError) -> Self {
        let code = error.code();
        // What is our own fault is logged in full and told in one word.
        if code == ErrorCode::Internal {
            tracing::error!(%error, "synthesis failed");
            return Self::new(code, "Internal server error");
        }
        Self::new(code, error.to_string())
    }
}

/// A request that makes no sense.
fn invalid(message: impl Into<String>) -> ApiError {
    ApiError::new(ErrorCode::InvalidInput, message)
}

/// The format of this name.
fn container(name: &str) -> Result<Container, ApiError> {
    let known = [
        ("wav", Container::Wav),
        ("pcm", Container::Pcm),
        ("flac", Container::Flac),
        ("opus", Container::Ogg),
    ];
    let found = known.into_iter().find(|(known, _)| *known == name);
    found.map(|(_, container)| container).ok_or_else(|| {
        let name: String = name.chars().take(32).flat_map(char::escape_default).collect();
        invalid(format!("`{name}` is not sent; wav, pcm, flac and opus are"))
    })
}

/// What sound of a format and a rate is called.
fn content_type(container: Container, rate: u32) -> String {
    match container {
        Container::Wav => "audio/wav".to_owned(),
        Container::Pcm => format!("audio/L16;rate={rate};channels=1"),
        Container::Flac => "audio/flac".to_owned(),
        Container::Ogg => "audio/ogg".to_owned(),
        Container::Mulaw => format!("audio/mulaw;rate={rate}"),
        Container::Alaw => format!("audio/alaw;rate={rate}"),
    }
}

/// A body that is not what it should be.
fn bad_json(error: &serde_json::Error) -> ApiError {
    ApiError {
        code: ErrorCode::InvalidInput,
        status: StatusCode::BAD_REQUEST,
        message: format!("the body is not as it should be: {error}"),
    }
}
