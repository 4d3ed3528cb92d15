//! `GET /v1/models/{model}/stats` and `explain` say what happened, and what would.

#[path = "common/app.rs"]
mod app;
#[path = "common/model.rs"]
mod model;

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{Request, StatusCode},
};
use paceline_api::{
    gate::Gate,
    http::{self},
};
use paceline_backend::{Backend, Simulated, simulated};
use paceline_pipeline::{Blueprint, Models};
use serde_json::Value;
use tower::ServiceExt as _;

/// One simulated model `m`, whose calls take a tenth of a second.
fn door() -> Router {
    let settings = simulated::Settings { delay: Duration::from_millis(100), ..Default::default() };
    let simulated = Arc::new(move |_| {
        Ok(Box::new(Simulated::build(settings.clone(), 0).unwrap()) as Box<dyn Backend>)
    });
    let blueprint = Blueprint {
        version: 3,
        batch: paceline_batch::Settings { max_items: Some(4), ..Default::default() },
        ..model::blueprint(simulated)
    };
    let models = Arc::new(Models::default());
    model::open(&models, blueprint);
    http::router(app::app(&models), Arc::new(Gate::open()))
}

async fn send(door: &Router, request: Request<Body>) -> (StatusCode, Value) {
    let response = door.clone().oneshot(request).await.unwrap();
    let status = response.status();
    let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
    (status, serde_json::from_slice(&body).unwrap())
}

async fn get(door: &Router, path: &str) -> Value {
    let (status, body) = send(door, Request::get(path).body(Body::empty()).unwrap()).await;
    assert_eq!(status, StatusCode::OK, "{path}: {body}");
    body
}

async fn infer(door: &Router, body: &str) {
    let request = Request::post("/v1/models/m/infer").body(Body::from(body.to_owned())).unwrap();
    assert_eq!(send(door, request).await.0, StatusCode::OK);
}

#[tokio::test]
async fn what_happened_adds_up() {
    let door = door();
    infer(&door, "[1, 2, 3, 4, 5, 6]").await;
    infer(&door, "7").await;
    // A batch is reported with the device's next step, which a third call has waited for.
    infer(&door, "8").await;

    let stats = get(&door, "/v1/models/m/stats").await;
    let version = &stats["versions"][0];
    assert_eq!((&stats["name"], &version["version"]), (&"m".into(), &"3".into()));
    assert_eq!(version["requests"]["good"], 8);
    assert_eq!(version["requests"]["latency"]["count"], 8);
    assert_eq!(version["items"]["accepted"], 8);
    assert_eq!(version["queue"]["wait"]["count"], 8);
    let sum = |values: &mut dyn Iterator<Item = &Value>| -> u64 {
        values.map(|value| value.as_u64().unwrap()).sum()
    };
    let batches = &version["batches"];
    let count = batches["count"].as_u64().unwrap();
    assert_eq!(sum(&mut batches["fired"].as_object().unwrap().values()), count);
    let bins = batches["rows"].as_array().unwrap();
    assert_eq!(sum(&mut bins.iter().map(|bin| &bin["count"])), count);
    assert_eq!(get(&door, "/v1/stats").await["models"][0]["name"], "m");
}

#[tokio::test]
async fn batches_are_followed_by_their_sequence_numbers() {
    let door = door();
    infer(&door, "1").await;
    infer(&door, "2").await;
    infer(&door, "3").await;

    let numbers = |explained: &Value| -> Vec<u64> {
        let batches = explained["batches"].as_array().unwrap();
        batches.iter().map(|batch| batch["sequence"].as_u64().unwrap()).collect()
    };
    let first = get(&door, "/v1/models/m/explain").await;
    let seen = numbers(&first);
    assert!(seen.starts_with(&[1, 2]), "{seen:?}");
    assert_eq!(first["batches"][0]["fired"], "fast_path");
    assert_eq!(first["batches"][0]["rows"], 1);
    let last = seen[seen.len() - 1];
    let next = get(&door, &format!("/v1/models/m/explain?after={last}")).await;
    assert!(numbers(&next).iter().all(|number| last < *number));
    let one = get(&door, "/v1/models/m/explain?batches=1&version=3").await;
    assert_eq!(numbers(&one).len(), 1);
}

#[tokio::test]
async fn beliefs_are_told_in_numbers_and_in_words() {
    let door = door();

    let explained = get(&door, "/v1/models/m/explain").await;

    let calls = explained["latencies"][0]["calls"].as_array().unwrap();
    assert_eq!(calls[0]["rows"], 1, "warm-up taught it");
    assert!(calls[0]["mean_us"].as_f64().unwrap() >= 100_000.0, "{calls:?}");
    assert!(calls[0]["high_us"].as_f64() >= calls[0]["mean_us"].as_f64());
    let queue = &explained["queues"][0];
    assert_eq!((&queue["imagined"], &queue["fires"]), (&true.into(), &"fast_path".into()));
    assert_eq!(
        queue["decision"],
        "an item that came now would leave as soon as a device is free: \
         nobody else is expected to come soon"
    );
}

#[tokio::test]
async fn what_is_not_there_and_what_is_not_understood_is_refused() {
    let door = door();
    for (path, status) in [
        ("/v1/models/nobody/stats", 404),
        ("/v1/models/nobody/explain", 404),
        ("/v1/models/m/explain?version=9", 404),
        ("/v1/models/m/explain?version=x", 400),
        ("/v1/models/m/explain?batches=many", 400),
        ("/v1/models/m/explain?batch=1", 400),
    ] {
        let (answer, body) = send(&door, Request::get(path).body(Body::empty()).unwrap()).await;
        assert_eq!(answer.as_u16(), status, "{path}: {body}");
        assert!(body["error"].is_string(), "{path}: {body}");
    }
}
