//! Every request has an id: the client's own where it sent one, else one made here. It is in the
//! answer's header, and in the body of every error, so that a person can quote it.

use std::{
    collections::hash_map::RandomState,
    hash::BuildHasher as _,
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
};

use axum::{
    extract::Request,
    http::{HeaderMap, HeaderName, HeaderValue},
    middleware::Next,
    response::Response,
};

use super::error::ErrorFacts;
use crate::trace::TRACEPARENT;

static HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// Longest id that is taken from a client.
const MAX_LENGTH: usize = 128;

/// Numbers that begin somewhere else in every process, so that two servers' ids differ.
static NEXT: LazyLock<AtomicU64> = LazyLock::new(|| AtomicU64::new(RandomState::new().hash_one(0)));

/// Gives each request its id, and writes errors.
pub(super) async fn layer(request: Request, next: Next) -> Response {
    let marks = Marks::of(request.headers());
    marks.put(next.run(request).await)
}

/// What of a request goes back with its answer.
#[derive(Debug)]
pub(super) struct Marks {
    id: Option<HeaderValue>,
    trace: Option<HeaderValue>,
}

impl Marks {
    /// Those of a request with these headers.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let own = |name| headers.get(name).filter(|value| is_plain(value)).cloned();
        Self { id: own(&HEADER), trace: own(&TRACEPARENT) }
    }

    /// Marks the answer; where it is an error, it is written now.
    pub(super) fn put(self, mut response: Response) -> Response {
        let id = self.id.unwrap_or_else(fresh);
        if let Some(facts) = ErrorFacts::take(&mut response) {
            response = facts.respond(response, id.to_str().unwrap_or_default());
        }
        response.headers_mut().insert(HEADER.clone(), id);
        if let Some(trace) = self.trace {
            response.headers_mut().insert(TRACEPARENT.clone(), trace);
        }
        response
    }
}

/// An id that no other request of this process has.
fn fresh() -> HeaderValue {
    // Multiplying by an odd number spreads neighbours apart and keeps them distinct.
    let number = NEXT.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let digit = |at: usize| {
        b"0123456789abcdef"[usize::from((number >> (60 - 4 * at)).to_le_bytes()[0] & 15)]
    };
    let text: [u8; 16] = std::array::from_fn(digit);
    HeaderValue::from_bytes(&text).unwrap_or(HeaderValue::from_static("unknown"))
}

/// Whether a value may stand in a log line and in JSON as it is.
fn is_plain(value: &HeaderValue) -> bool {
    let bytes = value.as_bytes();
    let is_allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:/+=".contains(byte);
    (1..=MAX_LENGTH).contains(&bytes.len()) && bytes.iter().all(is_allowed)
}
