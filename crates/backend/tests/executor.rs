//! Any backend behind a real batcher: stacked, padded, split, with lane state, and isolated.

use std::sync::{Arc, Mutex};

use paceline_backend::{
    Backend, BackendError, Call, Instance, Item, Output, Outputs, Ragged, StateSpec, run_on_thread,
};
use paceline_batch::{Batcher, Failure, Key, Runner, Settings, Tag};
use paceline_types::{DType, Dim, Signature, Tensor, TensorSpec};
use smallvec::smallvec;
use tokio::sync::oneshot;

/// Adds up what its mask lets through, and its state. Negative numbers fail their row; 99 panics.
struct MaskedSum {
    signature: Signature,
    states: Vec<StateSpec>,
    shapes: Arc<Mutex<Vec<Vec<usize>>>>,
    /// Holds the first call until the test lets go, so that the others meet in a batch.
    gate: Arc<Mutex<Option<std::sync::mpsc::Receiver<()>>>>,
}

fn spec(name: &str, dtype: DType, dims: &[Dim]) -> TensorSpec {
    TensorSpec { name: name.to_owned(), dtype, dims: dims.to_vec() }
}

impl Backend for MaskedSum {
    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn states(&self) -> &[StateSpec] {
        &self.states
    }

    fn run(&mut self, call: &Call<'_>) -> Result<Outputs, BackendError> {
        if let Some(gate) = self.gate.lock().unwrap().take() {
            gate.recv().ok();
        }
        let [values, mask, rest @ ..] = call.inputs else { panic!("two inputs") };
        self.shapes.lock().unwrap().push(values.shape().to_vec());
        let length = values.shape()[1];
        let values = values.to_f32().unwrap();
        assert!(!values.contains(&99.0), "99 panics");
        let (mut sums, mut failed) = (Vec::new(), Vec::new());
        for row in 0..call.rows {
            let own = row * length..(row + 1) * length;
            let sum: f32 =
                own.clone().filter(|&at| mask.data()[at] == 1).map(|at| values[at]).sum();
            if values[own].iter().any(|&value| value < 0.0) {
                failed.push((row, format!("row sums to {sum}")));
            }
            sums.push(sum);
        }
        let mut tensors = Vec::new();
        if let [state] = rest {
            let state = state.to_f32().unwrap();
            sums.iter_mut().zip(state).for_each(|(sum, state)| *sum += state);
        }
        tensors.push(Tensor::from_f32(&[call.rows, 1], &sums).unwrap());
        if !rest.is_empty() {
            tensors.push(Tensor::from_f32(&[1, call.rows], &sums).unwrap());
        }
        Ok(Outputs { tensors, failed })
    }
}

struct Rig {
    batcher: Batcher<Item, Output, Vec<Tensor>>,
    shapes: Arc<Mutex<Vec<Vec<usize>>>>,
    open: std::sync::mpsc::Sender<()>,
    ended: oneshot::Receiver<bool>,
}

fn rig(settings: &Settings, has_state: bool) -> Rig {
    let (open, gate) = std::sync::mpsc::channel();
    let (shapes, gate) =
        (Arc::<Mutex<Vec<Vec<usize>>>>::default(), Arc::new(Mutex::new(Some(gate))));
    let build = {
        let shapes = Arc::clone(&shapes);
        move || {
            let state = StateSpec {
                input: spec("state", DType::F32, &[Dim::Fixed(1)]),
                output: "next".to_owned(),
                batch_axis: 1,
            };
            Box::new(MaskedSum {
                signature: Signature {
                    inputs: vec![
                        spec("values", DType::F32, &[Dim::Any]),
                        spec("mask", DType::U8, &[Dim::Any]),
                    ],
                    outputs: vec![spec("sum", DType::F32, &[Dim::Fixed(1)])],
                    batched: true,
                },
                states: has_state.then_some(state).into_iter().collect(),
                shapes: Arc::clone(&shapes),
                gate: Arc::clone(&gate),
            }) as Box<dyn Backend>
        }
    };
    let ragged = Ragged { inputs: vec![(0, 1)], mask: Some((1, DType::U8)), ..Ragged::default() };
    let instance = Instance::new(build(), Box::new(move || Ok(build())), Arc::new(ragged));
    let (batcher, timekeeper) = Batcher::pair(settings.validate().unwrap());
    tokio::spawn(timekeeper.run());
    let (tell, ended) = oneshot::channel();
    run_on_thread(
        "masked-sum".to_owned(),
        Runner::new(batcher.attach(), instance),
        move |result| {
            tell.send(result.is_ok()).ok();
        },
    )
    .unwrap();
    Rig { batcher, shapes, open, ended }
}

fn item(values: &[f32]) -> (Item, Tag) {
    let inputs = smallvec![Tensor::from_f32(&[1, values.len()], values).unwrap()];
    let length = u32::try_from(values.len()).unwrap();
    (Item::new(inputs), Tag { length, ..Tag::default() })
}

fn sum(outputs: &Output) -> f32 {
    outputs[0].to_f32().unwrap()[0]
}

