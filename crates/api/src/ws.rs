//! Sockets, for all protocols that come over a WebSocket: `upgrade` makes one of a request, if there is
//! a place for one more stream. What is said over it is `crate::speech`'s and `crate::speak`'s; only
//! `frames` is here, which carries those of a camera.

mod frames;
mod held;
mod limits;
mod upgrade;

use std::future::Future;

use axum::response::Response;
use paceline_pipeline::{
    speech::{Place, Speech},
    synthesis::Synthesis,
};
use paceline_types::ErrorCode;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::ApiError;
pub(crate) use frames::frames;
pub use limits::SocketLimits;
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
