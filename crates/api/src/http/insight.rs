//! `GET /v1/stats`, `GET /v1/models/{model}/stats` and `GET /v1/models/{model}/explain`.

use axum::{
    Json,
    extract::{Path, Query, State, rejection::QueryRejection},
};
use paceline_types::ErrorCode;
use serde::Deserialize;

use super::{ApiError, App, metadata::ModelPath};
use crate::insight::{self, Explain, ModelView, ServerView};

/// What may stand behind the question mark of `explain`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Which {
    /// Most batches to tell of.
    batches: usize,
    /// Only those that landed after the one with this sequence number.
    after: u64,
    /// Of which version of the model; the latest where it is not said.
    version: Option<String>,
}

impl Default for Which {
    fn default() -> Self {
        Self { batches: 32, after: 0, version: None }
    }
}

pub(super) async fn server(State(app): State<App>) -> Json<ServerView> {
    Json(insight::server(&app))
}

pub(super) async fn stats(
    State(app): State<App>,
    Path(path): Path<ModelPath>,
) -> Result<Json<ModelView>, ApiError> {
    let versions = app.models.find_all(&path.model, None)?;
    Ok(Json(insight::model(path.model, &versions)))
}

pub(super) async fn explain(
    State(app): State<App>,
    Path(path): Path<ModelPath>,
    which: Result<Query<Which>, QueryRejection>,
) -> Result<Json<Explain>, ApiError> {
    let Query(which) = which.map_err(|rejection| {
        ApiError::new(
            ErrorCode::InvalidInput,
            format!("{}; batches, after and version are known", rejection.body_text()),
        )
    })?;
    if which.version.as_deref() == Some("") {
        let message = "version is empty; leave it out for the latest, or say which";
        return Err(ApiError::new(ErrorCode::InvalidInput, message));
    }
    let model = ModelPath { version: which.version, ..path }.find(&app.models)?;
    Ok(Json(insight::explain(&model, which.after, which.batches)))
}
