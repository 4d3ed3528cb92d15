//! `paceline bench grpc`: load a server over gRPC, by `ModelInfer` of the Open Inference Protocol.

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use clap::Args;
use paceline_api::oip::proto::{
    ModelInferRequest, ModelMetadataRequest, ModelStatisticsRequest,
    grpc_inference_service_client::GrpcInferenceServiceClient,
    model_infer_request::InferInputTensor,
};
use paceline_load::{Counts, GrpcTarget, ReadCounts, Target, oip::Input};
use prost::Message as _;
use tonic::transport::{Channel, Endpoint};

use super::{
    drive::{Bench, drive},
    load_args::LoadArgs,
    own_server::OwnServer,
};
use crate::args::ConfigArgs;

const CONNECT: Duration = Duration::from_secs(10);
const MODEL_INFER: &str = "/inference.GRPCInferenceService/ModelInfer";
const MAX_CONNECTIONS: usize = 1024;

/// Load a server over gRPC, and print a table.
///
/// Without --url, a server of its own is started and stopped again. The input is built from what
/// the server says about the model; tensors travel raw.
#[derive(Debug, Clone, Args)]
pub(crate) struct GrpcArgs {
    /// The server, such as <http://127.0.0.1:8001>
    #[arg(long)]
    url: Option<String>,
    /// The model
    #[arg(long, value_name = "NAME", default_value = "simulated")]
    model: String,
    /// Connections that carry the calls
    #[arg(long, value_name = "N", default_value_t = 1)]
    connections: usize,
    /// What free extents of a model's inputs are taken as
    #[arg(long, value_name = "N", default_value_t = 64)]
    extent: usize,
    #[command(flatten)]
    load: LoadArgs,
    #[command(flatten, next_help_heading = "The server that is started without --url")]
    config: ConfigArgs,
}

pub(crate) async fn run(args: &GrpcArgs) -> anyhow::Result<String> {
    args.load.check()?;
    ensure!(
        (1..=MAX_CONNECTIONS).contains(&args.connections),
        "--connections is from 1 to {MAX_CONNECTIONS}"
    );
    // Stopped when it is dropped, which is when all is done.
    let mut own = None;
    let url = if let Some(url) = &args.url {
        url.clone()
    } else {
        let server = OwnServer::start(&args.config, None).await?;
        format!("http://{}", own.insert(server).grpc)
    };
    let endpoint = Endpoint::from_shared(url.clone())
        .with_context(|| format!("`{url}` is no URL; write http://HOST:PORT"))?
        .tcp_nodelay(true);
    let channel = endpoint
        .clone()
        .connect_timeout(CONNECT)
        .connect()
        .await
        .with_context(|| format!("no gRPC connection to {url}"))?;
    let mut client = GrpcInferenceServiceClient::new(channel)
        .max_decoding_message_size(usize::MAX)
        .max_encoding_message_size(usize::MAX);
    let request = request(&mut client, &args.model, args.extent).await?;
    // What is refused now would be refused a million times.
    client
        .model_infer(request.clone())
        .await
        .map_err(|status| anyhow::anyhow!("the first request failed: {}", status.message()))?;
    let message = Bytes::from(request.encode_to_vec());
    let place = args.url.as_deref().unwrap_or("a server of its own");
    let about = format!(
        "gRPC ModelInfer of {} at {place}, {} bytes, connections: {}",
        args.model,
        message.len(),
        args.connections
    );
    let path = http_path();
    let target = GrpcTarget { endpoint, path, message, connections: args.connections };
    let counts = Some(counts(client, &args.model));
    let text =
        drive(Bench { target: Target::Grpc(Box::new(target)), about, counts }, &args.load).await;
    drop(own);
    text
}

type Client = GrpcInferenceServiceClient<Channel>;

fn http_path() -> tonic::codegen::http::uri::PathAndQuery {
    tonic::codegen::http::uri::PathAndQuery::from_static(MODEL_INFER)
}

/// A request with a value for each input that the server names.
async fn request(
    client: &mut Client,
    model: &str,
    extent: usize,
) -> anyhow::Result<ModelInferRequest> {
    let ask = ModelMetadataRequest { name: model.to_owned(), ..ModelMetadataRequest::default() };
    let metadata = client
        .model_metadata(ask)
        .await
        .map_err(|status| anyhow::anyhow!("nothing is known of {model}: {}", status.message()))?
        .into_inner();
    let mut request =
        ModelInferRequest { model_name: model.to_owned(), ..ModelInferRequest::default() };
    for input in metadata.inputs {
        let input = Input { name: input.name, datatype: input.datatype, shape: input.shape };
        let tensor = input.sample(extent)?;
        request.inputs.push(InferInputTensor {
            name: tensor.name,
            datatype: tensor.datatype,
            shape: tensor.shape,
            ..InferInputTensor::default()
        });
        request.raw_input_contents.push(tensor.data.into());
    }
    Ok(request)
}

/// Reads a model's counts whenever it is asked to.
fn counts(client: Client, model: &str) -> ReadCounts {
    let model: Arc<str> = model.into();
    Box::new(move || {
        let (mut client, model) = (client.clone(), Arc::clone(&model));
        Box::pin(async move {
            let ask = ModelStatisticsRequest {
                name: String::from(&*model),
                ..ModelStatisticsRequest::default()
            };
            let answer = client.model_statistics(ask).await.ok()?.into_inner();
            let model = answer.model_stats.first()?;
            Some(Counts { rows: model.inference_count, calls: model.execution_count })
        })
    })
}
