//! Cameras: which there are, how they are, which are taken, and frames that could not be inferred.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, Query, State, rejection::QueryRejection},
    http::{HeaderMap, HeaderValue, header::CONTENT_TYPE},
    response::{IntoResponse as _, Response},
};
use paceline_pipeline::{
    CameraControl, CameraSnapshot, CameraState, CameraWish, KnownCamera, PushedFrame, PushedResult,
};
use paceline_types::ErrorCode;
use serde::{Deserialize, Serialize};

use super::{ApiError, App, Whole};

/// Cameras that are listed at once, unless somebody asks for fewer.
const PAGE: usize = 1000;
/// Dead letters of each shard that are listed at once, unless somebody asks for fewer.
const LETTERS: usize = 100;

/// Which part of a list.
#[derive(Debug, Deserialize)]
pub(super) struct Page {
    #[serde(default)]
    after: String,
    most: Option<usize>,
}

/// Cameras and how reading them goes.
#[derive(Debug, Serialize)]
pub(super) struct Overview {
    health: Health,
    counts: Counts,
    cameras: Vec<Camera>,
}

#[derive(Debug, Serialize)]
struct Health {
    source_up: bool,
    circuit_open: bool,
    model_ready: bool,
    problem: Option<String>,
    warnings: Vec<String>,
    faults: u64,
    resets: u64,
    shards: usize,
    nodes: Vec<String>,
    unread: u64,
    lag_ms: u128,
}

#[derive(Debug, Serialize)]
struct Counts {
    frames_in: u64,
    committed: u64,
    dropped: serde_json::Map<String, serde_json::Value>,
    dead_lettered: u64,
    lost: u64,
    duplicated: u64,
    returned: u64,
    in_flight: u64,
}

/// One camera.
#[derive(Debug, Serialize)]
pub(super) struct Camera {
    name: String,
    state: CameraState,
    frames: u64,
    results: u64,
    last_frame_ms: Option<u64>,
}

/// A list to reconcile with.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    cameras: Vec<String>,
}

/// What a reconciliation changed.
#[derive(Debug, Serialize)]
pub(super) struct Changed {
    added: Vec<String>,
    removed: Vec<String>,
    unchanged: usize,
}

/// A frame that could not be inferred.
#[derive(Debug, Serialize)]
pub(super) struct Letter {
    id: String,
    camera: Option<String>,
    stream: String,
    frame: String,
    reason: String,
    tries: u32,
    bytes: usize,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    ids: Vec<String>,
}

/// What was put back.
#[derive(Debug, Serialize)]
pub(super) struct Replayed {
    replayed: Vec<String>,
    gone: Vec<String>,
}

/// `GET /v1/cameras`.
pub(super) async fn list(
    State(app): State<App>,
    page: Result<Query<Page>, QueryRejection>,
) -> Result<Json<Overview>, ApiError> {
    let Page { after, most } = asked(page)?;
    let cameras = control(&app)?;
    let snapshot = cameras.snapshot();
    let listed = cameras
        .list(&after, most.unwrap_or(PAGE).min(PAGE))
        .into_iter()
        .map(Camera::from)
        .collect();
    Ok(Json(overview(snapshot, listed)))
}

/// `GET /v1/cameras/{camera}`.
pub(super) async fn one(
    State(app): State<App>,
    Path(camera): Path<String>,
) -> Result<Json<Camera>, ApiError> {
    let found = control(&app)?.find(&camera);
    let missing = || ApiError::new(ErrorCode::NotFound, "there is no such camera");
    Ok(Json(found.ok_or_else(missing)?.into()))
}

/// `PUT /v1/cameras/{camera}`.
pub(super) async fn add(
    State(app): State<App>,
    Path(camera): Path<String>,
) -> Result<Json<Camera>, ApiError> {
    set(&app, &camera, CameraWish::Add)
}

/// `DELETE /v1/cameras/{camera}`.
pub(super) async fn remove(
    State(app): State<App>,
    Path(camera): Path<String>,
) -> Result<Json<Camera>, ApiError> {
    set(&app, &camera, CameraWish::Remove)
}

/// `POST /v1/cameras/{camera}/pause`.
pub(super) async fn pause(
    State(app): State<App>,
    Path(camera): Path<String>,
) -> Result<Json<Camera>, ApiError> {
    set(&app, &camera, CameraWish::Pause)
}

/// `POST /v1/cameras/{camera}/resume`.
pub(super) async fn resume(
    State(app): State<App>,
    Path(camera): Path<String>,
) -> Result<Json<Camera>, ApiError> {
    set(&app, &camera, CameraWish::Resume)
}

/// `PUT /v1/cameras`.
pub(super) async fn reconcile(
    State(app): State<App>,
    Whole(body): Whole,
) -> Result<Json<Changed>, ApiError> {
    let cameras = control(&app)?;
    let Wanted { cameras: wanted } = read(&body?)?;
    let done = cameras.reconcile(&wanted)?;
    Ok(Json(Changed { added: done.added, removed: done.removed, unchanged: done.unchanged }))
}

/// Names, types and shapes of outputs whose bytes are the body.
const OUTPUTS: &str = "paceline-outputs";