#[tokio::test]
async fn items_of_different_lengths_share_a_call_and_padding_is_never_heard() {
    let settings = Settings { sizes: vec![1, 2, 4, 8], ..Settings::default() };
    let rig = rig(&settings, false);
    let submit = |values: &[f32]| {
        let (item, tag) = item(values);
        rig.batcher.try_submit(item, &tag).unwrap()
    };

    let first = submit(&[1.0]);
    // The device is held, so these three meet.
    while rig.batcher.stats().in_flight == 0 {
        tokio::task::yield_now().await;
    }
    let others = [submit(&[1.0, 2.0, 4.0]), submit(&[8.0]), submit(&[16.0, 32.0])];
    rig.open.send(()).unwrap();

    assert_eq!(sum(&first.await.unwrap()), 1.0);
    let [a, b, c] = others;
    assert_eq!(sum(&a.await.unwrap()), 7.0);
    assert_eq!(sum(&b.await.unwrap()), 8.0);
    assert_eq!(sum(&c.await.unwrap()), 48.0);
    assert_eq!(*rig.shapes.lock().unwrap(), [vec![1, 1], vec![4, 3]], "padded to an allowed size");
    assert!(0.0 < rig.batcher.stats().padding_share());
}

#[tokio::test]
async fn a_bad_row_fails_alone_and_a_panic_rebuilds_the_instance() {
    let rig = rig(&Settings::default(), false);
    let ask = |values: &[f32]| {
        let (item, tag) = item(values);
        rig.batcher.try_submit(item, &tag).unwrap()
    };
    rig.open.send(()).unwrap();

    let Err(Failure::Model(cause)) = ask(&[-1.0, 3.0]).await else { panic!("it fails") };
    assert_eq!(cause.to_string(), "row sums to 2");
    assert!(matches!(ask(&[99.0]).await, Err(Failure::Panicked)));
    assert_eq!(sum(&ask(&[5.0]).await.unwrap()), 5.0);
}

#[tokio::test]
async fn shapes_that_cannot_be_stacked_fail_alone_where_the_key_lets_them_meet() {
    let rig = rig(&Settings::default(), false);
    let flat = |n: usize| Tensor::from_f32(&[1, 1, n], &vec![1.0; n]).unwrap();
    rig.open.send(()).unwrap();
    let tag = Tag { key: Key::of("odd"), ..Tag::default() };

    let odd = rig.batcher.try_submit(Item::new(smallvec![flat(2)]), &tag).unwrap();

    assert!(matches!(odd.await, Err(Failure::Panicked | Failure::Model(_))));
    let (item, tag) = item(&[5.0]);
    assert_eq!(sum(&rig.batcher.try_submit(item, &tag).unwrap().await.unwrap()), 5.0);
}

#[tokio::test]
async fn a_lane_carries_its_state_and_the_thread_ends_with_the_batcher() {
    let rig = rig(&Settings::default(), true);
    rig.open.send(()).unwrap();
    let lanes = [0.0, 100.0]
        .map(|start| rig.batcher.open_lane(vec![Tensor::from_f32(&[1, 1], &[start]).unwrap()]));

    let mut tickets = Vec::new();
    for value in [1.0, 2.0, 3.0] {
        for lane in &lanes {
            let (item, tag) = item(&[value]);
            tickets.push(lane.try_submit(item, &tag).unwrap());
        }
    }
    let mut sums = Vec::new();
    for ticket in tickets {
        sums.push(sum(&ticket.await.unwrap()));
    }

    assert_eq!(sums, [1.0, 101.0, 3.0, 103.0, 6.0, 106.0]);
    drop((lanes, rig.batcher));
    assert!(rig.ended.await.unwrap(), "the executor ended well");
}

/// Is lost in every call.
struct Lost(Signature, Arc<Mutex<usize>>);

impl Backend for Lost {
    fn signature(&self) -> &Signature {
        &self.0
    }

    fn run(&mut self, _call: &Call<'_>) -> Result<Outputs, BackendError> {
        *self.1.lock().unwrap() += 1;
        Err(BackendError::Crashed("it is gone".to_owned()))
    }
}

#[tokio::test]
async fn a_call_in_which_the_instance_is_lost_is_not_run_again_in_parts() {
    let n_calls = Arc::new(Mutex::new(0));
    let signature =
        Signature { inputs: vec![spec("x", DType::F32, &[])], outputs: vec![], batched: true };
    let (batcher, timekeeper) = Batcher::pair(Settings::default().validate().unwrap());
    tokio::spawn(timekeeper.run());
    let item = || Item::new(smallvec![Tensor::from_f32(&[1], &[0.0]).unwrap()]);
    let mut tickets = Vec::new();
    for _ in 0..4 {
        tickets.push(batcher.submit(item(), &Tag::default()).await.unwrap());
    }
    let lost = Lost(signature, Arc::clone(&n_calls));
    let rebuild = Box::new(|| Err(BackendError::Load("never".to_owned())));
    let instance = Instance::new(Box::new(lost), rebuild, Arc::default());
    run_on_thread("lost".to_owned(), Runner::new(batcher.attach(), instance), |_| ()).unwrap();

    for ticket in tickets {
        let Failure::Model(cause) = ticket.await.unwrap_err() else { panic!("the model's") };
        let error = cause.downcast_ref::<BackendError>().unwrap();
        assert!(matches!(error, BackendError::Crashed(_)), "{error}");
    }
    assert_eq!(*n_calls.lock().unwrap(), 1);
}
