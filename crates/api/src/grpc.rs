//! The gRPC door: the Open Inference Protocol, frames of cameras, health and reflection.
//!
//! It is a set of routes like the HTTP door and is served by the same [`serve`](crate::http::serve):
//! every call is a task of its own, also where one connection carries them all, and a client that
//! leaves drops its call, which withdraws what it asked for.

mod caller;
pub mod cameras;
mod deadline;
mod frames;
mod health;
mod infer;
mod methods;
mod service;
mod stream;

use std::sync::Arc;

use axum::{Router, body::Body, http};
use futures_util::StreamExt as _;
use tokio_util::sync::CancellationToken;
use tonic::{codec::CompressionEncoding, service::Routes};
use tonic_health::pb::{self as health_proto, health_server::HealthServer};
use tower::util::MapRequestLayer;

use self::{cameras::cameras_server::CamerasServer, frames::Frames, health::Health, service::Door};
use crate::{
    App,
    gate::{Gate, Guard, Wire},
    oip::proto::{self, grpc_inference_service_server::GrpcInferenceServiceServer},
};

/// Largest message that clients can be sent; theirs count lengths in 32 bits with a sign.
const MAX_ANSWER: usize = i32::MAX as usize;

/// Why the descriptors that came with this program could not be read.
#[derive(Debug, thiserror::Error)]
#[error("the protocol's descriptors cannot be read")]
pub struct DescriptorError(#[from] tonic_reflection::server::Error);

pub use self::methods::METHODS;
pub(crate) use self::methods::is_stream;

/// Every service, behind `gate`. `stop` ends streams that would otherwise stay open for as long as their client
/// likes: they take no more, answer what they took, and close.
///
/// # Errors
///
/// When the descriptors for reflection are damaged.
pub fn router(app: App, gate: Gate, stop: CancellationToken) -> Result<Router, DescriptorError> {
    let max_message = app.bodies.max;
    let guard = Guard::new(Arc::new(gate), Wire::Grpc, METHODS.iter().copied());
    let health = HealthServer::new(Health::new(app.clone(), stop.clone()));
    let frames = CamerasServer::new(Frames::new(app.clone(), stop.clone()))
        .max_decoding_message_size(max_message)
        .max_encoding_message_size(MAX_ANSWER);
    let door = GrpcInferenceServiceServer::new(Door::new(app, stop.clone()))
        .max_decoding_message_size(max_message)
        .max_encoding_message_size(MAX_ANSWER)
        .accept_compressed(CompressionEncoding::Gzip)
        .accept_compressed(CompressionEncoding::Deflate)
        .send_compressed(CompressionEncoding::Gzip)
        .send_compressed(CompressionEncoding::Deflate);
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(proto::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(cameras::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(health_proto::FILE_DESCRIPTOR_SET)
    };
    let routes = Routes::new(door)
        .add_service(frames)
        .add_service(health)
        .add_service(reflection().build_v1()?)
        .add_service(reflection().build_v1alpha()?);
    let prepare = move |request| until_stop(answer_as_asked(request), &stop);
    Ok(routes.into_axum_router().layer((guard, MapRequestLayer::new(prepare))))
}

/// Ends the questions of a reflection stream when the server stops, and with them the stream. The
/// other streams know themselves that it does.
fn until_stop(request: http::Request<Body>, stop: &CancellationToken) -> http::Request<Body> {
    if !request.uri().path().starts_with("/grpc.reflection.") {
        return request;
    }
    let stopped = stop.clone().cancelled_owned();
    request.map(|body| Body::from_stream(body.into_data_stream().take_until(stopped)))
}

/// Lets answers be compressed only where the question was, and in the same way. Clients say by
/// default that they can read compressed answers, whether or not they want to wait for them.
fn answer_as_asked<B>(mut request: http::Request<B>) -> http::Request<B> {
    let headers = request.headers_mut();
    match headers.get("grpc-encoding").cloned() {
        Some(encoding) => headers.insert("grpc-accept-encoding", encoding),
        None => headers.remove("grpc-accept-encoding"),
    };
    request
}
