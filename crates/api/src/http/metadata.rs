//! What the server and its models say about themselves.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State},
    http::header::CONTENT_TYPE,
    response::IntoResponse,
};
use paceline_pipeline::{Model, Models};
use serde::Deserialize;

use super::{ApiError, App};
use crate::oip::{
    config::to_json,
    describe::{model_config, model_metadata, model_statistics, server_metadata},
    meta::{ModelMetadata, ServerMetadata},
    parse_version,
    statistics::Statistics,
};

/// The part of a path that names a model.
#[derive(Debug, PartialEq, Deserialize)]
pub(super) struct ModelPath {
    pub(super) model: String,
    pub(super) version: Option<String>,
}

impl ModelPath {
    /// The model, in the version asked for or the latest.
    pub(super) fn find(&self, models: &Models) -> Result<Arc<Model>, ApiError> {
        Ok(models.find(&self.model, self.version()?)?)
    }

    pub(super) fn version(&self) -> Result<Option<u64>, ApiError> {
        Ok(self.version.as_deref().map_or(Ok(None), parse_version)?)
    }
}

pub(super) async fn server() -> Json<ServerMetadata> {
    Json(server_metadata())
}

pub(super) async fn model(
    State(app): State<App>,
    Path(path): Path<ModelPath>,
) -> Result<Json<ModelMetadata>, ApiError> {
    let model = path.find(&app.models)?;
    Ok(Json(model_metadata(&model, &app.models)))
}

pub(super) async fn config(
    State(app): State<App>,
    Path(path): Path<ModelPath>,
) -> Result<impl IntoResponse, ApiError> {
    let model = path.find(&app.models)?;
    Ok(([(CONTENT_TYPE, "application/json")], to_json(&model_config(&model))))
}

pub(super) async fn statistics(
    State(app): State<App>,
    Path(path): Path<ModelPath>,
) -> Result<Json<Statistics>, ApiError> {
    let models = app.models.find_all(&path.model, path.version()?)?;
    Ok(Json(Statistics {
        model_stats: models.iter().map(|model| model_statistics(model)).collect(),
    }))
}

pub(super) async fn all_statistics(State(app): State<App>) -> Json<Statistics> {
    let models = app.models.all();
    Json(Statistics { model_stats: models.iter().map(|model| model_statistics(model)).collect() })
}
