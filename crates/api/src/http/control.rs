//! What is known, and loading and unloading it.

use axum::{
    Json,
    extract::{Path, State},
};
use paceline_types::ErrorCode;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use super::{ApiError, App, Whole, metadata::ModelPath};
use crate::oip::{
    describe::repository,
    meta::{ModelState, RepositoryEntry},
};

/// What is answered when all went well: an empty object.
#[derive(Debug, Serialize)]
pub(super) struct Done {}

/// The body of a question for the index.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct IndexRequest {
    ready: bool,
}

/// The body of a wish to load or unload.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ControlRequest {
    parameters: Map<String, Value>,
}

pub(super) async fn index(
    State(app): State<App>,
    Whole(body): Whole,
) -> Result<Json<Vec<RepositoryEntry>>, ApiError> {
    let IndexRequest { ready } = read(&body?)?;
    let mut entries = repository(app.control.known());
    entries.retain(|entry| !ready || entry.state == ModelState::Ready);
    Ok(Json(entries))
}

pub(super) async fn load(
    State(app): State<App>,
    Path(path): Path<ModelPath>,
    Whole(body): Whole,
) -> Result<Json<Done>, ApiError> {
    let ControlRequest { parameters } = read(&body?)?;
    refuse(parameters.keys().next())?;
    app.control.load(&path.model).await?;
    Ok(Json(Done {}))
}

pub(super) async fn unload(
    State(app): State<App>,
    Path(path): Path<ModelPath>,
    Whole(body): Whole,
) -> Result<Json<Done>, ApiError> {
    let ControlRequest { parameters } = read(&body?)?;
    // Models have no dependents here, so either answer to that question is right.
    refuse(parameters.keys().find(|name| *name != "unload_dependents"))?;
    if parameters.values().any(|value| !value.is_boolean()) {
        let message = "parameter `unload_dependents` takes true or false";
        return Err(ApiError::new(ErrorCode::InvalidInput, message));
    }
    app.control.unload(&path.model).await?;
    Ok(Json(Done {}))
}

/// A body that may be left out.
fn read<T: DeserializeOwned + Default>(body: &[u8]) -> Result<T, ApiError> {
    if body.is_empty() {
        return Ok(T::default());
    }
    let wrong = |what: String| ApiError::new(ErrorCode::InvalidInput, what);
    // Read in two steps, since a list would pass for a struct.
    let object: Map<String, Value> =
        serde_json::from_slice(body).map_err(|error| wrong(format!("the body: {error}")))?;
    serde_json::from_value(Value::Object(object))
        .map_err(|error| wrong(format!("the body: {error}")))
}

/// A parameter that would be ignored is refused.
fn refuse(parameter: Option<&String>) -> Result<(), ApiError> {
    let Some(name) = parameter else { return Ok(()) };
    let name: String = name.chars().take(64).flat_map(char::escape_default).collect();
    let message =
        format!("parameter `{name}` is not supported; change the model's files and load it again");
    Err(ApiError::new(ErrorCode::Unsupported, message))
}
