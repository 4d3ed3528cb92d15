//! Frames of several cameras that wait for a model. No Redis.

use std::sync::{Mutex, mpsc};

use futures_util::{StreamExt as _, poll, stream::FuturesOrdered};
use paceline_backend::{Backend, BackendError, Call, Outputs, Ragged};
use paceline_batch::Settings;
use paceline_pipeline::{Blueprint, Mode, Models, SequenceLimits, VersionPolicy};
use paceline_types::{DType, Dim, Signature, TensorSpec};

use super::*;
use crate::{Config, Data, Form, Payload};

/// Gives back what it gets. Once it is served, each call says what it is about and waits until it is
/// let go.
struct Gated {
    signature: Signature,
    gate: Arc<Mutex<Option<Gate>>>,
}

struct Gate {
    arrived: mpsc::Sender<u8>,
    open: mpsc::Receiver<()>,
}

impl Backend for Gated {
    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn run(&mut self, call: &Call<'_>) -> Result<Outputs, BackendError> {
        if let Some(gate) = &*self.gate.lock().unwrap() {
            gate.arrived.send(call.inputs[0].data()[0]).unwrap();
            gate.open.recv().ok();
        }
        Ok(Outputs { tensors: call.inputs.to_vec(), failed: Vec::new() })
    }
}

/// What asks a model that takes one frame at a time.
fn common(gate: Gate) -> Arc<Common> {
    let spec =
        |name: &str| TensorSpec { name: name.to_owned(), dtype: DType::U8, dims: vec![Dim::Any] };
    let signature = Signature { inputs: vec![spec("x")], outputs: vec![spec("y")], batched: true };
    let shared = Arc::new(Mutex::new(None));
    let of_model = Arc::clone(&shared);
    let (model, clock) = Model::open(Blueprint {
        name: "m".to_owned(),
        version: 1,
        version_policy: VersionPolicy::default(),
        platform: "test".to_owned(),
        mode: Mode::Batch,
        batch: Settings { max_items: Some(1), ..Settings::default() },
        instances: 1,
        build: Arc::new(move |_| {
            Ok(Box::new(Gated { signature: signature.clone(), gate: Arc::clone(&of_model) }))
        }),
        ragged: Box::new(|_| Ok(Ragged::default())),
        warm_up_length: 1,
        adapter: None,
        sequences: SequenceLimits::default(),
    })
    .unwrap();
    *shared.lock().unwrap() = Some(gate);
    tokio::spawn(clock.run());
    let models = Arc::new(Models::default());
    models.replace("m", vec![model]);
    let config = Config { model: "m".to_owned(), ..Config::default() };
    let address = config.address().unwrap();
    Arc::new(Common::new(config, address, models))
}

fn frame(camera: &str, data: &'static str) -> Frame {
    let form = Form::Raw { dtype: None, shape: None };
    let payload = Payload { form, data: Data::Inline(data.into()) };
    Frame { camera: camera.to_owned(), seq: None, taken_ms: 0, payload }
}

#[tokio::test]
async fn a_camera_with_many_frames_in_the_queue_keeps_no_other_waiting_for_them() {
    let (arrived, at_the_gate) = mpsc::channel();
    let (release, open) = mpsc::channel();
    let common = common(Gate { arrived, open });
    let mut frames: Vec<Frame> = ["1", "2", "3", "4", "5"].map(|n| frame("flood", n)).into();
    frames.push(frame("other", "x"));
    let mut asked = FuturesOrdered::new();
    let mut order = Vec::new();
    for frame in &frames {
        asked.push_back(through(&common, frame, Key::ANY));
        assert!(poll!(asked.next()).is_pending());
        if order.is_empty() {
            // The others wait behind it.
            order.push(at_the_gate.recv().unwrap());
        }
    }

    drop(release);
    while let Some(outcome) = asked.next().await {
        assert!(matches!(outcome, Outcome::Answer(_)));
    }

    order.extend(at_the_gate.try_iter());
    let place = |data: u8| order.iter().position(|found| *found == data).unwrap();
    assert!(place(b'x') < place(b'4'), "{}", String::from_utf8_lossy(&order));
}
