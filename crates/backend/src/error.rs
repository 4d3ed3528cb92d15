//! Why a model call failed.

use paceline_types::ErrorCode;

/// A failure of a whole call, or of loading a model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BackendError {
    /// The model cannot be loaded; says which file and what to do.
    #[error("cannot load the model: {0}")]
    Load(String),
    /// The runtime or the model refused this input.
    #[error("{0}")]
    Failed(String),
    /// The device, the worker or the remote server is gone; the call was not begun.
    #[error("the model is unavailable: {0}")]
    Unavailable(String),
    /// Whoever asked did not read results as they came.
    #[error("results came faster than they were read, and the rest was dropped")]
    SlowReader,
    /// The device or the worker was lost in the middle of the call.
    #[error("the model crashed: {0}")]
    Crashed(String),
}

impl BackendError {
    /// What the outside is told.
    #[must_use]
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::Failed(_) => ErrorCode::ModelFailed,
            Self::Load(_) | Self::Unavailable(_) => ErrorCode::Unavailable,
            Self::SlowReader => ErrorCode::Overloaded,
            Self::Crashed(_) => ErrorCode::Internal,
        }
    }

    /// Whether the inputs may be to blame, so that smaller calls could tell which.
    pub(crate) const fn may_be_input(&self) -> bool {
        matches!(self, Self::Failed(_))
    }
}
