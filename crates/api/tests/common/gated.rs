//! Both doors to a model whose calls wait at a gate, on free ports.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, mpsc},
    time::Duration,
};

use bytes::Bytes;
use paceline_api::{
    gate::Gate,
    grpc,
    http::{self, Budget, Entrance, Listening, Places, ServeLimits, serve},
    oip::proto::{
        ModelInferRequest, grpc_inference_service_client::GrpcInferenceServiceClient,
        model_infer_request::InferInputTensor,
    },
};
use paceline_backend::{Backend, BackendError, Call, Outputs};
use paceline_pipeline::{Blueprint, Model, Models};
use paceline_types::{DType, Dim, Signature, TensorSpec};
use tokio::{
    io::AsyncWriteExt as _,
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::transport::{Channel, Endpoint};

use crate::{app, model};

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
        let models = Arc::new(Models::default());
        let model = open(&models, gate);
        let app = app::app(&models);
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

fn open(models: &Models, gate: mpsc::Receiver<()>) -> Arc<Model> {
    let spec = |name: &str| TensorSpec {
        name: name.to_owned(),
        dtype: DType::F32,
        dims: vec![Dim::Fixed(1)],
    };
    let signature = Signature { inputs: vec![spec("x")], outputs: vec![spec("y")], batched: true };
    let shared = Arc::new(Mutex::new(None));
    let of_model = Arc::clone(&shared);
    let build = Arc::new(move |_| {
        let gate = Arc::clone(&of_model);
        Ok(Box::new(Gated { signature: signature.clone(), gate }) as Box<dyn Backend>)
    });
    let one_at_a_time = paceline_batch::Settings { max_items: Some(1), ..Default::default() };
    let model = model::open(models, Blueprint { batch: one_at_a_time, ..model::blueprint(build) });
    *shared.lock().unwrap() = Some(gate);
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
