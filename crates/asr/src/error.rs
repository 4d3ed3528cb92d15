//! What can be wrong with a model's files, with an utterance, and with a decoder that is full.

use std::path::PathBuf;

use crate::{MAX_SAMPLES, MIN_SAMPLES};

/// Why a model's file could not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// It cannot be read.
    #[error("{} cannot be read", path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is not what its name says.
    #[error("{} is no safetensors file: fetch it again, or make it with tools/make_moonshine.py", path.display())]
    NotSafetensors {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: safetensors::SafeTensorError,
    },
    /// A tensor is not in it.
    #[error("the weights have no `{name}`: they are not those of Moonshine tiny")]
    Missing {
        /// Its name.
        name: String,
    },
    /// A tensor is not as it should be.
    #[error(
        "`{name}` is {found} and should be {expected}: the weights are not those of Moonshine tiny"
    )]
    WrongTensor {
        /// Its name.
        name: String,
        /// Its kind and shape.
        found: String,
        /// What they should be.
        expected: String,
    },
    /// A tensor has a number that is none.
    #[error("`{name}` has a number that is not finite: the file is damaged, fetch it again")]
    NotFinite {
        /// Its name.
        name: String,
    },
    /// The tokens are not as they should be.
    #[error("{} has {found} whole tokens and should have {expected}: the file is damaged, fetch it again", path.display())]
    WrongTokens {
        /// Which file.
        path: PathBuf,
        /// How many there are before the file ends, or ends within one.
        found: usize,
        /// How many there should be.
        expected: usize,
    },
}

/// Why an utterance cannot be recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AudioError {
    /// It is shorter than the model can see.
    #[error("an utterance of {n_samples} samples is too short: at least {MIN_SAMPLES} are needed")]
    TooShort {
        /// How many samples it has.
        n_samples: usize,
    },
    /// It is longer than the model was made for.
    #[error(
        "an utterance of {n_samples} samples is too long: cut it into parts of at most {MAX_SAMPLES}"
    )]
    TooLong {
        /// How many samples it has.
        n_samples: usize,
    },
    /// It has something that is no sound.
    #[error("sample {at} is no sound: samples are numbers from -1 to 1")]
    NotSound {
        /// Which sample.
        at: usize,
    },
}

/// A decoder has as many utterances as it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the decoder has {capacity} utterances, which is all it takes: step until one ends")]
pub struct Full {
    /// How many it takes.
    pub capacity: usize,
}
