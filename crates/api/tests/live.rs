//! What those get who watch, and the page that they watch on.

#[path = "common/app.rs"]
mod app;
#[path = "common/model.rs"]
mod model;

use std::sync::Arc;

use axum::{
    Router,
    body::{Body, BodyDataStream, to_bytes},
    http::{HeaderMap, Request, StatusCode},
};
use futures_util::StreamExt as _;
use paceline_api::{
    App,
    gate::Gate,
    http::{self},
    live::CameraSight,
};
use paceline_backend::{Backend, Simulated, simulated};
use paceline_pipeline::{Ask, Blueprint, Models};
use paceline_types::Tensor;
use serde_json::Value;
use smallvec::smallvec;
use tower::ServiceExt as _;

fn open(models: &Models, name: &str) {
    let build = Arc::new(|_| {
        let model = Simulated::build(simulated::Settings::default(), 0).unwrap();
        Ok(Box::new(model) as Box<dyn Backend>)
    });
    model::open(models, Blueprint { name: name.to_owned(), ..model::blueprint(build) });
}

fn app() -> App {
    let models = Arc::new(Models::default());
    open(&models, "m");
    let app = app::app(&models);
    app.readiness.set(true);
    app
}

fn router(app: &App) -> Router {
    http::router(app.clone(), Arc::new(Gate::open()))
}

async fn get(app: &App, path: &str, headers: HeaderMap) -> axum::response::Response {
    let mut request = Request::get(path).body(Body::empty()).unwrap();
    *request.headers_mut() = headers;
    router(app).oneshot(request).await.unwrap()
}

/// Somebody who watches.
struct Viewer(BodyDataStream);

impl Viewer {
    async fn new(app: &App) -> Self {
        let response = get(app, "/v1/live", HeaderMap::new()).await;
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self(response.into_body().into_data_stream())
    }

    /// The next event's name and what it says; `None` where no more comes.
    async fn next(&mut self) -> Option<(String, Value)> {
        let frame = self.0.next().await?.unwrap();
        let text = String::from_utf8(frame.to_vec()).unwrap();
        let (name, data) = text.strip_prefix("event: ").unwrap().split_once("\ndata: ").unwrap();
        assert!(data.ends_with("\n\n") && data.matches('\n').count() == 2, "one event: {text}");
        Some((name.to_owned(), serde_json::from_str(data).unwrap()))
    }

    async fn tick(&mut self) -> Value {
        let (name, tick) = self.next().await.unwrap();
        assert_eq!(name, "tick", "{tick}");
        tick
    }
}

async fn ask(app: &App) {
    let inputs = smallvec![Tensor::from_f32(&[1, 1], &[1.0]).unwrap()];
    let model = app.models.find("m", None).unwrap();
    model.infer(Ask { inputs, ..Ask::default() }).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn who_watches_sees_all_there_is_and_then_what_comes() {
    let app = app();
    ask(&app).await;
    let mut viewer = Viewer::new(&app).await;
    let (name, all) = viewer.next().await.unwrap();
    assert_eq!(name, "snapshot");
    assert_eq!((&all["is_ready"], &all["cameras"]), (&Value::Bool(true), &Value::Null));
    let m = &all["models"][0];
    assert_eq!((m["name"].as_str(), m["counts"]["good"].as_u64()), (Some("m"), Some(1)));

    assert_eq!(viewer.tick().await["models"], Value::Null, "nothing happened");
    for _ in 0..3 {
        ask(&app).await;
    }
    let tick = viewer.tick().await;
    let counts = &tick["models"][0]["counts"];
    assert_eq!(counts["good"], 3);
    let fired: u64 = counts["fired"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).sum();
    assert_eq!(fired, 3);
    assert!(counts["rows"].is_array() && counts["wait"].is_array() && counts["run"].is_array());
}

#[tokio::test(start_paused = true)]
async fn models_that_come_and_cameras_are_seen() {
    let app = app();
    let mut viewer = Viewer::new(&app).await;
    viewer.next().await.unwrap();
    open(&app.models, "n");
    app.live.show_cameras(|| CameraSight { taken: 7, ..CameraSight::default() });

    let (name, all) = viewer.next().await.unwrap();
    assert_eq!((&*name, all["models"].as_array().unwrap().len()), ("snapshot", 2));
    assert_eq!(all["cameras"]["taken"], 7);
    assert_eq!(viewer.tick().await["cameras"], Value::Null, "they are as they were");
}

#[tokio::test(start_paused = true)]
async fn all_who_watch_see_the_same_readings() {
    let app = app();
    let mut viewers = Vec::new();
    for _ in 0..10 {
        let mut viewer = Viewer::new(&app).await;
        viewer.next().await.unwrap();
        viewers.push(viewer);
    }
    ask(&app).await;
    let mut ticks = Vec::new();
    for viewer in &mut viewers {
        ticks.push(viewer.tick().await);
    }
    assert!(ticks.iter().all(|tick| *tick == ticks[0]), "{ticks:?}");
    // One who has not looked for long is told everything anew.
    let mut late = viewers.pop().unwrap();
    for _ in 0..20 {
        viewers[0].tick().await;
    }
    assert_eq!(late.next().await.unwrap().0, "snapshot");
}

#[tokio::test(start_paused = true)]
async fn only_so_many_may_watch_and_who_leaves_makes_room() {
    let app = app();
    let mut viewers = Vec::new();
    for _ in 0..64 {
        viewers.push(Viewer::new(&app).await);
    }
    let refused = get(&app, "/v1/live", HeaderMap::new()).await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    viewers.pop();
    Viewer::new(&app).await;
}

#[tokio::test(start_paused = true)]
async fn whoever_watches_is_told_when_the_server_stops() {
    let app = app();
    let mut viewer = Viewer::new(&app).await;
    viewer.next().await.unwrap();
    app.streams.stop.cancel();

    assert_eq!(viewer.next().await.unwrap().0, "bye");
    assert!(viewer.next().await.is_none());
}

#[tokio::test]
async fn the_page_may_ask_nobody_else_and_is_fetched_once() {
    let app = app();
    for (path, kind) in [
        ("/", "text/html; charset=utf-8"),
        ("/assets/app.js", "text/javascript; charset=utf-8"),
        ("/assets/app.css", "text/css; charset=utf-8"),
        ("/assets/microphone.js", "text/javascript; charset=utf-8"),
        ("/assets/icon.svg", "image/svg+xml"),
    ] {
        let response = get(&app, path, HeaderMap::new()).await;
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        let headers = response.headers().clone();
        assert_eq!(headers["content-type"], kind);
        let policy = headers["content-security-policy"].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{policy}");
        assert!(!policy.contains("unsafe") && !policy.contains('*'), "{policy}");
        assert!(!to_bytes(response.into_body(), 1 << 20).await.unwrap().is_empty(), "{path}");

        let known =
            HeaderMap::from_iter([("if-none-match".parse().unwrap(), headers["etag"].clone())]);
        assert_eq!(get(&app, path, known).await.status(), StatusCode::NOT_MODIFIED);
    }
    for path in ["/assets/", "/assets/app.ts", "/assets/..%2Findex.html"] {
        assert_eq!(get(&app, path, HeaderMap::new()).await.status(), StatusCode::NOT_FOUND);
    }
}
