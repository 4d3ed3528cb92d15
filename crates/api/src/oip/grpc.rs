//! Requests and responses as gRPC messages.
//!
//! Outputs are always raw, one entry per output: clients read `raw_output_contents` without
//! looking whether it is there. Inputs may be raw or typed, but not both in one request.

use std::collections::BTreeMap;

use bytes::Bytes;
use paceline_types::{Shape, Tensor};

use super::{
    InferParams, InferRequest, InferResponse, MAX_RANK, MAX_TENSORS, Name, OipError, ParamValue,
    RequestedOutput, Sequence, SequenceId, contents,
    elements::Head,
    json::{output_parameter, parse_dtype},
    parse_version,
    proto::{
        InferParameter, InferTensorContents, ModelInferRequest, ModelInferResponse,
        ModelStreamInferResponse,
        infer_parameter::ParameterChoice,
        model_infer_request::{InferInputTensor, InferRequestedOutputTensor},
        model_infer_response::InferOutputTensor,
    },
    request::ParamsReader,
};

type Parameters = BTreeMap<String, InferParameter>;

/// Reads a request. Raw inputs are shared with the message, not copied.
///
/// # Errors
///
/// As [`decode_http`](super::decode_http), and where raw and typed inputs are mixed.
pub fn decode_request(message: ModelInferRequest) -> Result<InferRequest, OipError> {
    if message.inputs.is_empty() {
        return Err(OipError::NoInputs);
    }
    let mut params = ParamsReader::default();
    for (key, value) in message.parameters {
        if let Some(value) = value.parameter_choice {
            params.read(&key, value.into())?;
        }
    }
    let tensors = message.inputs.into_iter().map(|input| Typed {
        name: input.name,
        datatype: input.datatype,
        shape: input.shape,
        parameters: input.parameters,
        contents: input.contents,
    });
    Ok(InferRequest {
        model: message.model_name,
        version: parse_version(&message.model_version)?,
        id: Some(message.id).filter(|id| !id.is_empty()),
        params: params.finish()?,
        inputs: decode_tensors(tensors, message.raw_input_contents)?,
        outputs: decode_outputs(message.outputs)?,
    })
}

/// Writes a response. Outputs are shared with it, not copied.
#[must_use]
pub fn encode_response(response: InferResponse) -> ModelInferResponse {
    let mut message = ModelInferResponse {
        model_name: response.model_name,
        model_version: response.model_version,
        id: response.id.unwrap_or_default(),
        parameters: response.parameters.into_iter().map(encode_parameter).collect(),
        outputs: Vec::with_capacity(response.outputs.len()),
        raw_output_contents: Vec::with_capacity(response.outputs.len()),
    };
    for (name, tensor) in response.outputs {
        message.outputs.push(InferOutputTensor {
            name,
            datatype: tensor.dtype().as_str().to_owned(),
            shape: encode_shape(&tensor),
            ..InferOutputTensor::default()
        });
        message.raw_output_contents.push(tensor.data().clone());
    }
    message
}

/// Writes a failure on a stream that stays open. The id says which request failed.
#[must_use]
pub fn encode_stream_error(id: Option<String>, error_message: String) -> ModelStreamInferResponse {
    let about = ModelInferResponse { id: id.unwrap_or_default(), ..ModelInferResponse::default() };
    ModelStreamInferResponse { error_message, infer_response: Some(about) }
}

/// Writes a request to another server, raw.
#[must_use]
pub fn encode_request(request: InferRequest) -> ModelInferRequest {
    let mut message = ModelInferRequest {
        model_name: request.model,
        model_version: request.version.map(|version| version.to_string()).unwrap_or_default(),
        id: request.id.unwrap_or_default(),
        parameters: encode_params(request.params),
        outputs: request.outputs.into_iter().map(encode_output).collect(),
        ..ModelInferRequest::default()
    };
    for (name, tensor) in request.inputs {
        message.inputs.push(InferInputTensor {
            name,
            datatype: tensor.dtype().as_str().to_owned(),
            shape: encode_shape(&tensor),
            ..InferInputTensor::default()
        });
        message.raw_input_contents.push(tensor.data().clone());
    }
    message
}

