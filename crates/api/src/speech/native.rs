//! Our own protocol for streams of speech, over a WebSocket. `docs/protocol.md` is its contract.
//!
//! `request` and `reply` are the messages, `terms` what a session is opened with, `rounds` the
//! protocol without its socket. It takes no files.

mod reply;
mod request;
mod rounds;
mod terms;

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::Response,
};
use serde::Serialize;

use self::{rounds::Rounds, terms::Kind};
use super::conversation::Conversation;
use crate::{
    ApiError, App,
    access::SUBPROTOCOLS,
    trace,
    ws::{Streams, Upgrade},
};

/// `GET /api/v1/simple`: every sample goes to the model.
pub(crate) async fn simple(
    State(app): State<App>,
    headers: HeaderMap,
    upgrade: Result<Upgrade, ApiError>,
) -> Result<Response, ApiError> {
    open(app.streams, &headers, upgrade, Kind::Simple)
}

/// `GET /api/v1/segmented`: utterances go to the model.
pub(crate) async fn segmented(
    State(app): State<App>,
    headers: HeaderMap,
    upgrade: Result<Upgrade, ApiError>,
) -> Result<Response, ApiError> {
    open(app.streams, &headers, upgrade, Kind::Segmented)
}

fn open(
    streams: Streams,
    headers: &HeaderMap,
    upgrade: Result<Upgrade, ApiError>,
    kind: Kind,
) -> Result<Response, ApiError> {
    // A page that showed its token so wants to hear that it was understood.
    let upgrade = upgrade?.protocols(SUBPROTOCOLS);
    let rounds = Rounds::new(kind, trace::of(headers));
    streams.clone().open(upgrade, move |socket| Conversation::new(socket, streams, rounds).run())
}

#[derive(Debug, Serialize)]
pub(crate) struct Health {
    status: &'static str,
}

/// `GET /api/v1/health`
pub(crate) async fn health(State(app): State<App>) -> (StatusCode, Json<Health>) {
    if app.is_ready() {
        (StatusCode::OK, Json(Health { status: "healthy" }))
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, Json(Health { status: "unhealthy" }))
    }
}

/// A way in for fuzz targets: reads a message.
#[cfg(any(test, feature = "fuzz"))]
pub fn read_message(text: &str) {
    // What is wrong with it is of no interest; that it is found without a panic is.
    drop(request::read(text));
}

#[cfg(test)]
pub(super) mod tests;
