//! Models that live on another server which speaks the Open Inference Protocol: a Triton,
//! another Paceline, and whatever else does.
//!
//! A batch that was formed here is one request there, over gRPC or HTTP, its tensors as bytes. A
//! model may have several endpoints, all of which serve the same: calls go to one that is well and
//! has least to do, a `Breaker` keeps them away from one that is not, and probes find out when it is
//! well again. A call that may have been run is not sent again, unless the model is said to bear it.
//!
//! What a remote server says is checked like any input from outside: lengths, types and shapes,
//! against what it declared when the model was loaded.
//!
//! All instances of a model share one [`RemoteModel`]: its connections, and the thread that drives
//! them. What is not here: TLS, results before the last, and state that the remote keeps.

mod backend;
mod board;
mod body;
mod breaker;
mod client;
mod codec;
mod endpoint;
mod fault;
mod grpc;
mod http;
mod message;
mod metadata;
mod options;
mod tensors;
mod wire;

pub use backend::{RemoteBackend, RemoteModel};
pub use endpoint::{Endpoint, EndpointError, Protocol};
pub use options::RemoteOptions;
