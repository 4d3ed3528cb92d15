//! The messages of the Open Inference Protocol over gRPC, as far as a client needs them. Fields
//! that are not here are skipped.

use std::collections::BTreeMap;

use bytes::Bytes;

/// Names a model: what `ModelReady`, `ModelMetadata` and `ModelConfig` are asked with.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Which {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) version: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Ready {
    #[prost(bool, tag = "1")]
    pub(crate) ready: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Metadata {
    #[prost(message, repeated, tag = "4")]
    pub(crate) inputs: Vec<TensorMetadata>,
    #[prost(message, repeated, tag = "5")]
    pub(crate) outputs: Vec<TensorMetadata>,
}

/// A tensor in metadata, in a request and in an answer: all three have these fields.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct TensorMetadata {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) datatype: String,
    #[prost(int64, repeated, tag = "3")]
    pub(crate) shape: Vec<i64>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ConfigAnswer {
    #[prost(message, optional, tag = "1")]
    pub(crate) config: Option<Config>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Config {
    #[prost(int32, tag = "4")]
    pub(crate) max_batch_size: i32,
}

/// A parameter that is a whole number.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Parameter {
    #[prost(int64, optional, tag = "2")]
    pub(crate) int64_param: Option<i64>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct InferRequest {
    #[prost(string, tag = "1")]
    pub(crate) model_name: String,
    #[prost(string, tag = "2")]
    pub(crate) model_version: String,
    #[prost(btree_map = "string, message", tag = "4")]
    pub(crate) parameters: BTreeMap<String, Parameter>,
    #[prost(message, repeated, tag = "5")]
    pub(crate) inputs: Vec<TensorMetadata>,
    #[prost(message, repeated, tag = "6")]
    pub(crate) outputs: Vec<Wanted>,
    #[prost(bytes = "bytes", repeated, tag = "7")]
    pub(crate) raw_input_contents: Vec<Bytes>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Wanted {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct InferResponse {
    #[prost(message, repeated, tag = "5")]
    pub(crate) outputs: Vec<TensorMetadata>,
    #[prost(bytes = "bytes", repeated, tag = "6")]
    pub(crate) raw_output_contents: Vec<Bytes>,
}
