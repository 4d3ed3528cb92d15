//! What stands between the doors and the devices: models as they are served, and sessions.
//!
//! A door finds a [`Model`] in the [`Models`] and asks it to [`infer`](Model::infer). That is the
//! one way in, whatever the wire. [`speech`] does so for streams of audio, [`synthesis`] for text that
//! is to be spoken.

pub mod adapt;
mod blueprint;
mod cameras;
mod control;
mod counts;
mod error;
mod model;
mod models;
mod parts;
mod results;
mod ride;
mod sequences;
pub mod speech;
mod submitted;
pub mod synthesis;
mod trace;
mod vad;
mod versions;

pub use blueprint::{Blueprint, Build, Clock, Ended, FindRagged, Host, Mode, OpenError};
pub use cameras::{
    CameraControl, CameraSnapshot, CameraState, CameraWish, DeadLetter, KnownCamera, Later,
    PushedFrame, PushedResult, Reconciled, Times,
};
pub use control::{Answer, Control, ControlError, Known};
pub use counts::ModelStats;
pub use error::InferError;
pub use model::{Ask, Model, ModelFacts};
pub use models::{ModelName, Models, NameError};
pub use results::Results;
pub use ride::Ride;
pub use sequences::{Sequence, SequenceError, SequenceId, SequenceLimits};
pub use trace::{RequestSpan, Tracer};
pub use vad::{
    Probabilities, VoiceDetector, VoiceError, VoiceSettings, VoiceStartError, VoiceStream,
};
pub use versions::{NoSuchVersion, VersionPolicy};
