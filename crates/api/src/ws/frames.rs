//! Frames of one camera over a WebSocket: each binary message is a frame, and each has its answer, in
//! order. What becomes of frames is decided behind the door; this only carries them.
//!
//! An answer is a text message with the frame's number on this socket, from 0 on: `result` of a model
//! with an adapter; `outputs`, followed by a binary message with their bytes; or `code` and `error`.

use std::{collections::VecDeque, sync::Arc};

use axum::{
    body::Bytes,
    extract::{Path, State},
    response::Response,
};
use futures_util::{SinkExt as _, StreamExt as _, stream::FuturesOrdered};
use paceline_pipeline::{CameraControl, ControlError, PushedFrame, PushedResult};
use paceline_types::ErrorCode;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use tokio_tungstenite::tungstenite::Message;

use super::{SocketLimits, Upgrade, WebSocket};
use crate::{ApiError, App, access::SUBPROTOCOLS};

/// Frames of one socket that have no answer yet; beyond that it is not read.
const UNANSWERED: usize = 16;

/// `GET /v1/cameras/{camera}/stream`.
pub(crate) async fn frames(
    State(app): State<App>,
    Path(camera): Path<String>,
    upgrade: Result<Upgrade, ApiError>,
) -> Result<Response, ApiError> {
    let upgrade = upgrade?.protocols(SUBPROTOCOLS);
    let none = "this server takes no cameras; its configuration has no [cameras]";
    let cameras = app.cameras.ok_or_else(|| ApiError::new(ErrorCode::NotFound, none))?;
    let (streams, max_body) = (app.streams, app.bodies.max);
    if streams.stop.is_cancelled() {
        return Err(ApiError::new(ErrorCode::Unavailable, "the server is shutting down"));
    }
    // Outputs of a model are of any length.
    let limits =
        SocketLimits { max_message: max_body, max_write_buffer: usize::MAX, ..streams.limits };
    Ok(upgrade.open(&limits, &streams.open.clone(), move |mut socket| async move {
        // Whoever closes wants to hear nothing more.
        socket.let_close();
        tokio::select! {
            // Whoever is gone needs no answer.
            _ = carry(&mut socket, &limits, &cameras, &camera) => {}
            () = streams.stop.cancelled() => {}
        }
        drop(timeout(limits.close_timeout, socket.send(Message::Close(None))).await);
    }))
}

/// The client can be told nothing more.
struct Gone;

/// Carries frames and answers until the client leaves.
async fn carry(
    socket: &mut WebSocket,
    limits: &SocketLimits,
    cameras: &Arc<dyn CameraControl>,
    camera: &str,
) -> Result<(), Gone> {
    let mut asked = FuturesOrdered::new();
    let mut answers: VecDeque<Message> = VecDeque::new();
    let mut number = 0_u64;
    loop {
        while let Some(answer) = answers.pop_front() {
            let sent = timeout(limits.write_timeout, socket.send(answer)).await;
            sent.map_err(|_| Gone)?.map_err(|_| Gone)?;
        }
        let (is_waiting, has_room) = (asked.is_empty(), asked.len() < UNANSWERED);
        tokio::select! {
            Some((number, result)) = asked.next() => answers.extend(messages(number, result)),
            () = sleep(limits.idle_timeout), if is_waiting => return Ok(()),
            message = socket.recv(), if has_room => {
                let data: Bytes = match message.transpose().map_err(|_| Gone)? {
                    Some(Message::Binary(data)) => data,
                    Some(Message::Close(_)) => {
                        // The answer to it leaves with the next read, which ends at once.
                        drop(socket.recv().await);
                        return Ok(());
                    }
                    None => return Ok(()),
                    Some(_) => continue,
                };
                let is_picture = data.starts_with(b"\xff\xd8\xff") || data.starts_with(b"\x89PNG");
                let camera = camera.to_owned();
                let frame = PushedFrame { camera, taken_ms: None, is_picture, data };
                let own = number;
                number += 1;
                asked.push_back(async move { (own, cameras.push(frame).await) });
            }
        }
    }
}

fn messages(number: u64, result: Result<PushedResult, ControlError>) -> Vec<Message> {
    let text = |value: &Value| Message::Text(value.to_string().into());
    let read = |json: &[u8]| serde_json::from_slice::<Value>(json).unwrap_or(Value::Null);
    match result {
        Ok(PushedResult::Json(json)) => {
            vec![text(&json!({"number": number, "result": read(&json)}))]
        }
        Ok(PushedResult::Tensors { outputs, data }) => {
            let outputs = text(&json!({"number": number, "outputs": read(&outputs)}));
            vec![outputs, Message::Binary(data)]
        }
        Err(ControlError { code, message }) => {
            vec![text(&json!({"number": number, "code": code.as_str(), "error": message}))]
        }
    }
}