/// Reads another server's response, raw or typed.
///
/// # Errors
///
/// When an output contradicts itself.
pub fn decode_response(message: ModelInferResponse) -> Result<InferResponse, OipError> {
    let parameters = message
        .parameters
        .into_iter()
        .filter_map(|(key, value)| Some((key, value.parameter_choice?.into())));
    let tensors = message.outputs.into_iter().map(|output| Typed {
        name: output.name,
        datatype: output.datatype,
        shape: output.shape,
        parameters: output.parameters,
        contents: output.contents,
    });
    Ok(InferResponse {
        model_name: message.model_name,
        model_version: message.model_version,
        id: Some(message.id).filter(|id| !id.is_empty()),
        parameters: parameters.collect(),
        outputs: decode_tensors(tensors, message.raw_output_contents)?,
    })
}

/// A tensor of either message, which have the same fields.
struct Typed {
    name: String,
    datatype: String,
    shape: Vec<i64>,
    parameters: Parameters,
    contents: Option<InferTensorContents>,
}

fn decode_tensors(
    typed: impl ExactSizeIterator<Item = Typed>,
    raw: Vec<Bytes>,
) -> Result<Vec<(String, Tensor)>, OipError> {
    if typed.len() > MAX_TENSORS {
        return Err(OipError::TooMany { what: "inputs", limit: MAX_TENSORS });
    }
    if !raw.is_empty() && raw.len() != typed.len() {
        return Err(OipError::RawCount { inputs: typed.len(), raw: raw.len() });
    }
    let mut tensors: Vec<(String, Tensor)> = Vec::with_capacity(typed.len());
    let mut raw = raw.into_iter();
    for (index, tensor) in typed.enumerate() {
        let name = tensor.name;
        if name.is_empty() {
            return Err(OipError::Unnamed { list: "inputs", index });
        }
        if tensors.iter().any(|(known, _)| *known == name) {
            return Err(OipError::RepeatedName { list: "inputs", name: Name::from(&*name) });
        }
        if tensor.parameters.contains_key("shared_memory_region") {
            return Err(OipError::SharedMemory { tensor: Name::from(&*name) });
        }
        let shape = decode_shape(&name, &tensor.shape)?;
        let dtype = parse_dtype(&name, &tensor.datatype)?;
        let head = Head { name: &name, dtype, shape: &shape };
        let data = match (raw.next(), tensor.contents) {
            (Some(data), None) => data,
            (Some(data), Some(typed)) if contents::is_empty(&typed) => data,
            (Some(_), Some(_)) => {
                return Err(OipError::MixedContents { input: Name::from(&*name) });
            }
            (None, typed) => contents::read(head, &typed.unwrap_or_default())?,
        };
        let tensor = head.tensor(data)?;
        tensors.push((name, tensor));
    }
    Ok(tensors)
}

fn decode_shape(input: &str, extents: &[i64]) -> Result<Shape, OipError> {
    if extents.len() > MAX_RANK {
        return Err(OipError::TooManyExtents);
    }
    let extent = |(index, &extent): (usize, &i64)| {
        usize::try_from(extent).map_err(|_| OipError::BadExtent {
            input: input.into(),
            index,
            extent,
        })
    };
    extents.iter().enumerate().map(extent).collect()
}

fn encode_shape(tensor: &Tensor) -> Vec<i64> {
    // A tensor in memory has no extent beyond i64, except where another extent is 0.
    let extent = |&extent: &usize| i64::try_from(extent).unwrap_or(i64::MAX);
    tensor.shape().iter().map(extent).collect()
}

