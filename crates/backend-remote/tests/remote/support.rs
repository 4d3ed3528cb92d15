//! Servers to be remote: a Paceline in this process, and one that does what a test tells it.

use std::{
    net::{SocketAddr, TcpListener},
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use paceline_backend::{Backend as _, BackendError, Call, Outputs};
use paceline_backend_remote::{RemoteBackend, RemoteModel, RemoteOptions};
use paceline_server::{Server, config::load::load};
use paceline_types::Tensor;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// Another Paceline. Dropping it ends it, with its connections.
pub(crate) struct Paceline {
    runtime: Option<Runtime>,
    http: SocketAddr,
    grpc: SocketAddr,
}

impl Paceline {
    /// With simulated models, each with its settings.
    pub(crate) fn start(models: &[(&str, &[&str])]) -> Self {
        let mut sets = vec![
            "server.listen=127.0.0.1:0".to_owned(),
            "server.grpc_listen=127.0.0.1:0".to_owned(),
            "server.model_repository=".to_owned(),
        ];
        for (name, settings) in models {
            sets.push(format!("models.{name}.backend=simulated"));
            sets.extend(settings.iter().map(|setting| format!("models.{name}.{setting}")));
        }
        let runtime = Runtime::new().unwrap();
        let (http, grpc) = runtime.block_on(async {
            let server = Server::build(load(None, [], &sets).unwrap()).await.unwrap();
            let addresses = (server.address(), server.grpc_address());
            tokio::spawn(server.run(std::future::pending()));
            addresses
        });
        Self { runtime: Some(runtime), http, grpc }
    }

    /// Its endpoints: over HTTP and over gRPC.
    pub(crate) fn endpoints(&self) -> [String; 2] {
        [format!("http://{}", self.http), format!("grpc://{}", self.grpc)]
    }
}

impl Drop for Paceline {
    fn drop(&mut self) {
        self.runtime.take().unwrap().shutdown_background();
    }
}

/// What a told server does with the next calls.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Does {
    /// Gives back what came.
    Echo,
    /// Never answers.
    Hang,
    /// Closes the connection in the middle of its answer.
    Vanish,
    /// Answers with what is no answer.
    Babble,
    /// Answers with a row too many.
    AddRow,
    /// Claims more bytes than there are.
    Lie,
    /// Answers with this status.
    Refuse(u16),
}

/// The shape of a call that came, and its token.
pub(crate) type Came = (Value, Option<String>);

/// A server over HTTP with one model `m`, an echo of bytes, that does what it is told.
#[derive(Clone)]
pub(crate) struct Told {
    does: Arc<Mutex<Does>>,
    calls: Arc<Mutex<Vec<Came>>>,
    extent: i64,
}

impl Told {
    /// Starts one whose rows have so many bytes, -1 for any.
    pub(crate) fn start(extent: i64) -> (Self, TestServer) {
        Self::start_at(TcpListener::bind("127.0.0.1:0").unwrap(), extent)
    }

    /// As [`start`](Self::start), where somebody listens already and does not answer.
    pub(crate) fn start_at(listener: TcpListener, extent: i64) -> (Self, TestServer) {
        let does = Arc::new(Mutex::new(Does::Echo));
        let told = Self { does, calls: Arc::default(), extent };
        let runtime = Runtime::new().unwrap();
        listener.set_nonblocking(true).unwrap();
        let entered = runtime.enter();
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        drop(entered);
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new()
            .route("/v2/models/m", get(metadata))
            .route("/v2/models/m/config", get(async || axum::Json(json!({"max_batch_size": 8}))))
            .route("/v2/models/m/ready", get(ready))
            .route("/v2/models/m/infer", post(infer))
            .with_state(told.clone());
        runtime.spawn(async move { axum::serve(listener, router).await.unwrap() });
        (told, TestServer { runtime: Some(runtime), endpoint })
    }

    pub(crate) fn tell(&self, does: Does) {
        *self.does.lock().unwrap() = does;
    }

    pub(crate) fn calls(&self) -> Vec<Came> {
        self.calls.lock().unwrap().clone()
    }
}

