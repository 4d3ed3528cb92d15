//! Clients that call over gRPC: some requests at once on one connection, of which some are given up.

use std::{error::Error as _, io, time::Duration};

use futures_util::future::join_all;
use hyper_util::rt::TokioIo;
use paceline_api::oip::proto::{
    ModelInferRequest, grpc_inference_service_client::GrpcInferenceServiceClient,
    model_infer_request::InferInputTensor,
};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::json;
use tokio::{io::DuplexStream, time::timeout};
use tonic::{
    Code, Status,
    transport::{Channel, Endpoint, Error},
};

use crate::{askers::numbers, wire::pause, world::World};

/// A channel over one connection; there is no other when that is gone.
async fn channel(stream: DuplexStream) -> Result<Channel, Error> {
    let mut stream = Some(TokioIo::new(stream));
    let connect = move |_| {
        let stream = stream.take().ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected));
        std::future::ready(stream)
    };
    Endpoint::from_static("http://server").connect_with_connector(tower::service_fn(connect)).await
}

fn request(numbers: &[i64]) -> ModelInferRequest {
    let length = i64::try_from(numbers.len()).unwrap();
    let input = InferInputTensor {
        name: "INPUT".to_owned(),
        datatype: "INT64".to_owned(),
        shape: vec![1, length],
        ..InferInputTensor::default()
    };
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    ModelInferRequest {
        model_name: "echo".to_owned(),
        inputs: vec![input],
        raw_input_contents: vec![bytes.into()],
        ..ModelInferRequest::default()
    }
}

/// The code that other doors write, where it was the server that said something. A call that a server
/// which stops has never read ends with a code of the client's own.
fn code(status: &Status) -> Option<&'static str> {
    match status.code() {
        _ if status.source().is_some() => None,
        Code::Internal => Some("model_failed"),
        Code::ResourceExhausted => Some("overloaded"),
        _ => None,
    }
}

/// Calls some times on one connection, a few at once, and waits for most of the answers.
pub(crate) async fn caller(world: &World, seed: u64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let Some(stream) = world.call(&mut random).await else { return };
    let client = match channel(stream).await {
        Ok(channel) => GrpcInferenceServiceClient::new(channel),
        Err(_) if world.is_draining() => return,
        Err(error) => return world.ledger.violation(format!("a caller cannot connect: {error}")),
    };
    for _ in 0..random.random_range(1..6) {
        let calls = (0..random.random_range(1..6)).map(|_| {
            let numbers = numbers(&mut random);
            let patience = random.random_bool(0.2).then(|| random.random_range(0..80));
            call(world, client.clone(), numbers, patience.map(Duration::from_millis))
        });
        let calls: Vec<_> = calls.collect();
        if join_all(calls).await.contains(&false) {
            return;
        }
        pause(&mut random, 300).await;
    }
}

/// One call, given up after a while or waited for. Whether the server is still there.
async fn call(
    world: &World,
    mut client: GrpcInferenceServiceClient<Channel>,
    numbers: Vec<i64>,
    patience: Option<Duration>,
) -> bool {
    let right = json!(numbers);
    let answer = client.model_infer(request(&numbers));
    let answer = match patience {
        None => Ok(answer.await),
        Some(patience) => timeout(patience, answer).await,
    };
    let Ok(answer) = answer else {
        world.leave(1);
        return true;
    };
    match answer {
        Ok(answer) => {
            let bytes = &answer.get_ref().raw_output_contents[0];
            let numbers = bytes.as_chunks::<8>().0.iter().map(|bytes| i64::from_le_bytes(*bytes));
            let said = json!(numbers.collect::<Vec<_>>());
            world.ledger.answered(200, &said, &right, world.excuses);
            world.ledger.count(|total| total.called += 1);
            true
        }
        Err(status) => match code(&status) {
            Some(code) => {
                let body = json!({ "code": code, "error": status.message() });
                world.ledger.answered(500, &body, &right, world.excuses);
                true
            }
            None if world.is_draining() => {
                world.ledger.count(|total| total.unheard += 1);
                false
            }
            None => {
                world.ledger.violation(format!("a caller got {status}"));
                false
            }
        },
    }
}
