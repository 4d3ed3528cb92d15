//! One simulated model `m` behind the gRPC door on a free port.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use paceline_api::{
    App, Readiness,
    gate::Gate,
    grpc,
    http::{Budget, Listening, Places, ServeLimits, serve},
    oip::proto::{
        ModelInferRequest, grpc_inference_service_client::GrpcInferenceServiceClient,
        model_infer_request::InferInputTensor,
    },
};
use paceline_backend::{
    Backend, BackendError, Call, Early, EarlyOutputs, Outputs, Simulated, StackedCall,
    simulated::Settings,
};
use paceline_pipeline::{Answer, Blueprint, Build, Control, ControlError, Known, Model, Models};
use paceline_types::{ErrorCode, Signature, Tensor};
use tokio::{net::TcpListener, time::timeout};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::transport::{Channel, Endpoint};

use crate::{app, model};

const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) struct Door {
    app: App,
    model: Arc<Model>,
    channel: Channel,
    connections: TaskTracker,
    stop: CancellationToken,
}

impl Door {
    /// Serves a simulated model that takes one item at a time.
    pub(crate) async fn open(settings: Settings) -> Self {
        Self::open_built(Arc::new(move |instance| {
            Ok(Box::new(Simulated::build(settings.clone(), instance as u64).unwrap()))
        }))
        .await
    }

    /// Serves a model that counts up to its number and gives each on the way.
    pub(crate) async fn open_counting() -> Self {
        let simulated = Simulated::build(Settings::default(), 0).unwrap();
        let signature = simulated.signature().clone();
        Self::open_built(Arc::new(move |_| Ok(Box::new(Counting(signature.clone()))))).await
    }

    async fn open_built(build: Build) -> Self {
        let one_at_a_time =
            paceline_batch::Settings { max_items: Some(1), ..paceline_batch::Settings::default() };
        let models = Arc::new(Models::default());
        let model =
            model::open(&models, Blueprint { batch: one_at_a_time, ..model::blueprint(build) });
        let (connections, stop) = (TaskTracker::new(), CancellationToken::new());
        let app = App { control: Arc::new(OneModel), ..app::app(&models) };
        app.readiness.set(true);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = grpc::router(app.clone(), Gate::open(), stop.clone()).unwrap();
        let listening = Listening {
            listener: listener.into(),
            tls: None,
            entrance: router.into(),
            places: Places::new(16, 16),
            budget: Budget::new(64 << 20),
        };
        let limits = ServeLimits::default();
        tokio::spawn(serve(listening, limits, connections.clone(), stop.clone()));
        let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
        Self { app, model, channel: endpoint.connect().await.unwrap(), connections, stop }
    }

    pub(crate) fn channel(&self) -> Channel {
        self.channel.clone()
    }

    pub(crate) fn client(&self) -> GrpcInferenceServiceClient<Channel> {
        GrpcInferenceServiceClient::new(self.channel())
    }

    pub(crate) fn model(&self) -> &Model {
        &self.model
    }

    pub(crate) fn readiness(&self) -> &Readiness {
        &self.app.readiness
    }

    /// What the server does when it is told to stop, until the last connection is closed.
    pub(crate) async fn drain(self) {
        self.app.readiness.set(false);
        self.stop.cancel();
        self.connections.close();
        timeout(PATIENCE, self.connections.wait()).await.unwrap();
    }
}

/// Knows `m`, which is there already.
struct OneModel;

impl Control for OneModel {
    fn load<'a>(&'a self, name: &'a str) -> Answer<'a> {
        Box::pin(async move {
            if name == "m" {
                return Ok(());
            }
            let message = format!("there is no model `{name}`");
            Err(ControlError { code: ErrorCode::NotFound, message })
        })
    }

    fn unload<'a>(&'a self, name: &'a str) -> Answer<'a> {
        self.load(name)
    }

    fn known(&self) -> Vec<Known> {
        vec![Known { name: "m".to_owned(), version: Some(1), reason: None }]
    }
}

/// A model that takes long enough for something to wait behind it.
pub(crate) fn slow() -> Settings {
    Settings { delay: Duration::from_millis(200), ..Settings::default() }
}

/// A request for one row.
pub(crate) fn ask(id: &str, values: &[f32]) -> ModelInferRequest {
    let data: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    ModelInferRequest {
        model_name: "m".to_owned(),
        id: id.to_owned(),
        inputs: vec![InferInputTensor {
            name: "INPUT".to_owned(),
            datatype: "FP32".to_owned(),
            shape: vec![1, i64::try_from(values.len()).unwrap()],
            ..InferInputTensor::default()
        }],
        raw_input_contents: vec![Bytes::from(data)],
        ..ModelInferRequest::default()
    }
}

/// Waits, within bounds, for what another task does in its own time.
pub(crate) async fn eventually(holds: impl Fn() -> bool) {
    let wait = async {
        while !holds() {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, wait).await.unwrap();
}

/// Counts up to the number it gets; 13 is as far as it comes.
struct Counting(Signature);

impl Backend for Counting {
    fn signature(&self) -> &Signature {
        &self.0
    }

    fn streams(&self) -> bool {
        true
    }

    fn run(&mut self, _call: &Call<'_>) -> Result<Outputs, BackendError> {
        Ok(Outputs::default())
    }

    fn run_stacked(
        &mut self,
        call: &StackedCall<'_>,
        early: &mut Early<'_>,
    ) -> Result<Outputs, BackendError> {
        let goal = call.inputs[0].to_tensor().to_f32().unwrap()[0];
        for n in (1..=20_u8).map(f32::from).take_while(|n| *n <= goal) {
            if n == 13.0 {
                return Err(BackendError::Failed("thirteen".to_owned()));
            }
            let tensors = vec![Tensor::from_f32(&[1, 1], &[n]).unwrap()];
            let outputs = Outputs { tensors, failed: Vec::new() };
            if !early(EarlyOutputs { outputs, silent: Vec::new() }) {
                break;
            }
        }
        Ok(Outputs::default())
    }
}
