//! A client that leaves before its request is with the model takes the request along, on every
//! wire, and is counted. Real sockets; the model is held by a gate.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that cannot go on has failed, and it supervises itself"
)]

#[path = "common/streams.rs"]
mod streams;

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, mpsc},
    time::Duration,
};

use axum::{body::Body, http::Request};
use bytes::Bytes;
use hyper_util::rt::{TokioExecutor, TokioIo};
use paceline_api::{
    App, Readiness,
    gate::Gate,
    grpc,
    http::{self, Entrance, Listening, Places, ServeLimits, serve},
    oip::proto::{
        ModelInferRequest, ModelStatisticsRequest,
        grpc_inference_service_client::GrpcInferenceServiceClient,
        model_infer_request::InferInputTensor,
    },
};
use paceline_backend::{Backend, BackendError, Call, Outputs, Ragged};
use paceline_batch::Dropped;
use paceline_pipeline::{
    Answer, Blueprint, Control, Known, Mode, Model, Models, SequenceLimits, VersionPolicy,
};
use paceline_types::{DType, Dim, Signature, TensorSpec};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::transport::{Channel, Endpoint};

const PATIENCE: Duration = Duration::from_secs(10);
const BODY: &str = r#"{"inputs":[{"name":"x","datatype":"FP32","shape":[1,1],"data":[0.5]}]}"#;

/// Gives back what it gets. Once it is served, each call waits until it is let go.
struct Gated {
    signature: Signature,
    gate: Arc<Mutex<Option<mpsc::Receiver<()>>>>,
}

impl Backend for Gated {
    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn run(&mut self, call: &Call<'_>) -> Result<Outputs, BackendError> {
        if let Some(gate) = &*self.gate.lock().unwrap() {
            gate.recv().ok();
        }
        Ok(Outputs { tensors: call.inputs.to_vec(), failed: Vec::new() })
    }
}

/// Loads nothing.
struct Nobody;

impl Control for Nobody {
    fn load<'a>(&'a self, _name: &'a str) -> Answer<'a> {
        Box::pin(async { Ok(()) })
    }

    fn unload<'a>(&'a self, _name: &'a str) -> Answer<'a> {
        Box::pin(async { Ok(()) })
    }

    fn known(&self) -> Vec<Known> {
        Vec::new()
    }
}

/// Both doors to a model whose first request is at the gate.
struct Rig {
    model: Arc<Model>,
    http: SocketAddr,
    grpc: SocketAddr,
    release: mpsc::Sender<()>,
    first: TcpStream,
}

impl Rig {
    async fn open() -> Self {
        let (release, gate) = mpsc::channel();
        let model = model(gate);
        let models = Arc::new(Models::default());
        models.replace("m", vec![Arc::clone(&model)]);
        let app = App {
            streams: streams::no_streams(&models),
            models,
            readiness: Arc::new(Readiness::default()),
            control: Arc::new(Nobody),
            cameras: None,
            max_body: 1 << 20,
            live: Arc::default(),
            metrics: None,
        };
        let stop = CancellationToken::new();
        let router = grpc::router(app.clone(), Gate::open(), stop.clone()).unwrap();
        let grpc = listen(router.into(), &stop).await;
        let http = listen(http::entrance(app, Gate::open()), &stop).await;
        let first = send(http).await;
        let rig = Self { model, http, grpc, release, first };
        rig.until(|model| model.batch_stats().in_flight == 1).await;
        rig
    }

    /// A second request waits behind the first.
    async fn has_second(&self) {
        self.until(|model| model.batch_stats().waiting_items == 1).await;
    }

    /// The second one has left; the first is answered, and nothing else was ever run.
    async fn check(mut self) {
        self.until(|model| model.stats().n_cancelled == 1).await;
        let stats = self.model.batch_stats();
        assert_eq!((stats.waiting_items, stats.items_dropped(Dropped::Cancelled)), (0, 1));
        let mut client = connect(self.grpc).await;
        let asked = ModelStatisticsRequest { name: "m".to_owned(), ..Default::default() };
        let told = client.model_statistics(asked).await.unwrap().into_inner();
        let told = told.model_stats[0].response_stats["0"].cancel.unwrap();
        assert_eq!(told.count, 1);

        self.release.send(()).unwrap();
        let mut head = [0; 12];
        timeout(PATIENCE, self.first.read_exact(&mut head)).await.unwrap().unwrap();
        assert_eq!(&head, b"HTTP/1.1 200");
        let (requests, calls) = (self.model.stats(), self.model.batch_stats().batch_rows.count());
        assert_eq!((requests.n_good, requests.n_failed, calls), (1, 0, 1));
    }

