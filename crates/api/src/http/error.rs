//! Errors as HTTP clients see them: one shape, with a code, a sentence and the request's id.

use axum::{
    Json,
    http::{
        HeaderValue, Method, StatusCode, Uri,
        header::{ALLOW, RETRY_AFTER, WWW_AUTHENTICATE},
    },
    response::{IntoResponse, Response},
};
use paceline_types::ErrorCode;
use serde::Serialize;

use super::serve::NoMemory;
use crate::error::ApiError;

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
    /// What a response says went wrong, if anything did.
    pub(super) fn take(response: &mut Response) -> Option<Self> {
        // Only the layer that unpacks bodies answers with this, and without a sentence.
        if response.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE {
            let message = "the body's Content-Encoding is not known here; gzip and deflate are";
            return Some(Self {
                code: ErrorCode::InvalidInput,
                status: response.status(),
                message: message.to_owned(),
            });
        }
        response.extensions_mut().remove()
    }

    /// The response, for the request with this id. `bare` is what it was until now.
    pub(super) fn respond(self, mut bare: Response, request_id: &str) -> Response {
        let body = Body { error: &self.message, code: self.code.as_str(), request_id };
        let mut response = (self.status, Json(body)).into_response();
        if self.code == ErrorCode::Overloaded {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if self.code == ErrorCode::Unauthenticated {
            let how = HeaderValue::from_static("Bearer realm=\"paceline\"");
            response.headers_mut().insert(WWW_AUTHENTICATE, how);
        }
        if let Some(methods) = bare.headers_mut().remove(ALLOW) {
            response.headers_mut().insert(ALLOW, methods);
        }
        response
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

impl ApiError {
    /// For bodies above the limit.
    pub(crate) fn too_large() -> Self {
        Self {
            code: ErrorCode::InvalidInput,
            status: StatusCode::PAYLOAD_TOO_LARGE,
            message: "the request body is larger than this server takes".to_owned(),
        }
    }

    /// For bodies that did not come whole, or that there is no memory for.
    pub(crate) fn unread(why: &(dyn std::error::Error + 'static)) -> Self {
        if NoMemory::is_cause_of(why) {
            return Self::new(ErrorCode::Overloaded, NoMemory::MESSAGE);
        }
        Self::new(ErrorCode::InvalidInput, format!("the request body could not be read: {why}"))
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
