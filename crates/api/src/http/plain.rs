//! `POST /v1/models/{model}/infer`: ordinary JSON in, ordinary JSON out, batched all the same.
//!
//! The body is one instance or a list of them. An instance is an object with a value for each
//! input; for a model with one input, the bare value will do. A model with an adapter takes its
//! own kind of body (a file, a picture) as it is. A model that streams answers one instance with
//! server-sent events: its results as they come, and then `end` or `error`.

use std::{convert::Infallible, sync::Arc};

use axum::{
    Json,
    body::Bytes,
    extract::{Path, Query, State},
    http::request::Parts,
    response::{
        IntoResponse as _, Response,
        sse::{Event, Sse},
    },
};
use futures_util::{Stream, stream};
use paceline_pipeline::{
    Ask, InferError, Model, Ride,
    adapt::{Adapter, Encoded},
};
use paceline_types::{ErrorCode, Tensor};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use smallvec::SmallVec;

use super::{
    ApiError, App, Whole,
    metadata::ModelPath,
    value::{from_tensor, to_tensor},
};
use crate::{client::Client, trace};

/// Most instances in one request.
const MAX_INSTANCES: usize = 4096;

/// What may stand behind the question mark.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Options {
    /// `off`: each instance shares its call with nobody, and those of a list go one after the other.
    batch: Option<Switch>,
    /// `on`: each answer says how it travelled.
    ride: Option<Switch>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Switch {
    On,
    Off,
}

pub(super) async fn infer(
    State(app): State<App>,
    Path(path): Path<ModelPath>,
    head: Parts,
    Whole(body): Whole,
) -> Result<Response, ApiError> {
    let client = Client::of(&head.extensions);
    answer(&app, &path, &head, client, body).await
}

/// The same, however the request came here.
pub(super) async fn answer(
    app: &App,
    path: &ModelPath,
    head: &Parts,
    client: Option<Client>,
    body: Result<Bytes, ApiError>,
) -> Result<Response, ApiError> {
    let Query(options) = Query::<Options>::try_from_uri(&head.uri).map_err(|rejection| {
        ApiError::new(
            ErrorCode::InvalidInput,
            format!("{}; batch=off and ride=on are known", rejection.body_text()),
        )
    })?;
    let model = path.find(&app.models)?;
    let body = body?;
    let wants_ride = options.ride == Some(Switch::On);
    let alone = options.batch == Some(Switch::Off);
    let client = client.map(Client::number);
    let asked = Ask { alone, client, trace: trace::of(&head.headers), ..Ask::default() };
    if let Some(adapter) = model.adapter() {
        // Boxed, as what follows is: most requests need neither, and each would have room for both.
        return Box::pin(adapted(&model, adapter, &body, (asked, wants_ride))).await;
    }
    let body: Value = serde_json::from_slice(&body).map_err(|error| {
        ApiError::new(ErrorCode::InvalidInput, format!("the body is not JSON: {error}"))
    })?;
    if model.facts().streams {
        let inputs = inputs_of(&model, &body)?;
        return Ok(events(&model, Ask { inputs, ..asked }).into_response());
    }
    let Value::Array(instances) = body else {
        let inputs = inputs_of(&model, &body)?;
        drop(body);
        let answer = model.infer(Ask { inputs, ..asked }).await?;
        return Ok(Json(said(&model, &answer, wants_ride)?).into_response());
    };
    Box::pin(many(&model, &instances, &asked, wants_ride)).await
}

/// A body of the model's own kind.
async fn adapted(
    model: &Model,
    adapter: &dyn Adapter,
    body: &Bytes,
    (asked, wants_ride): (Ask, bool),
) -> Result<Response, ApiError> {
    let answer = match adapter.encode(body).map_err(InferError::from)? {
        Encoded::Answer(answer) => answer,
        Encoded::Ask { inputs, decode } => {
            let ask = Ask { inputs: inputs.into(), ..asked };
            let (outputs, ride) = model.infer(ask).await?;
            with_ride(decode(&outputs).map_err(InferError::from)?, &ride, wants_ride)
        }
    };
    Ok(Json(answer).into_response())
}