fn decode_outputs(
    messages: Vec<InferRequestedOutputTensor>,
) -> Result<Vec<RequestedOutput>, OipError> {
    if messages.len() > MAX_TENSORS {
        return Err(OipError::TooMany { what: "outputs", limit: MAX_TENSORS });
    }
    let mut outputs: Vec<RequestedOutput> = Vec::with_capacity(messages.len());
    for (index, message) in messages.into_iter().enumerate() {
        let InferRequestedOutputTensor { name, parameters } = message;
        if name.is_empty() {
            return Err(OipError::Unnamed { list: "outputs", index });
        }
        if outputs.iter().any(|known| known.name == name) {
            return Err(OipError::RepeatedName { list: "outputs", name: Name::from(&*name) });
        }
        let (mut binary, mut classes) = (None, None);
        for (key, value) in parameters {
            match &*key {
                "binary_data" | "classification" => {
                    let value = value.parameter_choice.map(ParamValue::from);
                    output_parameter(&key, value.as_ref(), &mut binary, &mut classes)?;
                }
                "shared_memory_region" => {
                    return Err(OipError::SharedMemory { tensor: Name::from(&*name) });
                }
                _ => {}
            }
        }
        outputs.push(RequestedOutput { name, binary, classes });
    }
    Ok(outputs)
}

fn encode_output(output: RequestedOutput) -> InferRequestedOutputTensor {
    let binary = output.binary.map(|on| ("binary_data".to_owned(), ParamValue::Bool(on)));
    let classes = output
        .classes
        .map(|count| ("classification".to_owned(), ParamValue::Int(i64::from(count))));
    InferRequestedOutputTensor {
        name: output.name,
        parameters: binary.into_iter().chain(classes).map(encode_parameter).collect(),
    }
}

fn encode_params(params: InferParams) -> Parameters {
    let InferParams {
        priority,
        timeout,
        sequence,
        binary_data_output,
        empty_final_response,
        other,
    } = params;
    let mut pairs = other;
    let mut add = |key: &str, value| pairs.push((key.to_owned(), value));
    if let Some(priority) = priority {
        add("priority", ParamValue::Uint(priority));
    }
    if let Some(timeout) = timeout {
        let micros = i64::try_from(timeout.as_micros()).unwrap_or(i64::MAX);
        add("timeout", ParamValue::Int(micros));
    }
    if let Some(Sequence { id, start, end }) = sequence {
        add(
            "sequence_id",
            match id {
                SequenceId::Number(id) => {
                    i64::try_from(id).map_or(ParamValue::Uint(id), ParamValue::Int)
                }
                SequenceId::Text(id) => ParamValue::Text(id),
            },
        );
        add("sequence_start", ParamValue::Bool(start));
        add("sequence_end", ParamValue::Bool(end));
    }
    if binary_data_output {
        add("binary_data_output", ParamValue::Bool(true));
    }
    if empty_final_response {
        add("triton_enable_empty_final_response", ParamValue::Bool(true));
    }
    pairs.into_iter().map(encode_parameter).collect()
}

fn encode_parameter((key, value): (String, ParamValue)) -> (String, InferParameter) {
    let choice = match value {
        ParamValue::Bool(value) => ParameterChoice::BoolParam(value),
        ParamValue::Int(value) => ParameterChoice::Int64Param(value),
        ParamValue::Uint(value) => ParameterChoice::Uint64Param(value),
        ParamValue::Float(value) => ParameterChoice::DoubleParam(value),
        ParamValue::Text(value) => ParameterChoice::StringParam(value),
    };
    (key, InferParameter { parameter_choice: Some(choice) })
}

impl From<ParameterChoice> for ParamValue {
    fn from(choice: ParameterChoice) -> Self {
        match choice {
            ParameterChoice::BoolParam(value) => Self::Bool(value),
            ParameterChoice::Int64Param(value) => Self::Int(value),
            ParameterChoice::Uint64Param(value) => Self::Uint(value),
            ParameterChoice::DoubleParam(value) => Self::Float(value),
            ParameterChoice::StringParam(value) => Self::Text(value),
        }
    }
}