    async fn until(&self, holds: impl Fn(&Model) -> bool) {
        let wait = async {
            while !holds(&self.model) {
                tokio::task::yield_now().await;
            }
        };
        timeout(PATIENCE, wait).await.unwrap();
    }
}

async fn listen(entrance: Entrance, stop: &CancellationToken) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let listening = Listening { listener, tls: None, entrance, places: Places::new(16, 16) };
    tokio::spawn(serve(listening, ServeLimits::default(), TaskTracker::new(), stop.clone()));
    address
}

fn model(gate: mpsc::Receiver<()>) -> Arc<Model> {
    let spec = |name: &str| TensorSpec {
        name: name.to_owned(),
        dtype: DType::F32,
        dims: vec![Dim::Fixed(1)],
    };
    let signature = Signature { inputs: vec![spec("x")], outputs: vec![spec("y")], batched: true };
    let shared = Arc::new(Mutex::new(None));
    let of_model = Arc::clone(&shared);
    let (model, clock) = Model::open(Blueprint {
        name: "m".to_owned(),
        version: 1,
        version_policy: VersionPolicy::default(),
        platform: "test".to_owned(),
        mode: Mode::Batch,
        batch: paceline_batch::Settings { max_items: Some(1), ..Default::default() },
        instances: 1,
        build: Arc::new(move |_| {
            Ok(Box::new(Gated { signature: signature.clone(), gate: Arc::clone(&of_model) }))
        }),
        ragged: Box::new(|_| Ok(Ragged::default())),
        sequences: SequenceLimits::default(),
        warm_up_length: 1,
        adapter: None,
    })
    .unwrap();
    *shared.lock().unwrap() = Some(gate);
    tokio::spawn(clock.run());
    model
}

async fn connect(address: SocketAddr) -> GrpcInferenceServiceClient<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    GrpcInferenceServiceClient::new(endpoint.connect().await.unwrap())
}

/// A request over HTTP/1.1, sent and not yet answered.
async fn send(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let length = BODY.len();
    let head = "POST /v2/models/m/infer HTTP/1.1\r\nHost: test\r\nContent-Length: ";
    stream.write_all(format!("{head}{length}\r\n\r\n{BODY}").as_bytes()).await.unwrap();
    stream
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_http_1_by_closing_the_connection() {
    let rig = Rig::open().await;
    let leaving = send(rig.http).await;
    rig.has_second().await;
    drop(leaving);
    rig.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_http_2_by_resetting_the_stream() {
    let rig = Rig::open().await;
    let stream = TokioIo::new(TcpStream::connect(rig.http).await.unwrap());
    let (mut client, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    tokio::spawn(connection);
    let url = format!("http://{}/v2/models/m/infer", rig.http);
    let request = Request::post(url).body(Body::from(BODY)).unwrap();
    let leaving = tokio::spawn(client.send_request(request));
    rig.has_second().await;
    // The connection stays open: only this stream ends.
    leaving.abort();
    rig.check().await;
    drop(client);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_grpc_by_cancelling_the_call() {
    let rig = Rig::open().await;
    let mut client = connect(rig.grpc).await;
    let request = ModelInferRequest {
        model_name: "m".to_owned(),
        inputs: vec![InferInputTensor {
            name: "x".to_owned(),
            datatype: "FP32".to_owned(),
            shape: vec![1, 1],
            ..InferInputTensor::default()
        }],
        raw_input_contents: vec![Bytes::from_static(&[0; 4])],
        ..ModelInferRequest::default()
    };
    let leaving = tokio::spawn(async move { client.model_infer(request).await });
    rig.has_second().await;
    leaving.abort();
    rig.check().await;
}