/// When a pushed frame was taken.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Taken {
    taken_ms: Option<u64>,
}

/// `POST /v1/cameras/{camera}/frames`: the answer is the frame's result.
pub(super) async fn push(
    State(app): State<App>,
    Path(camera): Path<String>,
    taken: Result<Query<Taken>, QueryRejection>,
    headers: HeaderMap,
    Whole(body): Whole,
) -> Result<Response, ApiError> {
    let cameras = control(&app)?;
    let Taken { taken_ms } = asked(taken)?;
    let kind = headers.get(CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    let is_picture = matches!(kind, b"image/jpeg" | b"image/png");
    let frame = PushedFrame { camera, taken_ms, is_picture, data: body? };
    Ok(match cameras.push(frame).await? {
        PushedResult::Json(json) => ([(CONTENT_TYPE, "application/json")], json).into_response(),
        PushedResult::Tensors { outputs, data } => {
            let outputs = HeaderValue::from_maybe_shared(outputs);
            let outputs = outputs.unwrap_or_else(|_| HeaderValue::from_static("[]"));
            let mut response = ([(CONTENT_TYPE, "application/octet-stream")], data).into_response();
            response.headers_mut().insert(OUTPUTS, outputs);
            response
        }
    })
}

/// `GET /v1/dead-letters`.
pub(super) async fn dead_letters(
    State(app): State<App>,
    page: Result<Query<Page>, QueryRejection>,
) -> Result<Json<Vec<Letter>>, ApiError> {
    let most = asked(page)?.most.unwrap_or(LETTERS).min(LETTERS);
    let letters = control(&app)?.dead_letters(most).await?.into_iter();
    let letter = |letter: paceline_pipeline::DeadLetter| Letter {
        id: letter.id,
        camera: letter.camera,
        stream: letter.stream,
        frame: letter.frame,
        reason: letter.reason,
        tries: letter.tries,
        bytes: letter.bytes,
    };
    Ok(Json(letters.map(letter).collect()))
}

/// `POST /v1/dead-letters/replay`.
pub(super) async fn replay(
    State(app): State<App>,
    Whole(body): Whole,
) -> Result<Json<Replayed>, ApiError> {
    let cameras = control(&app)?;
    let Named { ids } = read(&body?)?;
    let mut done = Replayed { replayed: Vec::new(), gone: Vec::new() };
    for id in ids {
        if cameras.replay(&id).await? {
            done.replayed.push(id);
        } else {
            done.gone.push(id);
        }
    }
    Ok(Json(done))
}

fn asked<T>(query: Result<Query<T>, QueryRejection>) -> Result<T, ApiError> {
    let wrong = |error: QueryRejection| ApiError::new(ErrorCode::InvalidInput, error.body_text());
    query.map(|Query(asked)| asked).map_err(wrong)
}

fn control(app: &App) -> Result<&Arc<dyn CameraControl>, ApiError> {
    let none = "this server reads no cameras; its configuration has no [cameras]";
    app.cameras.as_ref().ok_or_else(|| ApiError::new(ErrorCode::NotFound, none))
}

fn set(app: &App, camera: &str, wish: CameraWish) -> Result<Json<Camera>, ApiError> {
    let cameras = control(app)?;
    cameras.set(camera, wish)?;
    let gone = KnownCamera {
        name: camera.to_owned(),
        state: CameraState::Removed,
        frames: 0,
        results: 0,
        last_frame_ms: None,
    };
    Ok(Json(cameras.find(camera).unwrap_or(gone).into()))
}

fn read<T: serde::de::DeserializeOwned>(body: &[u8]) -> Result<T, ApiError> {
    let wrong = |error| ApiError::new(ErrorCode::InvalidInput, format!("the body: {error}"));
    serde_json::from_slice(body).map_err(wrong)
}

fn overview(snapshot: CameraSnapshot, cameras: Vec<Camera>) -> Overview {
    let dropped = snapshot.dropped.iter().map(|(reason, n)| ((*reason).to_owned(), (*n).into()));
    Overview {
        counts: Counts {
            frames_in: snapshot.frames_in,
            committed: snapshot.committed,
            dropped: dropped.collect(),
            dead_lettered: snapshot.dead_lettered,
            lost: snapshot.lost,
            duplicated: snapshot.duplicated,
            returned: snapshot.returned,
            in_flight: snapshot.in_flight,
        },
        health: Health {
            source_up: snapshot.is_up,
            circuit_open: snapshot.is_circuit_open,
            model_ready: snapshot.has_model,
            problem: snapshot.problem,
            warnings: snapshot.warnings,
            faults: snapshot.faults,
            resets: snapshot.resets,
            shards: snapshot.shards,
            nodes: snapshot.nodes,
            unread: snapshot.unread,
            lag_ms: snapshot.lag.as_millis(),
        },
        cameras,
    }
}

impl From<KnownCamera> for Camera {
    fn from(camera: KnownCamera) -> Self {
        let KnownCamera { name, state, frames, results, last_frame_ms } = camera;
        Self { name, state, frames, results, last_frame_ms }
    }
}
