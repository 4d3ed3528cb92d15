//! The way of the sound: a session's chunks, encoded, as a body that is sent as it is made.

use axum::{
    body::{Body, Bytes},
    http::{
        HeaderName, HeaderValue,
        header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS},
    },
    response::{IntoResponse as _, Response},
};
use futures_util::stream;
use paceline_pipeline::synthesis::{
    Container, Encoder, Request, Session, Synthesis, SynthesisError,
};

use super::content_type;
use crate::ApiError;

/// Sound on its way to one client. Dropping it withdraws what is not made yet.
pub(super) struct Speech {
    session: Session,
    encoder: Encoder,
    /// Gone once it was sent.
    first: Option<Vec<u8>>,
    is_done: bool,
}

impl Speech {
    /// Begins to speak. There is sound, or a proper error, when this returns.
    pub(super) async fn begin(
        synthesis: &Synthesis,
        request: &Request,
        container: Container,
        rate: Option<u32>,
    ) -> Result<Self, ApiError> {
        let mut session = synthesis.open(request)?;
        let encoder = Encoder::new(container, session.sample_rate(), rate);
        let mut encoder = encoder.map_err(|error| super::invalid(error.to_string()))?;
        let first = session.next().await.transpose()?;
        let is_done = first.is_none();
        let mut bytes = first.map(|sound| encoder.push(&sound.samples)).unwrap_or_default();
        if is_done {
            bytes.extend(encoder.finish());
        }
        Ok(Self { session, encoder, first: Some(bytes), is_done })
    }

    /// Samples in a second of what is sent.
    pub(super) const fn rate(&self) -> u32 {
        self.encoder.rate()
    }

    /// The next bytes; `None` after the last.
    pub(super) async fn next(&mut self) -> Option<Result<Vec<u8>, SynthesisError>> {
        if let Some(first) = self.first.take() {
            return Some(Ok(first));
        }
        while !self.is_done {
            let bytes = match self.session.next().await {
                Some(Ok(sound)) => self.encoder.push(&sound.samples),
                Some(Err(error)) => {
                    self.is_done = true;
                    return Some(Err(error));
                }
                None => {
                    self.is_done = true;
                    self.encoder.finish()
                }
            };
            // An encoder may hold everything back.
            if !bytes.is_empty() {
                return Some(Ok(bytes));
            }
        }
        None
    }
}

/// A body that is sent as it is made. One that cannot go on breaks off, so that nobody takes it
/// for whole.
pub(super) fn respond(speech: Speech, container: Container) -> Response {
    let kind = content_type(container, speech.rate());
    respond_as(&kind, speech, Bytes::from, None)
}

/// As [`respond`], with each part of the sound written in some way, and a last word.
pub(super) fn respond_as(
    kind: &str,
    speech: Speech,
    write: impl Fn(Vec<u8>) -> Bytes + Send + 'static,
    last: Option<Bytes>,
) -> Response {
    let parts = stream::unfold((speech, write, last), |(mut speech, write, mut last)| async move {
        let part = match speech.next().await {
            Some(Ok(bytes)) => Ok(write(bytes)),
            Some(Err(error)) => {
                tracing::warn!(%error, "speech broke off");
                last = None;
                Err(std::io::Error::other(error.to_string()))
            }
            None => Ok(last.take()?),
        };
        Some((part, (speech, write, last)))
    });
    let mut response = Body::from_stream(parts).into_response();
    let headers = response.headers_mut();
    if let Ok(kind) = HeaderValue::from_str(kind) {
        headers.insert(CONTENT_TYPE, kind);
    }
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Who packs or collects it keeps it from the ear.
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("identity"));
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
