//! The Open Inference Protocol (V2), over HTTP and gRPC, as pure functions from bytes to requests
//! and from responses to bytes.
//!
//! A body becomes an [`InferRequest`] by [`decode_http`]; a gRPC message by
//! [`grpc::decode_request`]. Both make the same checks and fail with the same [`OipError`]. An
//! [`InferResponse`] leaves by [`encode_http`] or [`grpc::encode_response`]. There is no socket,
//! no model and no queue here: whoever mounts this on a server brings those.
//!
//! Input is hostile until decoded. Nothing is allocated from a number that a client wrote before
//! that number is known to agree with the bytes that came, nothing recurses further than a fixed
//! bound, and no message repeats more than a few words of what was sent.

pub mod ask;
mod binary;
pub mod config;
mod contents;
pub mod describe;
mod elements;
mod encode;
mod error;
pub mod grpc;
mod json;
pub mod meta;
mod name;
mod number;
pub mod pbtxt;
pub mod proto;
mod request;
mod response;
mod scan;
pub mod statistics;

pub use binary::decode_http;
pub use encode::{EncodedResponse, encode_http};
pub use error::{ElementFault, OipError};
pub use name::Name;
pub use request::{
    InferParams, InferRequest, ParamValue, RequestedOutput, Sequence, SequenceId, parse_version,
};
pub use response::InferResponse;

/// Most inputs, and most requested outputs, in one request.
pub const MAX_TENSORS: usize = 256;
/// Most parameters on one request.
pub const MAX_PARAMETERS: usize = 128;
/// Most extents of one shape.
pub const MAX_RANK: usize = 32;
/// Deepest nesting of a JSON body.
pub const MAX_DEPTH: usize = 64;
