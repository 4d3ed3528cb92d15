//! Unary gRPC calls: one message, encoded once, sent again and again; answers are not decoded.

use bytes::{Buf as _, BufMut as _, Bytes};
use http::uri::PathAndQuery;
use tonic::{
    Status,
    client::Grpc,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    transport::{Channel, Endpoint},
};

use crate::{Caller, Failure, Fault};

/// One call and where it goes.
#[derive(Debug, Clone)]
pub struct GrpcTarget {
    /// The server.
    pub endpoint: Endpoint,
    /// `/package.Service/Method`.
    pub path: PathAndQuery,
    /// The request, encoded.
    pub message: Bytes,
    /// How many connections carry the calls.
    pub connections: usize,
}

impl GrpcTarget {
    /// Callers for one of `threads` threads, spread over its share of the connections. Must be
    /// called on the runtime that drives them.
    pub(crate) fn callers(&self, n_callers: usize, threads: usize) -> Vec<Call> {
        let n_channels = self.connections.div_ceil(threads).clamp(1, n_callers.max(1));
        let channels: Vec<_> = (0..n_channels).map(|_| self.endpoint.connect_lazy()).collect();
        let call = |channel: &Channel| Call {
            client: Grpc::new(channel.clone()).max_decoding_message_size(usize::MAX),
            path: self.path.clone(),
            message: self.message.clone(),
        };
        channels.iter().cycle().take(n_callers).map(call).collect()
    }
}

/// One call at a time on a connection that others use too.
#[derive(Debug)]
pub(crate) struct Call {
    client: Grpc<Channel>,
    path: PathAndQuery,
    message: Bytes,
}

impl Call {
    async fn ready(&mut self) -> Result<(), Failure> {
        self.client.ready().await.map_err(|error| {
            let cause = std::error::Error::source(&error);
            let said = cause.map_or_else(|| error.to_string(), ToString::to_string);
            Failure { fault: Fault::Connect, said }
        })
    }
}

impl Caller for Call {
    async fn prepare(&mut self) -> Result<(), Failure> {
        self.ready().await
    }

    async fn call(&mut self) -> Result<(), Failure> {
        self.ready().await?;
        let request = tonic::Request::new(self.message.clone());
        match self.client.unary(request, self.path.clone(), Encoded).await {
            Ok(_) => Ok(()),
            Err(status) => Err(Failure {
                fault: Fault::Grpc(status.code().into()),
                said: status.message().to_owned(),
            }),
        }
    }
}

/// Messages that are bytes already.
#[derive(Debug, Clone, Copy)]
struct Encoded;

impl Codec for Encoded {
    type Encode = Bytes;
    type Decode = ();
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Encoded {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(message);
        Ok(())
    }
}

impl Decoder for Encoded {
    type Item = ();
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<()>, Status> {
        buffer.advance(buffer.remaining());
        Ok(Some(()))
    }
}
