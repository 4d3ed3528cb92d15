//! Loading and unloading models.

use axum::{
    Json,
    extract::{Path, State},
};
use serde::Serialize;

use super::{ApiError, App, metadata::ModelPath};

/// What is answered when all went well: an empty object.
#[derive(Debug, Serialize)]
pub(super) struct Done {}

pub(super) async fn load(
    State(app): State<App>,
    Path(path): Path<ModelPath>,
) -> Result<Json<Done>, ApiError> {
    app.control.load(&path.model).await?;
    Ok(Json(Done {}))
}

pub(super) async fn unload(
    State(app): State<App>,
    Path(path): Path<ModelPath>,
) -> Result<Json<Done>, ApiError> {
    app.control.unload(&path.model).await?;
    Ok(Json(Done {}))
}
