//! Why a request has no result.

use paceline_backend::BackendError;
use paceline_batch::{Failure, Refused};
use paceline_types::{ErrorCode, MismatchError};

use crate::adapt::AdaptError;

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
            Self::Mismatch(_) => ErrorCode::InvalidInput,
            Self::Adapt(error) => error.code(),
            Self::Refused(refused) => refused.code(),
            Self::Failed(Failure::Model(cause)) => cause
                .downcast_ref::<BackendError>()
                .map_or(ErrorCode::ModelFailed, BackendError::code),
            Self::Failed(failure) => failure.code(),
        }
    }
}
