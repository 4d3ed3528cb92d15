//! The HTTP door: the Open Inference Protocol, plain endpoints for people, and where streams begin.

mod control;
mod error;
mod health;
mod infer;
mod metadata;
mod plain;
mod request_id;
mod serve;
pub(crate) mod value;

use axum::{
    Router,
    extract::DefaultBodyLimit,
    routing::{get, post},
};

use tower_http::{compression::CompressionLayer, decompression::RequestDecompressionLayer};

use crate::ws;
pub use crate::{
    app::{App, Readiness},
    error::ApiError,
};
pub use serve::{ServeLimits, serve};

/// Every route. Built apart from the listener, so that tests need no port.
pub fn router(app: App) -> Router {
    let max_body = app.max_body;
    Router::new()
        .route("/v2", get(metadata::server))
        .route("/v2/health/live", get(health::live))
        .route("/v2/health/ready", get(health::ready))
        .route("/v2/models/stats", get(metadata::all_statistics))
        .route("/v2/models/{model}", get(metadata::model))
        .route("/v2/models/{model}/ready", get(health::model_ready))
        .route("/v2/models/{model}/config", get(metadata::config))
        .route("/v2/models/{model}/stats", get(metadata::statistics))
        .route("/v2/models/{model}/infer", post(infer::infer))
        .route("/v2/models/{model}/versions/{version}", get(metadata::model))
        .route("/v2/models/{model}/versions/{version}/ready", get(health::model_ready))
        .route("/v2/models/{model}/versions/{version}/config", get(metadata::config))
        .route("/v2/models/{model}/versions/{version}/stats", get(metadata::statistics))
        .route("/v2/models/{model}/versions/{version}/infer", post(infer::infer))
        .route("/v2/repository/index", post(metadata::repository_index))
        .route("/v2/repository/models/{model}/load", post(control::load))
        .route("/v2/repository/models/{model}/unload", post(control::unload))
        .route("/v1/models/{model}/infer", post(plain::infer))
        .route("/api/v1/simple", get(ws::simple))
        .route("/api/v1/segmented", get(ws::segmented))
        .route("/api/v1/health", get(ws::health))
        .fallback(error::no_such_path)
        .method_not_allowed_fallback(error::wrong_method)
        // The limit is on what a body unpacks to, so a small bomb is no larger than a large body.
        .layer(DefaultBodyLimit::max(max_body))
        .layer(RequestDecompressionLayer::new())
        .layer(CompressionLayer::new())
        .layer(axum::middleware::from_fn(request_id::layer))
        .with_state(app)
}
