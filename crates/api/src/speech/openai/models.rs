//! `GET /v1/models`: what is served, as `OpenAI`'s clients list it.

use axum::{
    Json,
    extract::{Path, State},
    response::{IntoResponse as _, Response},
};
use serde_json::{Value, json};

use super::refusal;
use crate::{ApiError, App};

/// `GET /v1/models`
pub(crate) async fn list(State(app): State<App>) -> Json<Value> {
    let models = app.models.all();
    let mut names: Vec<&str> = models.iter().map(|model| &*model.facts().name).collect();
    names.sort_unstable();
    names.dedup();
    let data: Vec<Value> = names.into_iter().map(entry).collect();
    Json(json!({ "object": "list", "data": data }))
}

/// `GET /v1/models/{model}`
pub(crate) async fn one(State(app): State<App>, Path(name): Path<String>) -> Response {
    match app.models.find(&name, None) {
        Ok(model) => Json(entry(&model.facts().name)).into_response(),
        Err(error) => refusal(&ApiError::from(error)),
    }
}

fn entry(name: &str) -> Value {
    json!({ "id": name, "object": "model", "created": 0, "owned_by": "paceline" })
}
