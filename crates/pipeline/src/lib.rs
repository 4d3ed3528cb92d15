//! What stands between the doors and the devices: models as they are served, and sessions.
//!
//! A door finds a [`Model`] in the [`Models`] and asks it to [`infer`](Model::infer). That is the
//! one way in, whatever the wire. [`speech`] does so for streams of audio.

pub mod adapt;
mod control;
mod error;
mod model;
mod models;
pub mod speech;
mod vad;

pub use control::{Answer, Control, ControlError, Known};
pub use error::InferError;
pub use model::{
    Ask, Blueprint, Build, Clock, FindRagged, Mode, Model, ModelFacts, ModelStats, OpenError,
};
pub use models::{ModelName, Models, NameError};
pub use vad::{
    Probabilities, VoiceDetector, VoiceError, VoiceSettings, VoiceStartError, VoiceStream,
};
