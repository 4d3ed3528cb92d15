//! `OpenAI`'s speech API: transcriptions of files, realtime transcription sessions, and the list of
//! models that its clients ask for.

mod form;
mod format;
mod item;
mod models;
mod realtime;
mod settings;
mod transcriptions;

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, Uri, header::RETRY_AFTER},
    response::{IntoResponse as _, Response},
};
use paceline_types::ErrorCode;
use serde_json::{Value, json};

use self::realtime::Realtime;
pub(crate) use self::{
    models::{list, one},
    transcriptions::transcribe,
};
use super::{
    conversation::Conversation,
    fields::{self, Fields, wrong},
    name,
};
use crate::{
    ApiError, App,
    ws::{Streams, Upgrade},
};

/// `GET /v1/realtime`
pub(crate) async fn realtime(
    State(app): State<App>,
    uri: Uri,
    headers: HeaderMap,
    upgrade: Result<Upgrade, ApiError>,
) -> Response {
    open(app.streams, &uri, &headers, upgrade).unwrap_or_else(|error| refusal(&error))
}

fn open(
    streams: Streams,
    uri: &Uri,
    headers: &HeaderMap,
    upgrade: Result<Upgrade, ApiError>,
) -> Result<Response, ApiError> {
    let upgrade = upgrade?;
    let mut query = Fields::of_query(uri)?;
    match query.text("intent").as_deref() {
        None | Some("transcription") => {}
        Some(_) => return Err(wrong("intent is transcription here: this server only listens")),
    }
    let model = query.text("model");
    name::model(&streams.speech, model.as_deref())?;
    let is_beta = headers.get("openai-beta").is_some_and(|beta| beta == "realtime=v1");
    let speech = streams.speech.clone();
    let choose = move |named: Option<&str>| name::model(&speech, named).map(|model| model.name);
    let dialect = Realtime::new(Box::new(choose), model, is_beta);
    // Browsers cannot send a header, so their token is a subprotocol beside this one.
    let upgrade = upgrade.protocols(["realtime"]);
    let mut response = streams
        .clone()
        .open(upgrade, move |socket| Conversation::new(socket, streams, dialect).run())?;
    if let Some(names) = fields::header(&query.ignored()) {
        response.headers_mut().insert(fields::IGNORED, names);
    }
    Ok(response)
}

/// An error in `OpenAI`'s form.
fn refusal(error: &ApiError) -> Response {
    let mut response = (error.status, Json(json!({ "error": fault(error) }))).into_response();
    if error.code == ErrorCode::Overloaded {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// What `error` holds.
fn fault(error: &ApiError) -> Value {
    let kind = match error.status {
        StatusCode::SERVICE_UNAVAILABLE => "overloaded_error",
        status if status.is_server_error() => "server_error",
        _ => "invalid_request_error",
    };
    json!({ "message": error.message, "type": kind, "param": null, "code": error.code.as_str() })
}

/// A way in for fuzz targets: a session of any model.
#[cfg(any(test, feature = "fuzz"))]
pub(super) fn fuzz_realtime() -> Realtime {
    Realtime::new(Box::new(|_| Ok("m".to_owned())), None, false)
}

/// A way in for fuzz targets: reads a form.
#[cfg(any(test, feature = "fuzz"))]
pub(super) async fn fuzz_form(
    headers: &HeaderMap,
    body: axum::body::Body,
    max: usize,
) -> Result<(), ApiError> {
    let mut form = form::read(headers, body, max).await?;
    form.fields.flag("stream")?;
    drop(fields::header(&form.fields.ignored()));
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use super::Realtime;

    pub(in crate::speech) fn realtime() -> Realtime {
        Realtime::new(Box::new(|_: Option<&str>| Ok("m".to_owned())), None, false)
    }
}
