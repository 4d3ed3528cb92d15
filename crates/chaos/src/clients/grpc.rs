//! Tensors as bytes, over gRPC.

use std::net::SocketAddr;

use paceline_api::oip::proto::{
    ModelInferRequest, grpc_inference_service_client::GrpcInferenceServiceClient,
    model_infer_request::InferInputTensor,
};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use tonic::{
    Code,
    transport::{Channel, Endpoint},
};

use super::{PATIENCE, Stage};
use crate::ledger::Outcome;

pub(crate) type Client = GrpcInferenceServiceClient<Channel>;

/// Connects when it is first asked something.
pub(crate) fn client(at: SocketAddr) -> anyhow::Result<Client> {
    let endpoint = Endpoint::from_shared(format!("http://{at}"))?;
    Ok(Client::new(endpoint.connect_timeout(PATIENCE).connect_lazy()))
}

pub(crate) async fn ask_on_and_on(stage: Stage, seed: u64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let Ok(mut client) = client(stage.server.grpc) else {
        return stage.ledger.violation("gRPC has no address".to_owned());
    };
    while !stage.is_over() {
        let numbers: Vec<i64> = (0..random.random_range(2..9)).map(|_| random.random()).collect();
        stage.settle("grpc", ask(&mut client, &numbers)).await;
    }
}

/// Asks once and judges the answer.
pub(crate) async fn ask(client: &mut Client, numbers: &[i64]) -> Outcome {
    let raw: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    let extent = i64::try_from(numbers.len()).unwrap_or_default();
    let request = ModelInferRequest {
        model_name: "echo".to_owned(),
        inputs: vec![InferInputTensor {
            name: "INPUT".to_owned(),
            datatype: "INT64".to_owned(),
            shape: vec![1, extent],
            ..InferInputTensor::default()
        }],
        raw_input_contents: vec![raw.clone().into()],
        ..ModelInferRequest::default()
    };
    match client.model_infer(request).await {
        Ok(answer) if answer.get_ref().raw_output_contents == [raw.as_slice()] => Outcome::Right,
        Ok(answer) => Outcome::Wrong(format!("{numbers:?} came back as {:?}", answer.get_ref())),
        Err(status) => {
            let said = format!("{:?}: {}", status.code(), status.message());
            // A status that our server wrote has no cause in the transport.
            let is_ours = std::error::Error::source(&status).is_none();
            match status.code() {
                _ if !is_ours => Outcome::Cut(said),
                Code::ResourceExhausted | Code::Unavailable | Code::DeadlineExceeded => {
                    Outcome::Refused(said)
                }
                Code::Internal => Outcome::Failed(said),
                Code::Cancelled => Outcome::Cut(said),
                _ => Outcome::Wrong(said),
            }
        }
    }
}
