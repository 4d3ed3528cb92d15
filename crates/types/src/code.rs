//! What the outside is told when something fails.

use std::fmt;

/// Why a request has no result. Closed and small: each code has one HTTP status, one gRPC code
/// and one WebSocket close code, mapped in one table in `paceline-api`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ErrorCode {
    /// The caller's fault; retrying the same input cannot help.
    InvalidInput,
    /// The caller did not say who it is.
    Unauthenticated,
    /// The caller may not do this.
    Forbidden,
    /// There is no such model, version or resource.
    NotFound,
    /// The input is well formed, but this model or server does not do that.
    Unsupported,
    /// No room now; retry later.
    Overloaded,
    /// The caller's deadline passed, or could no longer be met.
    DeadlineExceeded,
    /// The caller left before there was an answer.
    Cancelled,
    /// Shutting down or not ready; another replica may answer.
    Unavailable,
    /// The model refused or failed on this input.
    ModelFailed,
    /// Our fault.
    Internal,
}

impl ErrorCode {
    /// Every code, for tables and for tests that must not miss one.
    pub const ALL: [Self; 11] = [
        Self::InvalidInput,
        Self::Unauthenticated,
        Self::Forbidden,
        Self::NotFound,
        Self::Unsupported,
        Self::Overloaded,
        Self::DeadlineExceeded,
        Self::Cancelled,
        Self::Unavailable,
        Self::ModelFailed,
        Self::Internal,
    ];

    /// The code as written on wires and in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InvalidInput => "invalid_input",
            Self::Unauthenticated => "unauthenticated",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not_found",
            Self::Unsupported => "unsupported",
            Self::Overloaded => "overloaded",
            Self::DeadlineExceeded => "deadline_exceeded",
            Self::Cancelled => "cancelled",
            Self::Unavailable => "unavailable",
            Self::ModelFailed => "model_failed",
            Self::Internal => "internal",
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_code_is_listed_once_and_has_its_own_name() {
        let names: HashSet<_> = ErrorCode::ALL.iter().map(|code| code.as_str()).collect();

        assert_eq!(names.len(), ErrorCode::ALL.len());
    }
}
