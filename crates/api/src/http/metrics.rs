//! `GET /metrics`: the text format of Prometheus.

use axum::{
    extract::State,
    http::header::CONTENT_TYPE,
    response::{IntoResponse, Response},
};
use paceline_types::ErrorCode;

use super::{ApiError, App};

pub(super) async fn metrics(State(app): State<App>) -> Result<Response, ApiError> {
    let Some(metrics) = &app.metrics else {
        return Err(ApiError::new(ErrorCode::Unsupported, "this server exports no metrics"));
    };
    let page = metrics.expose().await;
    Ok(([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], page).into_response())
}
