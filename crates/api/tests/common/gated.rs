//! Both doors to a model whose calls wait at a gate, on free ports.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, mpsc},
    time::Duration,
};

use bytes::Bytes;
use paceline_api::{
    App, Readiness,
    gate::Gate,
    grpc,
    http::{self, Bodies, Budget, Entrance, Listening, Places, ServeLimits, serve},
    oip::proto::{
        ModelInferRequest, grpc_inference_service_client::GrpcInferenceServiceClient,
        model_infer_request::InferInputTensor,
    },
};
use paceline_backend::{Backend, BackendError, Call, Outputs, Ragged};
use paceline_pipeline::{
    Answer, Blueprint, Control, Known, Mode, Model, Models, SequenceLimits, VersionPolicy,
};
use paceline_types::{DType, Dim, Signature, TensorSpec};
use tokio::{
    io::AsyncWriteExt as _,
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::transport::{Channel, Endpoint};

use crate::streams;

pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
pub(crate) const BODY: &str =
    r#"{"inputs":[{"name":"x","datatype":"FP32","shape":[1,1],"data":[0.5]}]}"#;

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
pub(crate) struct Rig {
    pub(crate) model: Arc<Model>,
    pub(crate) http: SocketAddr,
    pub(crate) grpc: SocketAddr,
    pub(crate) release: mpsc::Sender<()>,
    pub(crate) first: TcpStream,
}

impl Rig {
    /// With so many bytes for requests.
    pub(crate) async fn open(memory: usize) -> Self {
        let budget = Budget::new(memory);
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
            bodies: Bodies::new(1 << 20, 1 << 20),
            live: Arc::default(),
            metrics: None,
        };
        let stop = CancellationToken::new();
        let router = grpc::router(app.clone(), Gate::open(), stop.clone()).unwrap();
        let grpc = listen(router.into(), &budget, &stop).await;
        let http = listen(http::entrance(app, Gate::open()), &budget, &stop).await;
        let first = send(http).await;
        let rig = Self { model, http, grpc, release, first };
        rig.until(|model| model.batch_stats().in_flight == 1).await;
        rig
    }

    pub(crate) async fn until(&self, holds: impl Fn(&Model) -> bool) {
        let wait = async {
            while !holds(&self.model) {
                tokio::task::yield_now().await;
            }
        };
        timeout(PATIENCE, wait).await.unwrap();
    }
}

async fn listen(entrance: Entrance, budget: &Arc<Budget>, stop: &CancellationToken) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let listening = Listening {
        listener: listener.into(),
        tls: None,
        entrance,
        places: Places::new(16, 16),
        budget: Arc::clone(budget),
    };
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

pub(crate) async fn connect(address: SocketAddr) -> GrpcInferenceServiceClient<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    GrpcInferenceServiceClient::new(endpoint.connect().await.unwrap())
}

/// A request over HTTP/1.1, sent and not yet answered.
pub(crate) async fn send(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let length = BODY.len();
    let head = "POST /v2/models/m/infer HTTP/1.1\r\nHost: test\r\nContent-Length: ";
    stream.write_all(format!("{head}{length}\r\n\r\n{BODY}").as_bytes()).await.unwrap();
    stream
}

/// The same request over gRPC.
pub(crate) fn ask() -> ModelInferRequest {
    ModelInferRequest {
        model_name: "m".to_owned(),
        inputs: vec![InferInputTensor {
            name: "x".to_owned(),
            datatype: "FP32".to_owned(),
            shape: vec![1, 1],
            ..InferInputTensor::default()
        }],
        raw_input_contents: vec![Bytes::from_static(&[0; 4])],
        ..ModelInferRequest::default()
    }
}
