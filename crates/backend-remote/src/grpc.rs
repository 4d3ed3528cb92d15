//! An endpoint that is spoken to over gRPC. One HTTP/2 connection carries the calls of all
//! instances; it is made when it is needed and made again when it is lost.

use std::time::Duration;

use bytes::Bytes;
use http::uri::PathAndQuery;
use prost::Message;
use tonic::{
    Code, ConnectError, Request, Status,
    client::Grpc,
    metadata::{Ascii, MetadataValue},
    transport::Channel,
};

use crate::{
    Endpoint, RemoteOptions,
    codec::Undecoded,
    fault::{Fault, causes, words},
    message::{
        ConfigAnswer, InferRequest, InferResponse, Metadata, Parameter, Ready, TensorMetadata,
        Wanted, Which,
    },
    wire::{About, AboutTensor, Ask, Given},
};

/// How much may be on its way before it is acknowledged: the default of 64 KiB would make a large
/// tensor wait for as many round trips.
const WINDOW: u32 = 1 << 24;
/// How often a connection that waits for an answer is seen to live.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// An endpoint that is spoken to over gRPC.
#[derive(Debug)]
pub(crate) struct GrpcWire {
    client: Grpc<Channel>,
    which: Which,
    authorization: Option<MetadataValue<Ascii>>,
}

impl GrpcWire {
    pub(crate) fn new(endpoint: &Endpoint, options: &RemoteOptions) -> Result<Self, String> {
        let address = format!("http://{}", endpoint.authority);
        let channel = Channel::from_shared(address)
            .map_err(|error| error.to_string())?
            .connect_timeout(options.connect_timeout)
            .tcp_nodelay(true)
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE)
            .connect_lazy();
        let token = options.token.as_ref().map(|token| format!("Bearer {token}").parse());
        let authorization = token
            .transpose()
            .map_err(|_| "the token has letters that cannot be sent".to_owned())?;
        Ok(Self {
            client: Grpc::new(channel).max_decoding_message_size(options.max_response),
            which: Which {
                name: options.model.clone(),
                version: options.version.map(|version| version.to_string()).unwrap_or_default(),
            },
            authorization,
        })
    }

    pub(crate) async fn check_ready(&self) -> Result<(), Fault> {
        let Ready { ready } = self.unary("ModelReady", Request::new(self.which.clone())).await?;
        if ready { Ok(()) } else { Err(Fault::Refused("the model is not ready".to_owned())) }
    }

    pub(crate) async fn about(&self) -> Result<About, Fault> {
        let Metadata { inputs, outputs } =
            self.unary("ModelMetadata", Request::new(self.which.clone())).await?;
        // Not every server has configurations to show.
        let max_batch = match self.ask("ModelConfig", Request::new(self.which.clone())).await {
            Ok(answer) => {
                let ConfigAnswer { config } = decode(answer)?;
                config.map(|config| config.max_batch_size.into())
            }
            Err(status) if status.code() == Code::Unimplemented => None,
            Err(status) => return Err(fault(&status)),
        };
        let tensors = |all: Vec<TensorMetadata>| all.into_iter().map(AboutTensor::from).collect();
        Ok(About { inputs: tensors(inputs), outputs: tensors(outputs), max_batch })
    }

    pub(crate) async fn infer(&self, ask: &Ask<'_>) -> Result<Vec<Given>, Fault> {
        let signature = &ask.declared.signature;
        let timeout = i64::try_from(ask.patience().as_micros()).unwrap_or(i64::MAX);
        let tensors = signature.inputs.iter().zip(ask.inputs);
        #[expect(clippy::cast_possible_wrap, reason = "extents of tensors that are in memory")]
        let inputs = tensors.map(|(spec, input)| TensorMetadata {
            name: spec.name.clone(),
            datatype: input.dtype().as_str().to_owned(),
            shape: input.shape().iter().map(|&extent| extent as i64).collect(),
        });
        let mut request = Request::new(InferRequest {
            model_name: self.which.name.clone(),
            model_version: self.which.version.clone(),
            parameters: [("timeout".to_owned(), Parameter { int64_param: Some(timeout) })].into(),
            inputs: inputs.collect(),
            outputs: signature
                .outputs
                .iter()
                .map(|spec| Wanted { name: spec.name.clone() })
                .collect(),
            raw_input_contents: ask
                .inputs
                .iter()
                .map(|input| input.to_tensor().data().clone())
                .collect(),
        });
        request.set_timeout(ask.patience());
        if let Some(trace) = ask.trace.and_then(|trace| trace.to_string().parse().ok()) {
            request.metadata_mut().insert("traceparent", trace);
        }
        let InferResponse { outputs, raw_output_contents } =
            self.unary("ModelInfer", request).await?;
        if outputs.len() != raw_output_contents.len() {
            return Err(Fault::Garbage(format!(
                "{} outputs came with {} raw contents; answers must be raw",
                outputs.len(),
                raw_output_contents.len()
            )));
        }
        let given = outputs.into_iter().zip(raw_output_contents);
        Ok(given.map(|(about, data)| Given { about: about.into(), data }).collect())
    }

    async fn unary<Q, A>(&self, method: &'static str, request: Request<Q>) -> Result<A, Fault>
    where
        Q: Message + 'static,
        A: Message + Default,
    {
        let answer = self.ask(method, request).await.map_err(|status| fault(&status))?;
        decode(answer)
    }

    async fn ask<Q>(&self, method: &'static str, mut request: Request<Q>) -> Result<Bytes, Status>
    where
        Q: Message + 'static,
    {
        if let Some(authorization) = &self.authorization {
            request.metadata_mut().insert("authorization", authorization.clone());
        }
        let path = PathAndQuery::try_from(format!("/inference.GRPCInferenceService/{method}"))
            .map_err(|error| Status::internal(error.to_string()))?;
        // A clone shares the connection.
        let mut client = self.client.clone();
        client.ready().await.map_err(|error| Status::from_error(Box::new(error)))?;
        Ok(client.unary(request, path, Undecoded::default()).await?.into_inner())
    }
}

fn decode<A: Message + Default>(answer: Bytes) -> Result<A, Fault> {
    A::decode(answer).map_err(|error| Fault::Garbage(error.to_string()))
}

impl From<TensorMetadata> for AboutTensor {
    fn from(TensorMetadata { name, datatype, shape }: TensorMetadata) -> Self {
        Self { name, datatype, shape }
    }
}

/// What a status means. One that has a source was not sent by the server: it was made here, when
/// the connection was lost or could not be had.
fn fault(status: &Status) -> Fault {
    let causes = causes(status);
    if let Some(last) = causes.last() {
        let said = words(&last.to_string());
        if causes.iter().any(|cause| cause.is::<ConnectError>()) {
            return Fault::NotSent(said);
        }
        if causes.iter().any(|cause| cause.is::<tonic::TimeoutExpired>()) {
            return Fault::Refused("the time for the call is over".to_owned());
        }
        return Fault::Broken(said);
    }
    let said = words(status.message());
    match status.code() {
        Code::Unavailable
        | Code::ResourceExhausted
        | Code::NotFound
        | Code::Unauthenticated
        | Code::PermissionDenied
        | Code::Unimplemented => Fault::Refused(said),
        Code::DeadlineExceeded | Code::Cancelled => Fault::Broken(said),
        // What tonic itself says of an answer that is too large or is no message.
        Code::OutOfRange => Fault::Garbage(said),
        _ => Fault::Failed(said),
    }
}
