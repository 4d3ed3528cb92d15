//! Requests with more rows than a batch may have, and requests whose client leaves.

use std::{
    sync::{Arc, Mutex, mpsc},
    time::Duration,
};

use paceline_backend::{Backend, BackendError, Call, Outputs, Ragged};
use paceline_batch::{Dropped, Priority, Settings};
use paceline_pipeline::{Ask, Blueprint, InferError, Mode, Model, SequenceLimits, VersionPolicy};
use paceline_types::{DType, Dim, ErrorCode, Signature, Tensor, TensorSpec};
use smallvec::smallvec;

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
            // A gate that is gone is open.
            gate.recv().ok();
        }
        Ok(Outputs { tensors: call.inputs.to_vec(), failed: Vec::new() })
    }
}

fn open(mode: Mode, batch: Settings, gate: Option<mpsc::Receiver<()>>) -> Arc<Model> {
    let spec = |name: &str| TensorSpec {
        name: name.to_owned(),
        dtype: DType::F32,
        dims: vec![Dim::Fixed(1)],
    };
    let signature = Signature { inputs: vec![spec("x")], outputs: vec![spec("y")], batched: true };
    let shared = Arc::new(Mutex::new(None));
    let of_model = Arc::clone(&shared);
    let blueprint = Blueprint {
        name: "m".to_owned(),
        version: 1,
        version_policy: VersionPolicy::default(),
        platform: "test".to_owned(),
        mode,
        batch,
        instances: 1,
        build: Arc::new(move |_| {
            Ok(Box::new(Gated { signature: signature.clone(), gate: Arc::clone(&of_model) }))
        }),
        ragged: Box::new(|_| Ok(Ragged::default())),
        sequences: SequenceLimits::default(),
        warm_up_length: 1,
        adapter: None,
    };
    let (model, clock) = Model::open(blueprint).unwrap();
    *shared.lock().unwrap() = gate;
    tokio::spawn(clock.run());
    model
}

fn at_most(max_items: usize) -> Settings {
    Settings { max_items: Some(max_items), ..Settings::default() }
}

fn ask(rows: usize) -> Ask {
    let values: Vec<f32> = (0..rows).map(|n| n as f32).collect();
    Ask { inputs: smallvec![Tensor::from_f32(&[rows, 1], &values).unwrap()], ..Ask::default() }
}

#[tokio::test]
async fn a_request_larger_than_a_batch_is_split_and_joined_in_order() {
    for mode in [Mode::Batch, Mode::Pool] {
        let model = open(mode, at_most(4), None);
        let per_part = if mode == Mode::Batch { 4 } else { 1 };
        for rows in [1, 4, 5, 23] {
            let (outputs, ride) = model.infer(ask(rows)).await.unwrap();
            assert_eq!(outputs[..], ask(rows).inputs[..], "{rows} rows");
            assert_eq!(ride.parts, rows.div_ceil(per_part), "{rows} rows");
        }
        let stats = model.stats();
        assert_eq!((stats.n_good, stats.n_rows), (4, 33));
    }
}

#[tokio::test]
async fn a_cost_that_one_batch_may_not_have_splits_too() {
    let model = open(Mode::Batch, Settings { max_cost: Some(3), ..at_most(4) }, None);

    let (outputs, ride) = model.infer(ask(7)).await.unwrap();
    assert_eq!((&outputs[..], ride.parts), (&ask(7).inputs[..], 3));
}

#[tokio::test]
async fn parts_are_bounded_in_number_and_by_the_queue() {
    let model = open(Mode::Batch, at_most(2), None);
    let refused = model.infer(ask(513)).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::InvalidInput);
    assert_eq!(
        refused.to_string(),
        "the request has 513 rows; at most 512 are taken at once, so send it in pieces"
    );

    let (_gate, shut) = mpsc::channel();
    let small = Settings { queue_items: Some(4), ..at_most(2) };
    let model = open(Mode::Batch, small, Some(shut));
    let refused = model.infer(ask(100)).await.unwrap_err();
    assert!(matches!(refused, InferError::Refused(_)), "{refused}");
    assert_eq!(refused.code(), ErrorCode::Overloaded);
    // What was taken in of it is withdrawn: only what already runs may be left.
    assert!(model.batch_stats().waiting_items == 0);
}

#[tokio::test]
async fn a_client_that_leaves_takes_every_part_along_and_is_counted() {
    let (release, gate) = mpsc::channel();
    let model = open(Mode::Batch, at_most(2), Some(gate));
    let running = tokio::spawn({
        let model = Arc::clone(&model);
        async move { model.infer(ask(1)).await }
    });
    until(|| model.batch_stats().in_flight == 1).await;

    let leaving = tokio::spawn({
        let model = Arc::clone(&model);
        async move { model.infer(ask(9)).await }
    });
    until(|| model.batch_stats().waiting_items == 5).await;
    leaving.abort();
    leaving.await.unwrap_err();

    let stats = model.batch_stats();
    assert_eq!((stats.waiting_items, stats.items_dropped(Dropped::Cancelled)), (0, 5));
    assert_eq!((model.stats().n_cancelled, model.stats().n_failed), (1, 0));
    release.send(()).unwrap();
    running.await.unwrap().unwrap();
    assert_eq!((model.stats().n_good, model.batch_stats().batch_rows.count()), (1, 1));
}