/// Keeps a told server running.
pub(crate) struct TestServer {
    runtime: Option<Runtime>,
    pub(crate) endpoint: String,
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.runtime.take().unwrap().shutdown_background();
    }
}

async fn metadata(State(told): State<Told>) -> axum::Json<Value> {
    let tensor = |name| json!({"name": name, "datatype": "UINT8", "shape": [-1, told.extent]});
    axum::Json(json!({"name": "m", "inputs": [tensor("x")], "outputs": [tensor("y")]}))
}

async fn ready(State(told): State<Told>) -> StatusCode {
    let does = *told.does.lock().unwrap();
    if does == Does::Echo { StatusCode::OK } else { StatusCode::BAD_REQUEST }
}

async fn infer(State(told): State<Told>, headers: HeaderMap, body: Bytes) -> Response {
    let n_head: usize =
        headers["inference-header-content-length"].to_str().unwrap().parse().unwrap();
    let asked: Value = serde_json::from_slice(&body[..n_head]).unwrap();
    let shape = asked["inputs"][0]["shape"].clone();
    let token = headers.get("authorization").map(|token| token.to_str().unwrap().to_owned());
    told.calls.lock().unwrap().push((shape.clone(), token));
    let data = body.slice(n_head..);
    let does = *told.does.lock().unwrap();
    let rows = shape[0].as_u64().unwrap();
    match does {
        Does::Echo => answer(&shape, data.len(), &data),
        Does::Hang => std::future::pending().await,
        Does::Vanish => {
            let cut = Err::<Bytes, _>(std::io::Error::other("gone"));
            Body::from_stream(futures_util::stream::once(async { cut })).into_response()
        }
        Does::Babble => "<html>hello</html>".into_response(),
        Does::AddRow => answer(&json!([rows + 1, shape[1]]), data.len(), &data),
        Does::Lie => answer(&shape, usize::MAX, &data),
        Does::Refuse(status) => {
            let said = axum::Json(json!({"error": "told to\nrefuse"}));
            (StatusCode::from_u16(status).unwrap(), said).into_response()
        }
    }
}

fn answer(shape: &Value, n_bytes: usize, data: &[u8]) -> Response {
    let head = json!({"model_name": "m", "outputs": [{
        "name": "y", "datatype": "UINT8", "shape": shape, "parameters": {"binary_data_size": n_bytes}
    }]})
    .to_string();
    let mut response = [head.as_bytes(), data].concat().into_response();
    let n_head = HeaderValue::from(head.len());
    response.headers_mut().insert("inference-header-content-length", n_head);
    response
}

/// An address at which nobody listens.
pub(crate) fn nobody() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// Options for model `m` at some endpoints, with no patience for probes to interfere.
pub(crate) fn options(endpoints: &[&str]) -> RemoteOptions {
    let endpoints = endpoints.iter().map(|endpoint| endpoint.parse().unwrap()).collect();
    RemoteOptions {
        health_interval: Duration::from_hours(1),
        first_pause: Duration::from_hours(1),
        load_timeout: Duration::ZERO,
        ..RemoteOptions::new("m", endpoints)
    }
}

pub(crate) fn open(options: RemoteOptions) -> Result<RemoteBackend, BackendError> {
    RemoteModel::new(options).open()
}

/// Calls with so many rows of three bytes.
pub(crate) fn call(backend: &mut RemoteBackend, rows: usize) -> Result<Outputs, BackendError> {
    let data: Vec<u8> = (0..rows * 3).map(|at| u8::try_from(at).unwrap()).collect();
    let shape = [rows, 3].as_slice().into();
    let input = Tensor::build(paceline_types::DType::U8, shape, data.into()).unwrap();
    let outputs = backend.run(&Call { inputs: std::slice::from_ref(&input), rows })?;
    assert_eq!(outputs.tensors, [input]);
    Ok(outputs)
}

/// Settings of a simulated model that is an echo of bytes, as a told server has.
pub(crate) const ECHO: &[&str] =
    &["simulated.input=x", "simulated.output=y", "simulated.dtype=UINT8"];
