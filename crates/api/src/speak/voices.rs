//! Voices: `GET` and `POST /v1/voices`, `DELETE /v1/voices/{voice}`; the same as `/voice-clones`.

use std::collections::BTreeMap;

use axum::{
    Json,
    extract::{Path, Query, State, rejection::QueryRejection},
    http::{HeaderMap, StatusCode, header::CONTENT_TYPE},
};
use paceline_pipeline::synthesis::{Content, Voice, reference};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{bad_json, invalid};
use crate::{ApiError, App, http::Whole};

/// Which speaking model, and what a new voice is called.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Which {
    model: Option<String>,
    name: Option<String>,
}

/// A new voice, by what it gives to the models' inputs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct New {
    name: String,
    model: Option<String>,
    #[serde(default)]
    embedding: Vec<f32>,
    #[serde(default)]
    inputs: BTreeMap<String, Vec<f32>>,
}

type Asked = Result<Query<Which>, QueryRejection>;

/// `GET /v1/voices`
pub(crate) async fn list(State(app): State<App>, which: Asked) -> Result<Json<Value>, ApiError> {
    let Query(which) = which.map_err(|error| invalid(error.body_text()))?;
    let synthesis = &app.streams.synthesis;
    let pairs = match &which.model {
        Some(model) => vec![synthesis.pair(Some(model))?],
        None => synthesis.pairs(),
    };
    let voices: Vec<Value> = pairs
        .iter()
        .flat_map(|pair| {
            let languages = &pair.settings().languages;
            pair.voices().into_iter().map(|voice| describe(&voice, pair.name(), languages))
        })
        .collect();
    Ok(Json(json!({ "voices": voices })))
}

/// `POST /v1/voices`: JSON, or a recording as it is.
pub(crate) async fn register(
    State(app): State<App>,
    which: Asked,
    headers: HeaderMap,
    Whole(body): Whole,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let Query(which) = which.map_err(|error| invalid(error.body_text()))?;
    let body = body?;
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let (name, model, content) = if kind.starts_with("audio/") || body.starts_with(b"RIFF") {
        let name =
            which.name.ok_or_else(|| invalid("a recording needs ?name=, its voice's name"))?;
        let pair = app.streams.synthesis.pair(which.model.as_deref())?;
        let rate = pair.settings().chunks.sample_rate;
        let samples = reference(&body, rate).map_err(|error| invalid(error.to_string()))?;
        (name, which.model, Content::from([("reference".to_owned(), samples.into())]))
    } else {
        let new: New = serde_json::from_slice(&body).map_err(|error| bad_json(&error))?;
        let mut content: Content =
            new.inputs.into_iter().map(|(input, values)| (input, values.into())).collect();
        if !new.embedding.is_empty() {
            content.insert("embedding".to_owned(), new.embedding.into());
        }
        (new.name, new.model.or(which.model), content)
    };
    let is_name = (1..=64).contains(&name.chars().count()) && !name.chars().any(char::is_control);
    if !is_name || content.is_empty() {
        return Err(invalid(
            "a voice needs a name of 1 to 64 characters, and something to sound like",
        ));
    }
    let pair = app.streams.synthesis.pair(model.as_deref())?;
    let voice = pair.register(&app.models, &name, content)?;
    let languages = &pair.settings().languages;
    Ok((StatusCode::CREATED, Json(describe(&voice, pair.name(), languages))))
}

/// `DELETE /v1/voices/{voice}`
pub(crate) async fn delete(
    State(app): State<App>,
    Path(voice): Path<String>,
    which: Asked,
) -> Result<Json<Value>, ApiError> {
    let Query(which) = which.map_err(|error| invalid(error.body_text()))?;
    let pair = app.streams.synthesis.pair(which.model.as_deref())?;
    let gone = pair.delete(&voice)?;
    Ok(Json(json!({ "deleted": gone.id })))
}

fn describe(voice: &Voice, model: &str, languages: &[String]) -> Value {
    json!({
        "id": voice.id,
        "name": voice.name,
        "description": voice.description,
        "aliases": voice.aliases,
        "model": model,
        "languages": languages,
        "built_in": voice.is_built_in,
    })
}
