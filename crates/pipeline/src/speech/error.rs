//! Why a round cannot begin.

use paceline_audio::DecodeError;
use paceline_types::{DType, ErrorCode};

use crate::InferError;

/// Why a round cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum SpeechError {
    /// Its audio.
    #[error(transparent)]
    Audio(#[from] DecodeError),
    /// Its model.
    #[error(transparent)]
    Model(#[from] InferError),
    /// A model that is not for audio.
    #[error(
        "model `{0}` does not take audio; speech needs a model with one FP32 input of one free \
         extent, and beside it only inputs of one element that a client's parameters can fill"
    )]
    NotForAudio(String),
    /// A parameter that is not what the model wants.
    #[error("parameter `{name}` must be {wanted}, as the model's input of that name is")]
    Value {
        /// Its name.
        name: String,
        /// The input's type.
        wanted: DType,
    },
    /// Interim results too often or too seldom.
    #[error("interim results every {asked} ms are not within {least} to {most} ms")]
    Interim {
        /// As asked for.
        asked: u128,
        /// The shortest interval.
        least: u128,
        /// The longest.
        most: u128,
    },
}

impl SpeechError {
    /// What the outside is told.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Audio(error) => error.code(),
            Self::Model(error) => error.code(),
            Self::NotForAudio(_) => ErrorCode::Unsupported,
            Self::Interim { .. } | Self::Value { .. } => ErrorCode::InvalidInput,
        }
    }
}
