//! Where a client stands in a trace, by its `traceparent` header, whatever the protocol.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use paceline_types::TraceContext;

/// W3C trace context: taken in and passed on, so that both ends of a call can be found.
pub(crate) static TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// Where whoever sent these headers stands. gRPC metadata are such headers too.
pub(crate) fn of(headers: &HeaderMap) -> Option<TraceContext> {
    headers.get(&TRACEPARENT).map(HeaderValue::as_bytes).and_then(TraceContext::parse)
}
