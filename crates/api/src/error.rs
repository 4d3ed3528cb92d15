//! Errors as clients see them: a code and a sentence, and what that code is on each wire.

use axum::http::StatusCode;
use paceline_pipeline::{ControlError, InferError, Model};
use paceline_types::ErrorCode;
use tonic::{Code, Status};

use crate::oip::OipError;

/// An answer that is an error.
#[derive(Debug)]
pub struct ApiError {
    pub(crate) code: ErrorCode,
    /// What HTTP says; mostly what the code says.
    pub(crate) status: StatusCode,
    pub(crate) message: String,
}

impl ApiError {
    /// An error with a code and a sentence for the client.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, status: wire(code).0, message: message.into() }
    }

    /// A request for a name that is not this server's.
    pub(crate) fn misdirected(message: String) -> Self {
        let status = StatusCode::MISDIRECTED_REQUEST;
        Self { code: ErrorCode::Forbidden, status, message }
    }

    /// A request that does not suit its model. Clients of many models look for the name.
    pub(crate) fn about(model: &Model, error: &OipError) -> Self {
        Self::new(error.code(), format!("model `{}`: {error}", model.facts().name))
    }
}

/// The one table from codes to HTTP and gRPC.
const fn wire(code: ErrorCode) -> (StatusCode, Code) {
    match code {
        ErrorCode::InvalidInput => (StatusCode::BAD_REQUEST, Code::InvalidArgument),
        ErrorCode::Unauthenticated => (StatusCode::UNAUTHORIZED, Code::Unauthenticated),
        ErrorCode::Forbidden => (StatusCode::FORBIDDEN, Code::PermissionDenied),
        ErrorCode::NotFound => (StatusCode::NOT_FOUND, Code::NotFound),
        ErrorCode::Unsupported => (StatusCode::NOT_IMPLEMENTED, Code::Unimplemented),
        ErrorCode::Overloaded => (StatusCode::SERVICE_UNAVAILABLE, Code::ResourceExhausted),
        ErrorCode::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, Code::Unavailable),
        ErrorCode::DeadlineExceeded => (StatusCode::GATEWAY_TIMEOUT, Code::DeadlineExceeded),
        ErrorCode::Cancelled => (StatusCode::INTERNAL_SERVER_ERROR, Code::Cancelled),
        ErrorCode::ModelFailed | ErrorCode::Internal => {
            (StatusCode::INTERNAL_SERVER_ERROR, Code::Internal)
        }
    }
}

impl From<ApiError> for Status {
    fn from(error: ApiError) -> Self {
        Self::new(wire(error.code).1, error.message)
    }
}

impl From<InferError> for ApiError {
    fn from(error: InferError) -> Self {
        let code = error.code();
        // What is our own fault is logged in full and told in one word.
        if code == ErrorCode::Internal {
            tracing::error!(%error, "request failed");
            return Self::new(code, "Internal server error");
        }
        Self::new(code, error.to_string())
    }
}

impl From<OipError> for ApiError {
    fn from(error: OipError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}

impl From<ControlError> for ApiError {
    fn from(error: ControlError) -> Self {
        Self::new(error.code, error.message)
    }
}
