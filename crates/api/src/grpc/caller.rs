//! What is known of who calls.

use paceline_types::TraceContext;
use tokio::time::Instant;
use tonic::{Request, metadata::MetadataValue};

use super::deadline::deadline;
use crate::client::Client;

/// Who calls.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Caller {
    /// When the answer is no longer of use.
    pub(super) deadline: Option<Instant>,
    /// Where the client stands in a trace.
    pub(super) trace: Option<TraceContext>,
    /// Whose request it is.
    pub(super) client: Option<Client>,
}

impl Caller {
    pub(super) fn of<T>(request: &Request<T>) -> Self {
        let metadata = request.metadata();
        let trace = metadata.get("traceparent").map(MetadataValue::as_bytes);
        Self {
            deadline: deadline(metadata),
            trace: trace.and_then(TraceContext::parse),
            client: Client::of(request.extensions()),
        }
    }
}
