//! `POST /v1/audio/transcriptions`: a file in a form, its transcript in one of several forms, or
//! piece by piece as server-sent events.

use std::convert::Infallible;

use axum::{
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, header::CONTENT_TYPE},
    response::{
        IntoResponse as _, Response,
        sse::{Event, Sse},
    },
};
use futures_util::{Stream, stream};
use paceline_batch::Key;
use paceline_pipeline::speech::{Encoding, Source, Terms};
use serde_json::{Value, json};

use super::{
    fault,
    form::{self, Form},
    format::{Format, Transcript},
    refusal,
};
use crate::{
    ApiError, App,
    speech::{
        fields::{self, wrong},
        heard::join,
        name,
        recital::{self, Line, Recital, Summary},
    },
};

/// `POST /v1/audio/transcriptions`
pub(crate) async fn transcribe(State(app): State<App>, headers: HeaderMap, body: Body) -> Response {
    answer(&app, &headers, body).await.unwrap_or_else(|error| refusal(&error))
}

async fn answer(app: &App, headers: &HeaderMap, body: Body) -> Result<Response, ApiError> {
    let Form { mut fields, file } = form::read(headers, body, app.bodies.max).await?;
    let model = name::model(&app.streams.speech, fields.text("model").as_deref())?;
    let format = Format::named(fields.text("response_format").as_deref()).map_err(wrong)?;
    let is_streamed = fields.flag("stream")?;
    let granularities = fields.all("timestamp_granularities");
    if !granularities.is_empty() && format != Format::VerboseJson {
        return Err(wrong("timestamp_granularities needs response_format=verbose_json"));
    }
    // Files are always cut where nobody speaks.
    fields.text("chunking_strategy");
    if let Some(language) = fields.text("language")
        && !matches!(&*language, "en" | "english" | "")
    {
        fields.add("language".to_owned(), language)?;
    }
    let mut ignored = fields.ignored();
    if !model.is_named {
        ignored.insert("model".to_owned());
    }
    let terms = Terms {
        source: Source::container(Encoding::Auto),
        model: Some(model.name),
        params: Key::ANY,
        style: recital::style(),
        mix: true,
        trace: None,
    };
    let pieces = stream::iter(file.into_iter().map(Ok));
    let recital = recital::begin(&app.streams, terms, pieces)?;
    let mut response = if is_streamed {
        Sse::new(events(recital)).into_response()
    } else {
        let has_words = granularities.iter().any(|each| each == "word");
        let transcript = whole(recital, has_words).await?;
        ([(CONTENT_TYPE, format.content_type())], transcript.write(format)).into_response()
    };
    if let Some(names) = fields::header(&ignored) {
        response.headers_mut().insert(fields::IGNORED, names);
    }
    Ok(response)
}

async fn whole<S>(mut recital: Recital<S>, has_words: bool) -> Result<Transcript, ApiError>
where
    S: Stream<Item = Result<Bytes, ApiError>> + Unpin,
{
    let (mut said, mut summary) = (Vec::new(), Summary::default());
    while let Some(line) = recital.next().await {
        match line? {
            Line::Said(utterance) => said.push(utterance),
            Line::End(end) => summary = end,
        }
    }
    Ok(Transcript { said, summary, has_words })
}

/// One event for each utterance, and one with all of them.
fn events<S>(recital: Recital<S>) -> impl Stream<Item = Result<Event, Infallible>>
where
    S: Stream<Item = Result<Bytes, ApiError>> + Unpin,
{
    stream::unfold((recital, String::new()), |(mut recital, mut text)| async move {
        let message = match recital.next().await? {
            Ok(Line::Said(said)) => {
                let all = join([&*text, &*said.text]);
                let delta = all.strip_prefix(&*text).unwrap_or_default().to_owned();
                text = all;
                json!({ "type": "transcript.text.delta", "delta": delta })
            }
            Ok(Line::End(_)) => json!({ "type": "transcript.text.done", "text": text }),
            Err(error) => json!({ "type": "error", "error": fault(&error) }),
        };
        Some((Ok(event(&message)), (recital, text)))
    })
}

fn event(message: &Value) -> Event {
    Event::default().data(message.to_string())
}
