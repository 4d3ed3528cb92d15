//! From a decoded request to a model, and from its outputs to a response: the same for HTTP and
//! gRPC.

use paceline_batch::{Key, Priority};
use paceline_pipeline::{Ask, Model, Ride};
use paceline_types::{Tensor, TensorSpec};
use smallvec::SmallVec;

use super::{InferRequest, InferResponse, Name, OipError, ParamValue, SequenceId};

/// The request parameter that asks for how the request travelled.
const RIDE: &str = "paceline_ride";

/// What is kept of a request while the model runs.
#[derive(Debug, Clone)]
pub struct Pending {
    id: Option<String>,
    wants_ride: bool,
    /// Which outputs to send, by their place in the signature.
    outputs: Option<Vec<usize>>,
    /// Whether a stream of results is to end with an answer that only says so.
    pub empty_final_response: bool,
}

/// Turns a request into what the model is asked.
///
/// # Errors
///
/// When an input is missing or not the model's, or an output is not.
pub fn ask(request: InferRequest, model: &Model) -> Result<(Ask, Pending), OipError> {
    let signature = model.signature();
    let InferRequest { id, params, inputs, outputs, .. } = request;
    let mut given: SmallVec<[Option<Tensor>; 4]> =
        std::iter::repeat_with(|| None).take(signature.inputs.len()).collect();
    for (name, tensor) in inputs {
        let at = signature.inputs.iter().position(|spec| spec.name == name);
        let at =
            at.ok_or_else(|| OipError::UnknownInput(Name::from(&*name), names(&signature.inputs)))?;
        given[at] = Some(tensor);
    }
    let mut inputs = SmallVec::new();
    for (spec, tensor) in signature.inputs.iter().zip(given) {
        inputs.push(tensor.ok_or_else(|| OipError::MissingInput(Name::from(&*spec.name)))?);
    }
    let outputs = if outputs.is_empty() {
        None
    } else {
        let place = |name: &String| signature.outputs.iter().position(|spec| spec.name == *name);
        let places = outputs.iter().map(|output| {
            if output.classes.is_some() {
                return Err(OipError::Classification(Name::from(&*output.name)));
            }
            place(&output.name).ok_or_else(|| {
                OipError::UnknownOutput(Name::from(&*output.name), names(&signature.outputs))
            })
        });
        Some(places.collect::<Result<_, _>>()?)
    };
    let wants_ride =
        params.other.iter().any(|(name, value)| name == RIDE && *value == ParamValue::Bool(true));
    let own = || params.other.iter().filter(|(name, _)| name != RIDE);
    let ask = Ask {
        inputs,
        params: if own().next().is_none() { Key::ANY } else { fingerprint(own()) },
        alone: false,
        priority: params.priority.map_or(Priority::NORMAL, Priority::level),
        timeout: params.timeout,
        stream: params.sequence.as_ref().map(|sequence| match &sequence.id {
            SequenceId::Number(number) => *number,
            SequenceId::Text(text) => Key::of(text).low64(),
        }),
        sequence: params.sequence,
        ..Ask::default()
    };
    let empty_final_response = params.empty_final_response;
    Ok((ask, Pending { id, wants_ride, outputs, empty_final_response }))
}

/// Turns a model's outputs into a response to a request; how it travelled is known with the last.
#[must_use]
pub fn respond(
    model: &Model,
    pending: Pending,
    outputs: Vec<Tensor>,
    ride: Option<&Ride>,
) -> InferResponse {
    let names = model.signature().outputs.iter().map(|spec| spec.name.clone());
    let mut answers: Vec<(String, Tensor)> = names.zip(outputs).collect();
    if let Some(wanted) = pending.outputs {
        answers = wanted.into_iter().filter_map(|at| answers.get(at).cloned()).collect();
    }
    InferResponse {
        model_name: model.facts().name.clone(),
        model_version: model.facts().version.to_string(),
        id: pending.id,
        parameters: ride
            .filter(|_| pending.wants_ride)
            .map_or_else(Vec::new, |ride| ride_parameters(model, ride)),
        outputs: answers,
    }
}

fn ride_parameters(model: &Model, ride: &Ride) -> Vec<(String, ParamValue)> {
    let micros = |duration: std::time::Duration| {
        ParamValue::Uint(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX))
    };
    let count = |n: usize| ParamValue::Uint(n as u64);
    [
        ("parts", count(ride.parts)),
        ("batch", ParamValue::Uint(ride.batch)),
        ("batch_items", count(ride.items)),
        ("batch_rows", count(ride.rows)),
        ("batch_position", count(ride.position)),
        ("fire_reason", ParamValue::Text(ride.fired.as_str().to_owned())),
        ("wait_us", micros(ride.waited)),
        ("compute_us", micros(ride.took)),
        ("queue_depth", count(model.batch_stats().waiting_items)),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

fn names(specs: &[TensorSpec]) -> Name {
    let names: Vec<&str> = specs.iter().map(|spec| &*spec.name).collect();
    Name::clipped(&names.join(", "), 256)
}

/// A fingerprint of parameters that does not depend on their order.
fn fingerprint<'a>(params: impl Iterator<Item = &'a (String, ParamValue)>) -> Key {
    let mut params: Vec<String> = params.map(|(name, value)| format!("{name}={value:?}")).collect();
    params.sort_unstable();
    Key::of(&params)
}
