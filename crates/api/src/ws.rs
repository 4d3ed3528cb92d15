//! The WebSocket door: streaming speech. `docs/protocol.md` is its contract.
//!
//! `upgrade` makes a socket of a request, `request` and `reply` are the messages, `connection` is one client's socket: a loop that
//! reads when the session has room, writes what the session says, and keeps time.

pub(crate) mod connection;
mod frames;
mod held;
mod limits;
mod reply;
mod request;
mod terms;
mod upgrade;

use std::future::Future;

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::Response,
};
use paceline_pipeline::{
    speech::{Place, Speech},
    synthesis::Synthesis,
};
use paceline_types::ErrorCode;
use serde::Serialize;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{ApiError, App, access::SUBPROTOCOLS, trace};
use connection::Connection;
pub(crate) use connection::socket::Farewell;
pub(crate) use frames::frames;
pub use limits::SocketLimits;
use terms::Kind;
pub use upgrade::{Upgrade, WebSocket};

/// What streams of audio need.
#[derive(Debug, Clone)]
pub struct Streams {
    /// Where sessions are opened.
    pub speech: Speech,
    /// Where text is spoken.
    pub synthesis: Synthesis,
    /// Bounds of each socket.
    pub limits: SocketLimits,
    /// What a stream is counted by until its socket is closed; whoever stops the server waits for
    /// it.
    pub open: TaskTracker,
    /// Tells every stream to end.
    pub stop: CancellationToken,
}

/// `GET /api/v1/simple`: every sample goes to the model.
pub(crate) async fn simple(
    State(app): State<App>,
    headers: HeaderMap,
    upgrade: Result<Upgrade, ApiError>,
) -> Result<Response, ApiError> {
    begin(app.streams, &headers, upgrade, Kind::Simple)
}

/// `GET /api/v1/segmented`: utterances go to the model.
pub(crate) async fn segmented(
    State(app): State<App>,
    headers: HeaderMap,
    upgrade: Result<Upgrade, ApiError>,
) -> Result<Response, ApiError> {
    begin(app.streams, &headers, upgrade, Kind::Segmented)
}

fn begin(
    streams: Streams,
    headers: &HeaderMap,
    upgrade: Result<Upgrade, ApiError>,
    kind: Kind,
) -> Result<Response, ApiError> {
    // A page that showed its token so wants to hear that it was understood.
    let upgrade = upgrade?.protocols(SUBPROTOCOLS);
    let trace = trace::of(headers);
    streams.clone().open(upgrade, move |socket| {
        // Boxed, because a future has room for everything that moves through it.
        Box::new(Connection::new(socket, streams, kind).traced(trace)).run()
    })
}

impl Streams {
    /// A place for one more stream.
    pub(crate) fn admit(&self) -> Result<Place, ApiError> {
        if self.stop.is_cancelled() {
            return Err(ApiError::new(ErrorCode::Unavailable, "the server is shutting down"));
        }
        self.speech.admit().ok_or_else(|| {
            let message = "as many streams are open as this server takes; try again later";
            ApiError::new(ErrorCode::Overloaded, message)
        })
    }

    /// Opens a socket for one more stream, if there is a place for it.
    pub(crate) fn open<F>(
        self,
        upgrade: Upgrade,
        serve: impl FnOnce(WebSocket) -> F + Send + 'static,
    ) -> Result<Response, ApiError>
    where
        F: Future<Output = ()> + Send,
    {
        let place = self.admit()?;
        Ok(upgrade.open(&self.limits, &self.open, move |socket| async move {
            serve(socket).await;
            drop(place);
        }))
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct Health {
    status: &'static str,
}

/// `GET /api/v1/health`.
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