#[tokio::test]
async fn every_part_has_the_requests_deadline() {
    let (_gate, shut) = mpsc::channel();
    let model = open(Mode::Batch, at_most(2), Some(shut));
    let running = tokio::spawn({
        let model = Arc::clone(&model);
        async move { model.infer(ask(1)).await }
    });
    until(|| model.batch_stats().in_flight == 1).await;

    let timeout = Some(Duration::from_millis(20));
    let late = model.infer(Ask { timeout, ..ask(9) }).await.unwrap_err();
    assert_eq!(late.code(), ErrorCode::DeadlineExceeded);
    until(|| model.batch_stats().waiting_items == 0).await;
    running.abort();
}

/// Asks a model whose every call has one row, while it is busy; gives in which order it answered.
async fn order(asks: Vec<Ask>) -> Vec<usize> {
    let (release, gate) = mpsc::channel();
    let model = open(Mode::Batch, at_most(1), Some(gate));
    let infer = |ask: Ask| {
        let model = Arc::clone(&model);
        tokio::spawn(async move { model.infer(ask).await.unwrap().1.batch })
    };
    let running = infer(ask(1));
    until(|| model.batch_stats().in_flight == 1).await;
    let mut asked = Vec::new();
    for ask in asks {
        asked.push(infer(ask));
        until(|| model.batch_stats().waiting_items == asked.len()).await;
    }
    drop(release);

    running.await.unwrap();
    let mut answered = Vec::new();
    for (at, asked) in asked.into_iter().enumerate() {
        answered.push((asked.await.unwrap(), at));
    }
    answered.sort_unstable();
    answered.into_iter().map(|(_, at)| at).collect()
}

#[tokio::test]
async fn what_a_request_says_of_itself_decides_when_it_is_served() {
    let of = |stream| Ask { stream: Some(stream), ..ask(1) };
    let urgent = |priority| Ask { priority, ..ask(1) };

    assert_eq!(order(vec![ask(1), ask(1), ask(1)]).await, [0, 1, 2]);
    let fair = order(vec![of(1), of(1), of(1), of(2)]).await;
    assert_ne!(fair[3], 3, "one stream's items do not wait for all of another's: {fair:?}");
    assert_eq!(order(vec![urgent(Priority::LOW), urgent(Priority::NORMAL)]).await, [1, 0]);
}

#[tokio::test]
async fn who_waits_with_more_gives_way_and_bytes_count() {
    let (_gate, shut) = mpsc::channel();
    let model = open(Mode::Batch, Settings { queue_items: Some(2), ..at_most(1) }, Some(shut));
    let infer = |client| {
        let (model, ask) = (Arc::clone(&model), Ask { client: Some(client), ..ask(1) });
        tokio::spawn(async move { model.infer(ask).await })
    };
    let running = infer(1);
    until(|| model.batch_stats().in_flight == 1).await;
    let [_first, second] = [infer(1), infer(1)];
    until(|| model.batch_stats().waiting_items == 2).await;
    let other = infer(2);
    let gave_way = second.await.unwrap().unwrap_err();
    assert_eq!(gave_way.code(), ErrorCode::Overloaded, "{gave_way}");
    assert!(!other.is_finished() && !running.is_finished());

    let (_gate, shut) = mpsc::channel();
    let model = open(Mode::Batch, Settings { queue_bytes: Some(12), ..at_most(4) }, Some(shut));
    let infer = |rows| {
        let model = Arc::clone(&model);
        tokio::spawn(async move { model.infer(ask(rows)).await })
    };
    let _running = infer(1);
    until(|| model.batch_stats().in_flight == 1).await;
    let _waiting = infer(3);
    until(|| model.batch_stats().waiting_items == 1).await;
    let refused = model.infer(ask(1)).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::Overloaded, "twelve bytes wait already: {refused}");
}

#[tokio::test]
async fn who_waits_for_room_is_not_refused_and_goes_in_parts_where_it_must() {
    let patient = |rows| Ask { waits_for_room: true, ..ask(rows) };
    let model = open(Mode::Batch, at_most(2), None);
    for (rows, parts) in [(1, 1), (2, 1), (3, 2), (5, 3)] {
        let (outputs, ride) = model.infer(patient(rows)).await.unwrap();
        assert_eq!((&outputs[..], ride.parts), (&ask(rows).inputs[..], parts), "{rows} rows");
    }
    let (_, ride) = model.infer(ask(512)).await.unwrap();
    assert_eq!(ride.parts, 256, "as many as may be");

    for rows in [1, 2] {
        let (release, gate) = mpsc::channel();
        let model = open(Mode::Batch, Settings { queue_items: Some(2), ..at_most(2) }, Some(gate));
        let infer = |ask: Ask| {
            let model = Arc::clone(&model);
            tokio::spawn(async move { model.infer(ask).await })
        };
        let running = infer(ask(1));
        until(|| model.batch_stats().in_flight == 1).await;
        let [first, second] = [infer(ask(1)), infer(ask(1))];
        until(|| model.batch_stats().waiting_items == 2).await;
        assert!(model.infer(ask(rows)).await.is_err(), "there is no room");
        let patient = infer(patient(rows));
        tokio::task::yield_now().await;
        drop(release);
        for answer in [running, first, second, patient] {
            answer.await.unwrap().unwrap();
        }
    }
}

/// Lets the other tasks go on until something holds.
async fn until(holds: impl Fn() -> bool) {
    while !holds() {
        tokio::task::yield_now().await;
    }
}
