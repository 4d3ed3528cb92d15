//! Why there is no sound.

use paceline_types::ErrorCode;

use super::{seam::WrongLength, tape::WrongTokens};
use crate::InferError;

/// Why there is no sound.
#[derive(Debug, thiserror::Error)]
pub enum SynthesisError {
    /// No synthesiser is served.
    #[error("no model here speaks; see docs/synthesis.md for how one is set up")]
    None,
    /// There is no such synthesiser.
    #[error("there is no speaking model `{asked}`; there are {known}")]
    UnknownModel {
        /// As asked for, short and escaped.
        asked: String,
        /// Those that there are.
        known: String,
    },
    /// There is no such voice.
    #[error("there is no voice `{asked}`; there are {known}")]
    UnknownVoice {
        /// As asked for, short and escaped.
        asked: String,
        /// Those that there are.
        known: String,
    },
    /// The model does not speak that language.
    #[error("language `{asked}` is not spoken; {known} are")]
    UnknownLanguage {
        /// As asked for, short and escaped.
        asked: String,
        /// Those that are.
        known: String,
    },
    /// There is nothing to say.
    #[error("the text has nothing in it that can be spoken")]
    NothingToSay,
    /// There is too much to say.
    #[error("the text has {actual} characters; at most {limit} are spoken at once")]
    TooLong {
        /// Its characters.
        actual: usize,
        /// The most that are taken.
        limit: usize,
    },
    /// A parameter that the model does not have, or not so.
    #[error("{name} is {value}; {allowed}")]
    Parameter {
        /// Its name.
        name: String,
        /// As given.
        value: f32,
        /// What would be right.
        allowed: String,
    },
    /// As many listen as may.
    #[error("as many listen as this server speaks to at once; try again later")]
    Full,
    /// A voice that cannot be registered.
    #[error("the voice cannot be registered: {0}")]
    Voice(String),
    /// A voice that was there before anybody registered any.
    #[error("voice `{0}` belongs to the model and cannot be deleted")]
    BuiltIn(String),
    /// The pair's two models do not fit together.
    #[error("the speaking model is set up wrongly: {0}")]
    Setup(String),
    /// What the token model gave.
    #[error(transparent)]
    Tokens(#[from] WrongTokens),
    /// What the vocoder gave.
    #[error(transparent)]
    Sound(#[from] WrongLength),
    /// A model.
    #[error(transparent)]
    Model(#[from] InferError),
}

impl SynthesisError {
    /// What the outside is told.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Setup(_) => ErrorCode::Unavailable,
            Self::None | Self::UnknownModel { .. } | Self::UnknownVoice { .. } => {
                ErrorCode::NotFound
            }
            Self::UnknownLanguage { .. }
            | Self::NothingToSay
            | Self::TooLong { .. }
            | Self::Parameter { .. }
            | Self::Voice(_) => ErrorCode::InvalidInput,
            Self::BuiltIn(_) => ErrorCode::Forbidden,
            Self::Full => ErrorCode::Overloaded,
            Self::Tokens(_) | Self::Sound(_) => ErrorCode::ModelFailed,
            Self::Model(error) => error.code(),
        }
    }
}

/// Foreign text, short enough to repeat.
pub(crate) fn clip(text: &str) -> String {
    text.chars().take(64).flat_map(char::escape_default).collect()
}
