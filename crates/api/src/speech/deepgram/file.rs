//! `POST /v1/listen`: a whole file.

use axum::{
    Json,
    body::Body,
    http::Uri,
    response::{IntoResponse as _, Response},
};
use futures_util::StreamExt as _;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use std::{collections::BTreeSet, sync::Arc};

use super::{
    message::{About, Alternatives, Utterance, spoken},
    query::Query,
};
use crate::{
    ApiError,
    speech::{
        fields,
        heard::{Final, join, round},
        name,
        recital::{self, Line, Summary, pieces},
    },
    ws::Streams,
};

/// Hears the file in `body`.
pub(super) async fn hear(
    streams: &Streams,
    uri: &Uri,
    body: Body,
    request_id: &str,
) -> Result<Response, ApiError> {
    let (query, ignored) = Query::of(uri, &streams.speech)?;
    let created = name::now();
    let digest = Arc::new(Mutex::new(Sha256::new()));
    let read = Arc::clone(&digest);
    let source = pieces(body).inspect(move |piece| {
        if let Ok(piece) = piece {
            read.lock().update(piece);
        }
    });
    let mut recital = recital::begin(streams, query.terms()?, source)?;
    let mut said = Vec::new();
    let summary = loop {
        match recital.next().await {
            Some(Ok(Line::Said(utterance))) => said.push(utterance),
            Some(Ok(Line::End(summary))) => break summary,
            Some(Err(error)) => return Err(error),
            None => break Summary::default(),
        }
    };
    let about = About::new(&query.model, request_id);
    let sha256 = name::hex(&digest.lock().clone().finalize());
    let metadata = metadata(&about, &created, &sha256, &summary, &ignored);
    let body = json!({ "metadata": metadata, "results": results(&query, &said, &summary) });
    let mut response = Json(body).into_response();
    if let Some(names) = fields::header(&ignored) {
        response.headers_mut().insert(fields::IGNORED, names);
    }
    Ok(response)
}

fn metadata(
    about: &About,
    created: &str,
    sha256: &str,
    summary: &Summary,
    ignored: &BTreeSet<String>,
) -> Value {
    let info = Map::from_iter([(about.model_uuid.clone(), json!(about.model_info))]);
    let mut metadata = json!({
        "transaction_key": "deprecated",
        "request_id": about.request_id,
        "sha256": sha256,
        "created": created,
        "duration": round(summary.duration),
        "channels": summary.n_channels,
        "models": [about.model_uuid],
        "model_info": info,
    });
    if !ignored.is_empty() {
        let warnings: Vec<Value> = ignored.iter().take(32).map(|name| {
            json!({ "parameter": name, "type": "unsupported_parameter", "message": "it has no effect here" })
        }).collect();
        metadata["warnings"] = json!(warnings);
    }
    metadata
}

/// What was said, by channel.
fn results(query: &Query, said: &[Final], summary: &Summary) -> Value {
    let n_channels = if query.multichannel { summary.n_channels } else { 1 };
    let channels: Vec<Value> = (0..n_channels)
        .map(|channel| {
            let own = || said.iter().filter(move |said| said.channel == channel);
            let transcript = join(own().map(|said| &*said.text));
            let words = own().flat_map(|said| spoken(&said.text, &said.span)).collect();
            json!(Alternatives::of(&transcript, words))
        })
        .collect();
    let mut results = json!({ "channels": channels });
    if query.utterances {
        let each = said.iter().map(|said| Utterance::new(said.channel, &said.span, &said.text));
        results["utterances"] = json!(each.collect::<Vec<_>>());
    }
    results
}
