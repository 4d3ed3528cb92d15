//! Deepgram's speech API: `/v1/listen`, over a WebSocket for streams and over POST for files.

mod file;
mod live;
mod message;
mod query;

use axum::{
    Json,
    body::Body,
    extract::State,
    http::{
        HeaderMap, HeaderValue, Uri,
        header::{CONTENT_TYPE, RETRY_AFTER},
    },
    response::{IntoResponse as _, Response},
};
#[cfg(any(test, feature = "fuzz"))]
use paceline_pipeline::speech::Bounds;
use paceline_types::ErrorCode;
use serde_json::json;

use self::{live::Live, query::Query};
use super::{conversation::Conversation, fields, name};
use crate::{
    ApiError, App,
    access::SUBPROTOCOLS,
    ws::{Streams, Upgrade},
};

/// How long a client may send nothing: as long as the original lets it.
const IDLE: std::time::Duration = std::time::Duration::from_secs(10);

/// `GET /v1/listen`
pub(crate) async fn live(
    State(app): State<App>,
    uri: Uri,
    upgrade: Result<Upgrade, ApiError>,
) -> Response {
    let request_id = name::fresh();
    answer(&request_id, open(app.streams, &uri, upgrade, &request_id))
}

fn open(
    mut streams: Streams,
    uri: &Uri,
    upgrade: Result<Upgrade, ApiError>,
    request_id: &str,
) -> Result<Response, ApiError> {
    let upgrade = upgrade?;
    let (query, ignored) = Query::of(uri, &streams.speech)?;
    streams.limits.idle_timeout = IDLE;
    let live = Live::new(query, request_id);
    // Browsers cannot send a header, so their token is a subprotocol, of which one is taken.
    let upgrade = upgrade.protocols(SUBPROTOCOLS);
    let mut response = streams
        .clone()
        .open(upgrade, move |socket| Conversation::new(socket, streams, live).run())?;
    if let Some(names) = fields::header(&ignored) {
        response.headers_mut().insert(fields::IGNORED, names);
    }
    Ok(response)
}

/// `POST /v1/listen`
pub(crate) async fn whole(
    State(app): State<App>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let request_id = name::fresh();
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let heard = if kind.starts_with("application/json") {
        let message = "this server fetches nothing from elsewhere: send the audio itself as the \
                       body, and not its URL";
        Err(ApiError::new(ErrorCode::InvalidInput, message))
    } else {
        file::hear(&app.streams, &uri, body, &request_id).await
    };
    answer(&request_id, heard)
}

/// The response, or an error in Deepgram's form.
fn answer(request_id: &str, answer: Result<Response, ApiError>) -> Response {
    let mut response = answer.unwrap_or_else(|error| refusal(&error, request_id));
    if let Ok(id) = HeaderValue::from_str(request_id) {
        response.headers_mut().insert("dg-request-id", id);
    }
    response
}

fn refusal(error: &ApiError, request_id: &str) -> Response {
    let body = json!({
        "err_code": error.code.as_str(),
        "err_msg": error.message,
        "request_id": request_id,
    });
    let mut response = (error.status, Json(body)).into_response();
    let plain: String =
        error.message.chars().filter(|letter| matches!(letter, ' '..='~')).collect();
    if let Ok(message) = HeaderValue::from_str(&plain) {
        response.headers_mut().insert("dg-error", message);
    }
    if error.code == ErrorCode::Overloaded {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// A way in for fuzz targets: a stream that was asked for in this way.
#[cfg(any(test, feature = "fuzz"))]
pub(super) fn fuzz(
    uri: &Uri,
    choose: impl FnOnce(Option<&str>) -> Result<name::Chosen, ApiError>,
) -> Result<Live, ApiError> {
    let (query, ignored) = Query::read(uri, &Bounds::default(), choose)?;
    drop(fields::header(&ignored));
    drop(query.terms());
    Ok(Live::new(query, "id"))
}

#[cfg(test)]
pub(super) mod tests {
    //! A stream of raw samples with everything that can be told.

    use paceline_pipeline::speech::{Encoding, Source};
    use std::time::Duration;

    use super::{Live, Query, name::Chosen};

    pub(in crate::speech) fn live() -> Live {
        let query = Query {
            model: Chosen { name: "m".to_owned(), version: "1".to_owned(), is_named: true },
            source: Source::raw(Encoding::S16le, 16_000, 1),
            multichannel: false,
            interim_results: true,
            endpointing: Some(Duration::from_millis(600)),
            utterance_end: Some(Duration::from_secs(1)),
            vad_events: true,
            utterances: false,
        };
        Live::new(query, "id")
    }
}
