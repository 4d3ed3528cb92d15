//! The `OpenAPI` document and the routes say the same.

#[path = "common/app.rs"]
mod app;

use std::{collections::BTreeSet, sync::Arc};

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{Method, Request, StatusCode, header::ALLOW},
};
use paceline_api::{
    gate::Gate,
    http::{self},
};
use serde_json::Value;
use tower::ServiceExt as _;

fn router() -> Router {
    http::router(app::app(&Arc::default()), Arc::new(Gate::open()))
}

async fn ask(method: Method, path: &str) -> (StatusCode, Vec<String>, Vec<u8>) {
    let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
    let response = router().oneshot(request).await.unwrap();
    let status = response.status();
    let allowed = response.headers().get(ALLOW).map(|value| value.to_str().unwrap().to_owned());
    let allowed = allowed.unwrap_or_default().split(',').map(str::to_lowercase).collect();
    (status, allowed, to_bytes(response.into_body(), 1 << 20).await.unwrap().into())
}

async fn document() -> Value {
    let (status, _, body) = ask(Method::GET, "/openapi.json").await;
    assert_eq!(status, StatusCode::OK);
    serde_json::from_slice(&body).unwrap()
}

fn paths() -> BTreeSet<String> {
    http::needs().map(|(path, _)| path.to_owned()).collect()
}

#[tokio::test]
async fn every_route_is_in_the_document_and_nothing_else() {
    let document = document().await;
    let mut documented = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys().filter(|key| *key != "parameters") {
            documented.insert((path.clone(), method.clone()));
        }
    }

    let mut routed = BTreeSet::new();
    for path in paths() {
        // No route takes this method, so each answers with those that it takes. The fallback is
        // among the paths too, and is no route.
        let (status, allowed, _) = ask(Method::TRACE, &path).await;
        if status == StatusCode::NOT_FOUND {
            continue;
        }
        assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED, "{path}");
        for method in allowed.into_iter().filter(|method| method != "head") {
            routed.insert((path.clone(), method));
        }
    }
    assert_eq!(documented, routed);
}

#[tokio::test]
async fn every_reference_leads_somewhere_and_every_operation_has_its_own_name() {
    let document = document().await;
    let mut open = vec![&document];
    let mut names = BTreeSet::new();
    while let Some(value) = open.pop() {
        if let Some(path) = value.get("$ref").and_then(Value::as_str) {
            assert!(document.pointer(path.trim_start_matches('#')).is_some(), "{path}");
        }
        if let Some(name) = value.get("operationId").and_then(Value::as_str) {
            assert!(names.insert(name.to_owned()), "{name} twice");
        }
        match value {
            Value::Object(object) => open.extend(object.values()),
            Value::Array(list) => open.extend(list),
            _ => {}
        }
    }
    assert!(10 < names.len());
}

#[tokio::test]
async fn the_page_shows_every_path_and_asks_for_nothing_from_elsewhere() {
    let (status, _, body) = ask(Method::GET, "/docs").await;
    let page = String::from_utf8(body).unwrap();

    assert_eq!(status, StatusCode::OK);
    for path in document().await["paths"].as_object().unwrap().keys() {
        assert!(page.contains(&format!("<code>{path}</code>")), "{path}");
    }
    for foreign in ["<script", "src=", "http://", "https://", "@import", "url("] {
        assert!(!page.contains(foreign), "{foreign}");
    }
}
