//! What this door takes and gives, as an `OpenAPI` document for programs and as a page for people.
//!
//! `openapi/document.json` is written by hand, and `openapi/speak.json`, which is about synthesis. Added to it here is what the code knows better: the
//! version, the closed sets of words, and the second path under which each model can be reached.

mod page;

use std::sync::LazyLock;

use axum::{
    body::Bytes,
    http::header::CONTENT_TYPE,
    response::{IntoResponse, Response},
};
use paceline_types::{DType, ErrorCode};
use serde_json::{Value, json};

/// Made once, by whoever asks first; most servers are never asked.
static DOCUMENT: LazyLock<Value> = LazyLock::new(document);
static JSON: LazyLock<Bytes> = LazyLock::new(|| Bytes::from(DOCUMENT.to_string()));
static PAGE: LazyLock<Bytes> = LazyLock::new(|| Bytes::from(page::render(&DOCUMENT)));

/// `GET /openapi.json`
pub(super) async fn json() -> Response {
    ([(CONTENT_TYPE, "application/json")], JSON.clone()).into_response()
}

/// `GET /docs`
pub(super) async fn page() -> Response {
    ([(CONTENT_TYPE, "text/html; charset=utf-8")], PAGE.clone()).into_response()
}

fn document() -> Value {
    let mut document: Value =
        serde_json::from_str(include_str!("openapi/document.json")).unwrap_or_default();
    let speak: Value = serde_json::from_str(include_str!("openapi/speak.json")).unwrap_or_default();
    if let (Value::Array(tags), Value::Array(more)) = (&mut document["tags"], &speak["tags"]) {
        tags.extend(more.iter().cloned());
    }
    if let (Value::Object(paths), Value::Object(more)) = (&mut document["paths"], &speak["paths"]) {
        paths.extend(more.clone());
    }
    document["info"]["version"] = json!(env!("CARGO_PKG_VERSION"));
    let schemas = &mut document["components"]["schemas"];
    schemas["ErrorCode"]["enum"] = json!(ErrorCode::ALL.map(ErrorCode::as_str));
    schemas["Datatype"]["enum"] = json!(DType::ALL.map(DType::as_str));
    if let Value::Object(paths) = &mut document["paths"] {
        let twins: Vec<(String, Value)> = paths.iter().filter_map(of_one_version).collect();
        paths.extend(twins);
    }
    document
}

/// What is said of a model can be asked of one version of it too.
fn of_one_version((path, item): (&String, &Value)) -> Option<(String, Value)> {
    let rest = path.strip_prefix("/v2/models/{model}")?;
    let mut item = item.clone();
    if let Value::Array(parameters) = &mut item["parameters"] {
        parameters.push(json!({ "$ref": "#/components/parameters/Version" }));
    }
    for method in ["get", "post"] {
        if let Some(Value::String(id)) = item.pointer_mut(&format!("/{method}/operationId")) {
            id.push_str("OfVersion");
        }
    }
    Some((format!("/v2/models/{{model}}/versions/{{version}}{rest}"), item))
}
