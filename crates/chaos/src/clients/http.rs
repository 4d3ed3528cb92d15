//! Plain JSON, tensors as JSON, tensors as bytes, and a Python worker, over HTTP.

use std::{net::SocketAddr, sync::LazyLock, time::Duration};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use super::Stage;
use crate::ledger::Outcome;

/// How long a connection is kept for a next request: less than the server does, which would close
/// it just when one is being sent.
const KEPT: Duration = Duration::from_secs(2);

static CLIENT: LazyLock<Client<HttpConnector, Full<Bytes>>> =
    LazyLock::new(|| Client::builder(TokioExecutor::new()).pool_idle_timeout(KEPT).build_http());

/// What is asked, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Door {
    Plain,
    Tensors,
    Binary,
    Worker,
}

impl Door {
    const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Tensors => "tensors",
            Self::Binary => "binary",
            Self::Worker => "worker",
        }
    }
}

/// A response's status; its body is read and dropped.
pub(crate) async fn get(at: SocketAddr, path: &str) -> anyhow::Result<u16> {
    Ok(send(at, path, None, "", Bytes::new()).await?.0)
}

/// Sends a body, if there is one, and reads the whole answer.
pub(crate) async fn send(
    at: SocketAddr,
    path: &str,
    json_length: Option<usize>,
    method: &str,
    body: Bytes,
) -> anyhow::Result<(u16, Bytes)> {
    let mut request = Request::builder()
        .method(if method.is_empty() { "GET" } else { method })
        .uri(format!("http://{at}{path}"));
    if let Some(length) = json_length {
        request = request.header("inference-header-content-length", length);
    }
    let response = CLIENT.request(request.body(Full::new(body))?).await?;
    let status = response.status().as_u16();
    Ok((status, response.into_body().collect().await?.to_bytes()))
}

/// What a server says of itself.
pub(crate) async fn read(at: SocketAddr, path: &str) -> anyhow::Result<(u16, Value)> {
    let (status, body) = send(at, path, None, "", Bytes::new()).await?;
    Ok((status, serde_json::from_slice(&body)?))
}

pub(crate) async fn post(at: SocketAddr, path: &str, body: &Value) -> anyhow::Result<(u16, Value)> {
    let (status, body) = send(at, path, None, "POST", body.to_string().into()).await?;
    Ok((status, serde_json::from_slice(&body)?))
}

/// What an answer without a result says.
pub(crate) fn refusal(status: u16, body: &[u8]) -> Outcome {
    let said = String::from_utf8_lossy(body).into_owned();
    let code = serde_json::from_slice::<Value>(body).unwrap_or_default();
    match code["code"].as_str() {
        Some("overloaded" | "unavailable" | "deadline_exceeded") => Outcome::Refused(said),
        Some("model_failed" | "internal") => Outcome::Failed(said),
        _ => Outcome::Wrong(format!("{status} {said}")),
    }
}

pub(crate) async fn ask_on_and_on(stage: Stage, door: Door, seed: u64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    while !stage.is_over() {
        let numbers: Vec<i64> = (0..random.random_range(2..9)).map(|_| random.random()).collect();
        stage.settle(door.name(), ask(stage.server.http, door, &numbers)).await;
    }
}

/// Asks once and judges the answer.
pub(crate) async fn ask(at: SocketAddr, door: Door, numbers: &[i64]) -> Outcome {
    let asked = match door {
        Door::Plain => plain(at, "echo", numbers).await,
        Door::Tensors => tensors(at, numbers).await,
        Door::Binary => binary(at, numbers).await,
        Door::Worker => fragile(at, numbers[0], 0).await,
    };
    asked.unwrap_or_else(|error| Outcome::Cut(format!("{error:#}")))
}

pub(crate) async fn plain(at: SocketAddr, model: &str, numbers: &[i64]) -> anyhow::Result<Outcome> {
    let body = json!({ "INPUT": numbers }).to_string();
    let path = format!("/v1/models/{model}/infer");
    let (status, answer) = send(at, &path, None, "POST", body.into()).await?;
    Ok(judge(status, &answer, |answer| &answer["OUTPUT"], numbers))
}

/// Asks the Python worker, which does harm unless `harm` is 0.
pub(crate) async fn fragile(at: SocketAddr, number: i64, harm: i64) -> anyhow::Result<Outcome> {
    let body = json!({ "x": [number, harm] }).to_string();
    let path = "/v1/models/fragile/infer";
    let (status, answer) = send(at, path, None, "POST", body.into()).await?;
    Ok(judge(status, &answer, |answer| &answer["y"], &[number, harm]))
}

async fn tensors(at: SocketAddr, numbers: &[i64]) -> anyhow::Result<Outcome> {
    let body = json!({ "inputs": [{
        "name": "INPUT", "datatype": "INT64", "shape": [1, numbers.len()], "data": numbers }] });
    let path = "/v2/models/echo/infer";
    let (status, answer) = send(at, path, None, "POST", body.to_string().into()).await?;
    Ok(judge(status, &answer, |answer| &answer["outputs"][0]["data"], numbers))
}

async fn binary(at: SocketAddr, numbers: &[i64]) -> anyhow::Result<Outcome> {
    let raw: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    let head = json!({
        "inputs": [{ "name": "INPUT", "datatype": "INT64", "shape": [1, numbers.len()],
                     "parameters": { "binary_data_size": raw.len() } }],
        "parameters": { "binary_data_output": true } })
    .to_string();
    let length = head.len();
    let body = [head.into_bytes(), raw.clone()].concat();
    let path = "/v2/models/echo/infer";
    let (status, answer) = send(at, path, Some(length), "POST", body.into()).await?;
    if status != 200 {
        return Ok(refusal(status, &answer));
    }
    Ok(if answer.ends_with(&raw) { Outcome::Right } else { Outcome::Wrong("other bytes".into()) })
}

pub(crate) fn judge(
    status: u16,
    body: &[u8],
    find: impl Fn(&Value) -> &Value,
    numbers: &[i64],
) -> Outcome {
    if status != 200 {
        return refusal(status, body);
    }
    let answer: Value = serde_json::from_slice(body).unwrap_or_default();
    if *find(&answer) == json!(numbers) {
        Outcome::Right
    } else {
        Outcome::Wrong(format!("{numbers:?} came back as {answer}"))
    }
}