/// A list of instances.
async fn many(
    model: &Model,
    instances: &[Value],
    asked: &Ask,
    wants_ride: bool,
) -> Result<Response, ApiError> {
    if MAX_INSTANCES < instances.len() {
        let message = format!(
            "{} instances in one request; at most {MAX_INSTANCES} are taken",
            instances.len()
        );
        return Err(ApiError::new(ErrorCode::InvalidInput, message));
    }
    let answers = instances.iter().map(|instance| {
        // All are submitted before the first is waited for.
        let inputs = inputs_of(model, instance);
        let answer = inputs.map(|inputs| model.infer(Ask { inputs, ..asked.clone() }));
        async move { said(model, &answer?.await?, wants_ride) }
    });
    let mut results = Vec::with_capacity(instances.len());
    if asked.alone {
        for answer in answers {
            results.push(in_list(answer.await));
        }
    } else {
        results.extend(futures_util::future::join_all(answers).await.into_iter().map(in_list));
    }
    Ok(Json(Value::Array(results)).into_response())
}

/// The results of a model that streams, as server-sent events. Leaving withdraws the request.
fn events(
    model: &Arc<Model>,
    ask: Ask,
) -> Sse<impl Stream<Item = Result<Event, Infallible>> + use<>> {
    let (model, results) = (Arc::clone(model), model.infer_stream(ask));
    Sse::new(stream::unfold(Some(results), move |results| {
        let model = Arc::clone(&model);
        async move {
            let mut results = results?;
            let next = match results.next().await {
                None => return Some((Ok(Event::default().event("end").data("{}")), None)),
                Some(Ok(outputs)) => named(&model, &outputs),
                Some(Err(error)) => Err(error.into()),
            };
            Some(match next {
                Ok(answer) => (Ok(Event::default().data(answer.to_string())), Some(results)),
                Err(error) => {
                    let text = error.to_json().to_string();
                    (Ok(Event::default().event("error").data(text)), None)
                }
            })
        }
    }))
}

/// A value for each output.
fn named(model: &Model, outputs: &[Tensor]) -> Result<Value, ApiError> {
    let signature = model.signature();
    let mut answer = Map::new();
    for (spec, tensor) in signature.outputs.iter().zip(outputs) {
        answer.insert(spec.name.clone(), from_tensor(tensor, signature.batched)?);
    }
    Ok(Value::Object(answer))
}

/// What an instance is answered with.
fn said(
    model: &Model,
    (outputs, ride): &(Vec<Tensor>, Ride),
    wants_ride: bool,
) -> Result<Value, ApiError> {
    Ok(with_ride(named(model, outputs)?, ride, wants_ride))
}

/// The tensors that an instance stands for.
fn inputs_of(model: &Model, instance: &Value) -> Result<SmallVec<[Tensor; 2]>, ApiError> {
    let signature = model.signature();
    let object = instance.as_object();
    let mut inputs = SmallVec::new();
    for spec in &signature.inputs {
        let value = match object {
            Some(object) => object.get(&spec.name),
            None if signature.inputs.len() == 1 => Some(instance),
            None => None,
        };
        let value = value.ok_or_else(|| {
            ApiError::new(ErrorCode::InvalidInput, format!("input `{}` is missing", spec.name))
        })?;
        inputs.push(to_tensor(spec, value, signature.batched)?);
    }
    if let Some(name) = object.and_then(|object| {
        object.keys().find(|name| signature.inputs.iter().all(|spec| spec.name != **name))
    }) {
        let known: Vec<&str> = signature.inputs.iter().map(|spec| &*spec.name).collect();
        let message =
            format!("the model has no input `{}`; it has {}", clip(name), known.join(", "));
        return Err(ApiError::new(ErrorCode::InvalidInput, message));
    }
    Ok(inputs)
}

/// In a list, one failure is an entry of its own.
fn in_list(result: Result<Value, ApiError>) -> Value {
    result.unwrap_or_else(|error| error.to_json())
}

fn with_ride(mut answer: Value, ride: &Ride, wants_ride: bool) -> Value {
    if let (true, Value::Object(object)) = (wants_ride, &mut answer) {
        let ride = json!({
            "parts": ride.parts,
            "batch": ride.batch,
            "items": ride.items,
            "rows": ride.rows,
            "position": ride.position,
            "fired": ride.fired.as_str(),
            "waited_us": micros(ride.waited),
            "took_us": micros(ride.took),
        });
        object.insert("ride".to_owned(), ride);
    }
    answer
}

fn micros(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Foreign text, short enough to repeat.
fn clip(text: &str) -> String {
    text.chars().take(64).flat_map(char::escape_default).collect()
}
