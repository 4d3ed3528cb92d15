//! `/v1/speak`, as Deepgram's clients ask: one text by POST, or a conversation by WebSocket.

use axum::{
    Json,
    extract::{Query, State, rejection::QueryRejection},
    http::{HeaderName, HeaderValue},
    response::{IntoResponse as _, Response},
};
use paceline_pipeline::synthesis::{Container, Request, Synthesis};
use paceline_types::ErrorCode;
use serde::Deserialize;
use serde_json::json;

use super::{
    bad_json,
    body::{Speech, respond},
    deepgram_ws::Conversation,
    invalid,
};
use crate::{
    ApiError, App,
    http::Whole,
    ws::{SocketLimits, Upgrade},
};

/// What stands in the address.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Wishes {
    model: Option<String>,
    encoding: Option<String>,
    container: Option<String>,
    sample_rate: Option<u32>,
    speed: Option<f32>,
}

#[derive(Debug, Deserialize)]
struct Body {
    text: String,
}

/// How the sound is sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Form {
    pub(super) container: Container,
    pub(super) rate: Option<u32>,
}

impl Wishes {
    /// How the sound of a POST is sent. Their default is MP3, which is not made here; a client that
    /// does not say gets samples in a WAV.
    pub(super) fn form(&self) -> Result<Form, ApiError> {
        let encoding = self.encoding.as_deref().unwrap_or("linear16");
        let container = match (encoding, self.container.as_deref()) {
            ("linear16", None | Some("wav")) => Container::Wav,
            ("linear16", Some("none")) => Container::Pcm,
            ("mulaw", None | Some("none")) => Container::Mulaw,
            ("alaw", None | Some("none")) => Container::Alaw,
            ("flac", None) => Container::Flac,
            ("opus", None | Some("ogg")) => Container::Ogg,
            _ => {
                return Err(invalid(
                    "that encoding and container are not sent; linear16 in wav or none, mulaw and \
                     alaw in none, flac, and opus in ogg are",
                ));
            }
        };
        Ok(Form { container, rate: self.sample_rate })
    }

    /// How the sound of a WebSocket is sent: bare samples.
    pub(super) fn raw_form(&self) -> Result<Form, ApiError> {
        let container = match self.encoding.as_deref() {
            None | Some("linear16") => Container::Pcm,
            Some("mulaw") => Container::Mulaw,
            Some("alaw") => Container::Alaw,
            Some(_) => return Err(invalid("encoding is linear16, mulaw or alaw")),
        };
        Ok(Form { container, rate: Some(self.sample_rate.unwrap_or(24_000)) })
    }

    /// What they call a model is a voice here, or a speaking model.
    pub(super) fn request(&self, synthesis: &Synthesis, text: String) -> Request {
        let names_model = self.model.as_deref().filter(|name| synthesis.pair(Some(name)).is_ok());
        let model = names_model.map(str::to_owned);
        let voice = if model.is_none() { self.model.clone() } else { None };
        let parameters = self.speed.map(|speed| ("speed".to_owned(), speed));
        Request { text, model, voice, language: None, parameters: parameters.into_iter().collect() }
    }

    /// As they name it back.
    pub(super) fn model_name(&self) -> &str {
        self.model.as_deref().unwrap_or("default")
    }
}

/// The text of a body.
pub(super) fn read(body: &[u8]) -> Result<String, ApiError> {
    let body: Body = serde_json::from_slice(body).map_err(|error| bad_json(&error))?;
    Ok(body.text)
}

/// `POST /v1/speak`
pub(crate) async fn speak(
    State(app): State<App>,
    wishes: Result<Query<Wishes>, QueryRejection>,
    Whole(body): Whole,
) -> Response {
    let spoken = async {
        let Query(wishes) = wishes.map_err(|error| invalid(error.body_text()))?;
        let text = read(&body?)?;
        let form = wishes.form()?;
        let request = wishes.request(&app.streams.synthesis, text);
        let speech =
            Speech::begin(&app.streams.synthesis, &request, form.container, form.rate).await?;
        Ok::<_, ApiError>(respond(speech, form.container))
    };
    let mut response = spoken.await.unwrap_or_else(|error| refuse(&error));
    let id = HeaderValue::from_str(&new_id()).unwrap_or(HeaderValue::from_static("0"));
    response.headers_mut().insert(HeaderName::from_static("dg-request-id"), id);
    response
}

/// `GET /v1/speak`
pub(crate) async fn converse(
    State(app): State<App>,
    wishes: Result<Query<Wishes>, QueryRejection>,
    upgrade: Result<Upgrade, ApiError>,
) -> Result<Response, ApiError> {
    let upgrade = upgrade?;
    let Query(wishes) = wishes.map_err(|error| invalid(error.body_text()))?;
    let form = wishes.raw_form()?;
    let streams = app.streams;
    if streams.stop.is_cancelled() {
        return Err(ApiError::new(ErrorCode::Unavailable, "the server is shutting down"));
    }
    let probe = wishes.request(&streams.synthesis, String::new());
    streams.synthesis.check(&probe)?;
    // Sound comes in pieces of any length.
    let limits = SocketLimits { max_write_buffer: usize::MAX, ..streams.limits };
    Ok(upgrade.open(&limits, &streams.open.clone(), move |socket| async move {
        Conversation::new(streams, wishes, form, new_id()).run(socket).await;
    }))
}

/// An error in the form that Deepgram's clients read.
fn refuse(error: &ApiError) -> Response {
    let body = json!({
        "err_code": error.code.as_str().to_ascii_uppercase(),
        "err_msg": error.message,
        "request_id": "",
    });
    (error.status, Json(body)).into_response()
}

/// A number for a request, in the form of a UUID: clients parse it.
fn new_id() -> String {
    let [high, low] = [0, 1].map(|at: u8| {
        use std::hash::BuildHasher as _;
        std::collections::hash_map::RandomState::new().hash_one(at)
    });
    format!(
        "{:08x}-{:04x}-4{:03x}-a{:03x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xfff,
        low >> 48 & 0xfff,
        low & 0xffff_ffff_ffff
    )
}
