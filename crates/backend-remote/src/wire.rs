//! One endpoint's protocol: what can be asked of a remote server, whichever way it is spoken to.

use std::time::Duration;

use bytes::Bytes;
use paceline_backend::Stacked;
use paceline_types::TraceContext;
use tokio::time::Instant;

use crate::{
    Endpoint, Protocol, RemoteOptions, fault::Fault, grpc::GrpcWire, http::HttpWire,
    metadata::Declared,
};

/// One endpoint's protocol, with the connections to it.
#[derive(Debug)]
pub(crate) enum Wire {
    Grpc(GrpcWire),
    Http(HttpWire),
}

/// One call.
#[derive(Debug)]
pub(crate) struct Ask<'a> {
    /// What the model takes and gives.
    pub(crate) declared: &'a Declared,
    /// In the signature's order.
    pub(crate) inputs: &'a [Stacked],
    /// Rows in it.
    pub(crate) rows: usize,
    /// Until when an answer is worth waiting for.
    pub(crate) deadline: Instant,
    /// Where it stands in a trace; the remote server is told.
    pub(crate) trace: Option<TraceContext>,
}

impl Ask<'_> {
    /// How long an answer is worth waiting for from now on.
    pub(crate) fn patience(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}

/// What a remote server says of a model, unchecked.
#[derive(Debug, Default)]
pub(crate) struct About {
    pub(crate) inputs: Vec<AboutTensor>,
    pub(crate) outputs: Vec<AboutTensor>,
    /// The largest batch, where the server can say; 0: the model has no batch extent.
    pub(crate) max_batch: Option<i64>,
}

/// One tensor as a remote server declares it.
#[derive(Debug, serde::Deserialize)]
pub(crate) struct AboutTensor {
    pub(crate) name: String,
    pub(crate) datatype: String,
    pub(crate) shape: Vec<i64>,
}

/// One output as a remote server gave it, unchecked.
#[derive(Debug)]
pub(crate) struct Given {
    pub(crate) about: AboutTensor,
    pub(crate) data: Bytes,
}

impl Wire {
    /// The way to an endpoint. Must be called on the runtime that drives it; nothing is sent yet.
    pub(crate) fn new(endpoint: &Endpoint, options: &RemoteOptions) -> Result<Self, String> {
        match endpoint.protocol {
            Protocol::Grpc => GrpcWire::new(endpoint, options).map(Self::Grpc),
            Protocol::Http => HttpWire::new(endpoint, options).map(Self::Http),
        }
    }

    /// Asks whether the model takes calls.
    pub(crate) async fn check_ready(&self) -> Result<(), Fault> {
        match self {
            Self::Grpc(wire) => wire.check_ready().await,
            Self::Http(wire) => wire.check_ready().await,
        }
    }

    /// Asks what the model takes and gives.
    pub(crate) async fn about(&self) -> Result<About, Fault> {
        match self {
            Self::Grpc(wire) => wire.about().await,
            Self::Http(wire) => wire.about().await,
        }
    }

    /// Runs a call.
    pub(crate) async fn infer(&self, ask: &Ask<'_>) -> Result<Vec<Given>, Fault> {
        match self {
            Self::Grpc(wire) => wire.infer(ask).await,
            Self::Http(wire) => wire.infer(ask).await,
        }
    }
}
