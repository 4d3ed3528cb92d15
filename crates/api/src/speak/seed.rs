//! `/tts` and `/audio/speech`: short ways for people and scripts.

use std::collections::BTreeMap;

use axum::{
    extract::{Query, State, rejection::QueryRejection},
    http::{HeaderValue, Uri, header::CONTENT_TYPE},
    response::Response,
};
use paceline_pipeline::synthesis::{Container, Request};
use serde::Deserialize;

use super::{
    bad_json,
    body::{Speech, respond},
    invalid,
};
use crate::{ApiError, App, http::Whole};

/// What either way takes. `text` and `input` are the same.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Ask {
    #[serde(alias = "input")]
    text: String,
    voice: Option<String>,
    model: Option<String>,
    language_id: Option<String>,
    format: Option<String>,
    speed: Option<f32>,
    exaggeration: Option<f32>,
    temperature: Option<f32>,
    diffusion_steps: Option<f32>,
}

impl Ask {
    fn request(self) -> Request {
        let wishes = [
            ("speed", self.speed),
            ("exaggeration", self.exaggeration),
            ("temperature", self.temperature),
            ("diffusion_steps", self.diffusion_steps),
        ];
        let parameters: BTreeMap<String, f32> = wishes
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value?)))
            .collect();
        Request {
            text: self.text,
            model: self.model,
            voice: self.voice,
            language: self.language_id,
            parameters,
        }
    }
}

/// `GET /tts`
pub(crate) async fn get(
    State(app): State<App>,
    ask: Result<Query<Ask>, QueryRejection>,
) -> Result<Response, ApiError> {
    let Query(ask) = ask.map_err(|error| invalid(error.body_text()))?;
    tts(&app, ask).await
}

/// `POST /tts`, a form.
pub(crate) async fn form(State(app): State<App>, Whole(body): Whole) -> Result<Response, ApiError> {
    let body = body?;
    let text = std::str::from_utf8(&body).map_err(|_| invalid("the form is not UTF-8"))?;
    // A form is written as the part of an address behind its question mark.
    let address: Uri =
        format!("/?{}", text.trim()).parse().map_err(|_| invalid("that is no form"))?;
    let Query(ask) =
        Query::<Ask>::try_from_uri(&address).map_err(|error| invalid(error.body_text()))?;
    tts(&app, ask).await
}

async fn tts(app: &App, ask: Ask) -> Result<Response, ApiError> {
    let container = match ask.format.as_deref() {
        None | Some("wav") => Container::Wav,
        Some("pcm") => Container::Pcm,
        Some(_) => return Err(invalid("format is wav or pcm")),
    };
    let speech = Speech::begin(&app.streams.synthesis, &ask.request(), container, None).await?;
    Ok(respond(speech, container))
}

/// `POST /audio/speech`: bare samples at the model's own rate.
pub(crate) async fn speech(
    State(app): State<App>,
    Whole(body): Whole,
) -> Result<Response, ApiError> {
    let ask: Ask = serde_json::from_slice(&body?).map_err(|error| bad_json(&error))?;
    let speech =
        Speech::begin(&app.streams.synthesis, &ask.request(), Container::Pcm, None).await?;
    let mut response = respond(speech, Container::Pcm);
    let kind = HeaderValue::from_static("application/octet-stream");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    Ok(response)
}
