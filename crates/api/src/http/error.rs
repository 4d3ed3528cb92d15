//! Errors as HTTP clients see them: one shape, with a code, a sentence and the request's id.

use axum::{
    Json,
    extract::rejection::BytesRejection,
    http::{HeaderValue, Method, StatusCode, Uri, header::RETRY_AFTER},
    response::{IntoResponse, Response},
};
use paceline_pipeline::{ControlError, InferError};
use paceline_types::ErrorCode;
use serde::Serialize;

use crate::oip::OipError;

/// An answer that is an error.
#[derive(Debug)]
pub struct ApiError {
    code: ErrorCode,
    status: StatusCode,
    message: String,
}

/// What an error response is made of. It is written once the request's id is known.
#[derive(Debug, Clone)]
pub(super) struct ErrorFacts {
    code: ErrorCode,
    status: StatusCode,
    message: String,
}

/// As written. `error` is what clients of the protocol read.
#[derive(Debug, Serialize)]
struct Body<'a> {
    error: &'a str,
    code: &'static str,
    request_id: &'a str,
}

impl ErrorFacts {
    /// The response, for the request with this id.
    pub(super) fn respond(self, request_id: &str) -> Response {
        let body = Body { error: &self.message, code: self.code.as_str(), request_id };
        let mut response = (self.status, Json(body)).into_response();
        if self.code == ErrorCode::Overloaded {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

impl ApiError {
    /// An error with a code and a sentence for the client.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, status: status(code), message: message.into() }
    }
}

/// The one table from codes to HTTP.
const fn status(code: ErrorCode) -> StatusCode {
    match code {
        ErrorCode::InvalidInput => StatusCode::BAD_REQUEST,
        ErrorCode::Unauthenticated => StatusCode::UNAUTHORIZED,
        ErrorCode::Forbidden => StatusCode::FORBIDDEN,
        ErrorCode::NotFound => StatusCode::NOT_FOUND,
        ErrorCode::Unsupported => StatusCode::NOT_IMPLEMENTED,
        ErrorCode::Overloaded | ErrorCode::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        ErrorCode::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        ErrorCode::ModelFailed | ErrorCode::Internal | ErrorCode::Cancelled => {
            StatusCode::INTERNAL_SERVER_ERROR
        }
    }
}

impl ApiError {
    /// As an entry of a list.
    pub(super) fn to_json(&self) -> serde_json::Value {
        serde_json::json!({ "error": self.message, "code": self.code.as_str() })
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let Self { code, status, message } = self;
        let mut response = status.into_response();
        response.extensions_mut().insert(ErrorFacts { code, status, message });
        response
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

impl From<ControlError> for ApiError {
    fn from(error: ControlError) -> Self {
        Self::new(error.code, error.message)
    }
}

impl From<OipError> for ApiError {
    fn from(error: OipError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}

impl From<BytesRejection> for ApiError {
    fn from(rejection: BytesRejection) -> Self {
        let status = rejection.status();
        let message = if status == StatusCode::PAYLOAD_TOO_LARGE {
            "the request body is larger than this server takes".to_owned()
        } else {
            rejection.body_text()
        };
        Self { code: ErrorCode::InvalidInput, status, message }
    }
}

/// For paths that are not there.
pub(super) async fn no_such_path(uri: Uri) -> ApiError {
    let path: String = uri.path().chars().take(128).collect();
    ApiError::new(ErrorCode::NotFound, format!("there is nothing at {path}"))
}

/// For methods that a path does not take.
pub(super) async fn wrong_method(method: Method, uri: Uri) -> ApiError {
    let path: String = uri.path().chars().take(128).collect();
    ApiError {
        code: ErrorCode::InvalidInput,
        status: StatusCode::METHOD_NOT_ALLOWED,
        message: format!("{path} does not take {method}"),
    }
}
