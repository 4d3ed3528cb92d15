//! `POST /v2/models/{model}/infer`: JSON tensors, binary tensors, or both.

use axum::{
    body::{Body, Bytes},
    extract::{Path, State},
    http::{HeaderMap, HeaderName, HeaderValue, header::CONTENT_TYPE, request::Parts},
    response::Response,
};

use super::{ApiError, App, Whole, metadata::ModelPath, pieces};
use crate::{
    client::Client,
    oip::{
        OipError,
        ask::{ask, respond},
        decode_http, encode_http,
    },
    trace,
};

/// How many bytes of the body are JSON; what follows are raw tensors.
static JSON_LENGTH: HeaderName = HeaderName::from_static("inference-header-content-length");

pub(super) async fn infer(
    State(app): State<App>,
    Path(path): Path<ModelPath>,
    head: Parts,
    Whole(body): Whole,
) -> Result<Response, ApiError> {
    let client = Client::of(&head.extensions);
    answer(&app, path, &head.headers, client, body).await
}

/// The same, however the request came here.
pub(super) async fn answer(
    app: &App,
    path: ModelPath,
    headers: &HeaderMap,
    client: Option<Client>,
    body: Result<Bytes, ApiError>,
) -> Result<Response, ApiError> {
    let model = path.find(&app.models)?;
    let header = headers.get(&JSON_LENGTH).map(HeaderValue::as_bytes);
    let version = path.version()?;
    let about = |error| ApiError::about(&model, &error);
    let says_json = |kind: &HeaderValue| kind.as_bytes().starts_with(b"application/json");
    if header == Some(b"0") && headers.get(CONTENT_TYPE).is_some_and(says_json) {
        return Err(about(OipError::RawJson));
    }
    let mut request =
        decode_http(path.model, version, header, &body?, model.signature()).map_err(about)?;
    let wanted = std::mem::take(&mut request.outputs);
    let is_binary = request.params.binary_data_output;
    request.outputs.clone_from(&wanted);
    let (mut question, pending) = ask(request, &model).map_err(about)?;
    question.trace = trace::of(headers);
    question.client = client.map(Client::number);
    let (outputs, ride) = model.infer(question).await?;
    let encoded = encode_http(&respond(&model, pending, outputs, Some(&ride)), &wanted, is_binary)?;
    let mut response = Response::new(Body::empty());
    let content_type =
        if encoded.header.is_some() { "application/octet-stream" } else { "application/json" };
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    if let Some(length) = encoded.header {
        response.headers_mut().insert(JSON_LENGTH.clone(), HeaderValue::from(length));
    }
    *response.body_mut() = pieces::body(encoded);
    Ok(response)
}
