//! What a call's metadata say of who calls.

use paceline_types::TraceContext;
use tokio::time::Instant;
use tonic::metadata::{MetadataMap, MetadataValue};

use super::deadline::deadline;

/// Who calls.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Caller {
    /// When the answer is no longer of use.
    pub(super) deadline: Option<Instant>,
    /// Where the client stands in a trace.
    pub(super) trace: Option<TraceContext>,
}

impl Caller {
    pub(super) fn of(metadata: &MetadataMap) -> Self {
        let trace = metadata.get("traceparent").map(MetadataValue::as_bytes);
        Self { deadline: deadline(metadata), trace: trace.and_then(TraceContext::parse) }
    }
}
