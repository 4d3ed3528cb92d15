//! Frames of cameras over gRPC: `paceline.v1.Cameras`. Each frame has its outcome, in order. What
//! becomes of frames is decided behind the door; this only carries them.

use std::{pin::Pin, sync::Arc};

use futures_util::{Stream, StreamExt as _};
use paceline_pipeline::{ControlError, PushedFrame, PushedResult};
use paceline_types::ErrorCode;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

use super::cameras::{
    Failure, Format, Frame, Outcome, Tensors, cameras_server::Cameras, outcome::Outcome as Fate,
};
use crate::{ApiError, App};

/// Frames of one stream that have no outcome yet; beyond that it is not read.
const UNANSWERED: usize = 16;

/// What a client of a stream reads.
type Outcomes = Pin<Box<dyn Stream<Item = Result<Outcome, Status>> + Send>>;

/// The service over the cameras.
#[derive(Debug)]
pub(super) struct Frames {
    app: App,
    stop: CancellationToken,
}

impl Frames {
    pub(super) const fn new(app: App, stop: CancellationToken) -> Self {
        Self { app, stop }
    }
}

#[tonic::async_trait]
impl Cameras for Frames {
    type PushStream = Outcomes;

    async fn push(&self, request: Request<Streaming<Frame>>) -> Result<Response<Outcomes>, Status> {
        let none = "this server takes no cameras; its configuration has no [cameras]";
        let cameras = self.app.cameras.as_ref();
        let cameras = cameras.ok_or_else(|| ApiError::new(ErrorCode::NotFound, none))?;
        let cameras = Arc::clone(cameras);
        // What was taken in is answered when the server stops.
        let frames = request.into_inner().take_until(self.stop.clone().cancelled_owned());
        let outcomes =
            frames.zip(futures_util::stream::iter(0_u64..)).map(move |(frame, number)| {
                let cameras = Arc::clone(&cameras);
                async move {
                    let result = cameras.push(pushed(frame?)).await;
                    Ok(Outcome { number, outcome: Some(fate(result)) })
                }
            });
        Ok(Response::new(Box::pin(outcomes.buffered(UNANSWERED))))
    }
}

fn pushed(frame: Frame) -> PushedFrame {
    let is_picture = frame.format() == Format::Picture;
    let Frame { camera, taken_ms, data, .. } = frame;
    PushedFrame { camera, taken_ms, is_picture, data }
}

fn fate(result: Result<PushedResult, ControlError>) -> Fate {
    match result {
        Ok(PushedResult::Json(json)) => Fate::Json(json),
        Ok(PushedResult::Tensors { outputs, data }) => Fate::Tensors(Tensors { outputs, data }),
        Err(ControlError { code, message }) => {
            Fate::Failure(Failure { code: code.as_str().to_owned(), message })
        }
    }
}
