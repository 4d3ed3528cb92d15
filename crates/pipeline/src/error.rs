//! Why a request has no result.

use paceline_backend::{BackendError, StackError};
use paceline_batch::{Failure, Refused};
use paceline_types::{ErrorCode, MismatchError};

use crate::{SequenceError, adapt::AdaptError};

/// Why a request has no result.
#[derive(Debug, thiserror::Error)]
pub enum InferError {
    /// There is no such model.
    #[error("there is no model `{0}`")]
    UnknownModel(String),
    /// There is such a model, but not in this version.
    #[error("model `{name}` has no version {version}")]
    UnknownVersion {
        /// Which model.
        name: String,
        /// As asked for.
        version: u64,
    },
    /// It gives several results, and was asked for one.
    #[error(
        "model `{0}` streams its results; ask by gRPC ModelStreamInfer or by /v1/models/{0}/infer"
    )]
    Streams(String),
    /// The tensors do not fit the model.
    #[error(transparent)]
    Mismatch(#[from] MismatchError),
    /// The body does not suit the model's adapter.
    #[error(transparent)]
    Adapt(#[from] AdaptError),
    /// It has more rows than are taken at once.
    #[error("the request has {rows} rows; at most {max} are taken at once, so send it in pieces")]
    TooManyRows {
        /// As given.
        rows: usize,
        /// As many parts as may be, each as large as may be.
        max: usize,
    },
    /// It does not fit into its sequence, or into any.
    #[error(transparent)]
    Sequence(#[from] SequenceError),
    /// Its parts' results do not fit together.
    #[error("the results of the request's parts cannot be joined: {0}")]
    Join(#[from] StackError),
    /// It was not taken in.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// It was taken in and has no result.
    #[error(transparent)]
    Failed(#[from] Failure),
}

impl InferError {
    /// What the outside is told.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::UnknownModel(_) | Self::UnknownVersion { .. } => ErrorCode::NotFound,
            Self::Streams(_) => ErrorCode::Unsupported,
            Self::Mismatch(_) | Self::TooManyRows { .. } => ErrorCode::InvalidInput,
            Self::Sequence(error) => error.code(),
            Self::Join(_) => ErrorCode::ModelFailed,
            Self::Adapt(error) => error.code(),
            Self::Refused(refused) => refused.code(),
            Self::Failed(Failure::Model(cause)) => cause
                .downcast_ref::<BackendError>()
                .map_or(ErrorCode::ModelFailed, BackendError::code),
            Self::Failed(failure) => failure.code(),
        }
    }
}
