//! Whether the server and its models live and can answer.

use axum::{
    Json,
    extract::{Path, State},
    http::StatusCode,
};
use serde::Serialize;

use super::{ApiError, App, metadata::ModelPath};

#[derive(Debug, Serialize)]
pub(super) struct Live {
    live: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct Ready {
    ready: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct ModelReady {
    name: String,
    ready: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// The process answers, so it lives.
pub(super) async fn live() -> Json<Live> {
    Json(Live { live: true })
}

/// Every model is warm, has a living executor, and the server is not draining.
pub(super) async fn ready(State(app): State<App>) -> (StatusCode, Json<Ready>) {
    let ready = app.is_ready();
    (status(ready), Json(Ready { ready }))
}

/// This model is warm and has a living executor.
pub(super) async fn model_ready(
    State(app): State<App>,
    Path(path): Path<ModelPath>,
) -> Result<(StatusCode, Json<ModelReady>), ApiError> {
    let model = path.find(&app.models)?;
    let trouble = model.trouble();
    let ready = app.readiness.get() && trouble.is_none();
    let name = model.facts().name.clone();
    Ok((status(ready), Json(ModelReady { name, ready, reason: trouble })))
}

const fn status(ready: bool) -> StatusCode {
    if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}
