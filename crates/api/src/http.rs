//! The HTTP door: the Open Inference Protocol, plain endpoints for people, and where streams begin.

mod cameras;
mod control;
mod entrance;
mod error;
mod health;
mod infer;
mod insight;
mod metadata;
mod metrics;
mod openapi;
mod page;
mod pieces;
mod plain;
mod request_id;
mod serve;
pub(crate) mod value;
mod whole;

use std::sync::Arc;

use axum::{
    Router,
    routing::{MethodRouter, delete, get, post},
};

use tower_http::{compression::CompressionLayer, decompression::RequestDecompressionLayer};

use crate::{
    access::{Needs, Role},
    gate::{Gate, Guard, Wire, browser::CorsLayer},
    live, speak,
    speech::{deepgram, native, openai},
    ws,
};
pub use crate::{
    app::{App, Readiness},
    error::ApiError,
};
pub use entrance::Entrance;
pub(crate) use serve::accept;
pub use serve::{Budget, Listener, Listening, Places, ServeLimits, serve};
#[cfg(any(test, feature = "fuzz"))]
pub use value::plain_value;
pub use whole::Bodies;
pub(crate) use whole::Whole;

/// A path, what it needs, and what answers there.
type Route = (&'static str, Needs, MethodRouter<App>);

const INFER: Needs = Needs::Role(Role::Infer);

/// Every route. There is no other way for one to be served than to say here what it needs.
#[rustfmt::skip]
fn routes() -> Vec<Route> {
    const ALL: Needs = Needs::Nothing;
    const STREAM: Needs = Needs::Role(Role::Stream);
    const ADMIN: Needs = Needs::Role(Role::Admin);
    const METRICS: Needs = Needs::Role(Role::Metrics);
    vec![
        ("/", ALL, get(page::index)),
        ("/assets/{file}", ALL, get(page::asset)),
        ("/v2", INFER, get(metadata::server)),
        ("/v2/health/live", ALL, get(health::live)),
        ("/v2/health/ready", ALL, get(health::ready)),
        ("/v2/models/stats", INFER, get(metadata::all_statistics)),
        ("/v2/models/{model}", INFER, get(metadata::model)),
        ("/v2/models/{model}/ready", ALL, get(health::model_ready)),
        ("/v2/models/{model}/config", INFER, get(metadata::config)),
        ("/v2/models/{model}/stats", INFER, get(metadata::statistics)),
        ("/v2/models/{model}/infer", INFER, post(infer::infer)),
        ("/v2/models/{model}/versions/{version}", INFER, get(metadata::model)),
        ("/v2/models/{model}/versions/{version}/ready", ALL, get(health::model_ready)),
        ("/v2/models/{model}/versions/{version}/config", INFER, get(metadata::config)),
        ("/v2/models/{model}/versions/{version}/stats", INFER, get(metadata::statistics)),
        ("/v2/models/{model}/versions/{version}/infer", INFER, post(infer::infer)),
        ("/v2/repository/index", ADMIN, post(control::index)),
        ("/v2/repository/models/{model}/load", ADMIN, post(control::load)),
        ("/v2/repository/models/{model}/unload", ADMIN, post(control::unload)),
        ("/v1/models/{model}/infer", INFER, post(plain::infer)),
        ("/v1/models/{model}/stats", INFER, get(insight::stats)),
        ("/v1/models/{model}/explain", INFER, get(insight::explain)),
        ("/v1/stats", INFER, get(insight::server)),
        ("/v1/live", METRICS, get(live::watch)),
        ("/v1/models", INFER, get(openai::list)),
        ("/v1/models/{model}", INFER, get(openai::one)),
        ("/v1/audio/transcriptions", STREAM, post(openai::transcribe)),
        ("/v1/realtime", STREAM, get(openai::realtime)),
        ("/v1/listen", STREAM, get(deepgram::live).post(deepgram::whole)),
        ("/v1/cameras", ADMIN, get(cameras::list).put(cameras::reconcile)),
        ("/v1/cameras/{camera}", ADMIN, get(cameras::one).put(cameras::add).delete(cameras::remove)),
        ("/v1/cameras/{camera}/pause", ADMIN, post(cameras::pause)),
        ("/v1/cameras/{camera}/resume", ADMIN, post(cameras::resume)),
        ("/v1/cameras/{camera}/frames", STREAM, post(cameras::push)),
        ("/v1/cameras/{camera}/stream", STREAM, get(ws::frames)),
        ("/v1/dead-letters", ADMIN, get(cameras::dead_letters)),
        ("/v1/dead-letters/replay", ADMIN, post(cameras::replay)),
        ("/api/v1/simple", STREAM, get(native::simple)),
        ("/api/v1/segmented", STREAM, get(native::segmented)),
        ("/api/v1/health", ALL, get(native::health)),
        ("/v1/audio/speech", INFER, post(speak::openai::speech)),
        ("/v1/speak", INFER, get(speak::deepgram::converse).post(speak::deepgram::speak)),
        ("/tts", INFER, get(speak::seed::get).post(speak::seed::form)),
        ("/audio/speech", INFER, post(speak::seed::speech)),
        ("/v1/voices", INFER, get(speak::voices::list).post(speak::voices::register)),
        ("/v1/voices/{voice}", INFER, delete(speak::voices::delete)),
        ("/voice-clones", INFER, get(speak::voices::list).post(speak::voices::register)),
        ("/voice-clones/{voice}", INFER, delete(speak::voices::delete)),
        ("/metrics", METRICS, get(metrics::metrics)),
        ("/openapi.json", ALL, get(openapi::json)),
        ("/docs", ALL, get(openapi::page)),
    ]
}

/// The path of every route and what it needs.
pub fn needs() -> impl Iterator<Item = (&'static str, Needs)> {
    routes().into_iter().map(|(path, needs, _)| (path, needs))
}

/// Every route, behind `gate`, with a straight way for inference.
#[must_use]
pub fn entrance(app: App, gate: Gate) -> Entrance {
    let gate = Arc::new(gate);
    Entrance::new(router(app.clone(), Arc::clone(&gate)), app, gate)
}

/// A router of another listener: errors in the same shape, behind the same guard.
pub(crate) fn marked<S: Clone + Send + Sync + 'static>(
    router: Router<S>,
    guard: Guard,
) -> Router<S> {
    router
        .fallback(error::no_such_path)
        .method_not_allowed_fallback(error::wrong_method)
        .layer((axum::middleware::from_fn(request_id::layer), guard))
}

/// Every route, behind `gate`. Built apart from the listener, so that tests need no port.
pub fn router(app: App, gate: Arc<Gate>) -> Router {
    let guard = Guard::new(Arc::clone(&gate), Wire::Http, needs());
    routes()
        .into_iter()
        .fold(Router::new(), |router, (path, _, answer)| router.route(path, answer))
        .fallback(error::no_such_path)
        .method_not_allowed_fallback(error::wrong_method)
        .layer(RequestDecompressionLayer::new())
        .layer(CompressionLayer::new())
        // ORDER: refusals carry the request's id, and pages may read them.
        .layer((CorsLayer(gate), axum::middleware::from_fn(request_id::layer), guard))
        .with_state(app)
}
