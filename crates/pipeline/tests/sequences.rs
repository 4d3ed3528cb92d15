//! Sequences of a stateful model: each has a state of its own, whoever shares its calls.

use std::{path::PathBuf, sync::Arc, time::Duration};

use paceline_backend::{Backend, Ragged};
use paceline_backend_onnx::{Engine, OnnxBackend, OnnxOptions, StateLink};
use paceline_batch::Settings;
use paceline_pipeline::{
    Ask, Blueprint, InferError, Mode, Model, Sequence, SequenceError, SequenceId, SequenceLimits,
    VersionPolicy,
};
use paceline_types::{ErrorCode, Tensor};
use smallvec::smallvec;

fn in_repository(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// A model that answers with what came, and half of what it answered before.
fn smoothed(engine: Engine, sequences: SequenceLimits) -> Arc<Model> {
    let options = OnnxOptions {
        engine,
        states: vec![StateLink {
            input: "STATE_IN".to_owned(),
            output: "STATE_OUT".to_owned(),
            batch_axis: 0,
        }],
        library_dirs: vec![in_repository(".cache/onnxruntime")],
        ..OnnxOptions::new(in_repository("tests/clients/triton_repository/smoothed/1/model.onnx"))
    };
    let blueprint = Blueprint {
        name: "smoothed".to_owned(),
        version: 1,
        version_policy: VersionPolicy::default(),
        platform: "onnx".to_owned(),
        mode: Mode::Batch,
        batch: Settings { max_items: Some(8), ..Settings::default() },
        instances: 2,
        build: Arc::new(move |_| Ok(Box::new(OnnxBackend::load(&options)?) as Box<dyn Backend>)),
        ragged: Box::new(|_| Ok(Ragged::default())),
        sequences,
        warm_up_length: 1,
        adapter: None,
    };
    let (model, clock) = Model::open(blueprint).unwrap();
    tokio::spawn(clock.run());
    model
}

fn ask(id: u64, start: bool, end: bool, value: f32) -> Ask {
    Ask {
        inputs: smallvec![Tensor::from_f32(&[1, 2], &[value, -value]).unwrap()],
        sequence: Some(Sequence { id: SequenceId::Number(id), start, end }),
        ..Ask::default()
    }
}

async fn answer(model: &Model, ask: Ask) -> Result<Vec<f32>, InferError> {
    model.infer(ask).await.map(|(outputs, _)| outputs[0].to_f32().unwrap())
}

fn sequence_error(result: Result<Vec<f32>, InferError>) -> SequenceError {
    match result {
        Err(InferError::Sequence(error)) => error,
        other => panic!("{other:?}"),
    }
}

/// What a sequence alone must give.
fn expected(values: &[f32]) -> Vec<Vec<f32>> {
    let next = |state: &mut f32, value: &f32| {
        *state = *state / 2.0 + value;
        Some(vec![*state, -*state])
    };
    values.iter().scan(0.0, next).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn interleaved_sequences_answer_as_they_would_alone() {
    const STEPS: usize = 20;
    for engine in [Engine::Rten, Engine::OnnxRuntime] {
        let model = smoothed(engine, SequenceLimits::default());
        let clients: Vec<_> = (1..=16_u64)
            .map(|id| {
                let model = Arc::clone(&model);
                tokio::spawn(async move {
                    let values: Vec<f32> = (0..STEPS).map(|n| (id * 7 + n as u64) as f32).collect();
                    let mut answers = Vec::new();
                    for (n, value) in values.iter().enumerate() {
                        let ask = ask(id, n == 0, n == STEPS - 1, *value);
                        answers.push(answer(&model, ask).await.unwrap());
                    }
                    assert_eq!(answers, expected(&values), "{engine:?} {id}");
                })
            })
            .collect();
        for client in clients {
            client.await.unwrap();
        }
        let stats = model.batch_stats();
        assert_eq!(stats.batch_rows.sum(), 16 * STEPS as u128);
    }
}

#[tokio::test]
async fn requests_of_one_sequence_that_do_not_wait_for_each_other_keep_their_order() {
    let model = smoothed(Engine::Rten, SequenceLimits::default());
    let values: Vec<f32> = (1..=32_u8).map(f32::from).collect();

    // Each is submitted when it is first polled, so in order.
    let mut asked = Vec::new();
    for (n, value) in values.iter().enumerate() {
        let mut next = Box::pin(answer(&model, ask(1, n == 0, false, *value)));
        let at_once = poll_once(&mut next);
        asked.push((next, at_once));
    }
    let mut answers = Vec::new();
    for (asked, at_once) in asked {
        answers.push(match at_once {
            Some(answer) => answer.unwrap(),
            None => asked.await.unwrap(),
        });
    }
    assert_eq!(answers, expected(&values));
}

fn poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::Pin::new(future).poll(&mut context) {
        std::task::Poll::Ready(output) => Some(output),
        std::task::Poll::Pending => None,
    }
}

#[tokio::test]
async fn a_request_outside_of_any_sequence_is_told_how_to_be_in_one() {
    let model = smoothed(Engine::Rten, SequenceLimits::default());

    let lost = Ask { sequence: None, ..ask(1, true, false, 1.0) };
    assert_eq!(sequence_error(answer(&model, lost).await), SequenceError::Missing);
    let early = sequence_error(answer(&model, ask(1, false, false, 1.0)).await);
    assert_eq!(early, SequenceError::NotOpen(SequenceId::Number(1)));
    assert_eq!(early.code(), ErrorCode::InvalidInput);
    assert_eq!(early.to_string(), "sequence `1` is not open; begin it with `sequence_start`");
    let wide = Ask {
        inputs: smallvec![Tensor::from_f32(&[2, 2], &[0.0; 4]).unwrap()],
        ..ask(1, true, false, 1.0)
    };
    assert_eq!(sequence_error(answer(&model, wide).await), SequenceError::Rows(2));
}

#[tokio::test]
async fn starting_again_begins_anew_and_ending_ends() {
    let model = smoothed(Engine::Rten, SequenceLimits::default());

    assert_eq!(answer(&model, ask(1, true, false, 4.0)).await.unwrap()[0], 4.0);
    assert_eq!(answer(&model, ask(1, false, false, 0.0)).await.unwrap()[0], 2.0);
    assert_eq!(answer(&model, ask(1, true, false, 8.0)).await.unwrap()[0], 8.0);
    assert_eq!(answer(&model, ask(1, false, true, 0.0)).await.unwrap()[0], 4.0);
    let over = sequence_error(answer(&model, ask(1, false, false, 0.0)).await);
    assert_eq!(over, SequenceError::NotOpen(SequenceId::Number(1)));
    // Start and end in one request leaves nothing either.
    assert_eq!(answer(&model, ask(2, true, true, 1.0)).await.unwrap()[0], 1.0);
    assert!(answer(&model, ask(2, false, false, 1.0)).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_silent_sequence_is_forgotten_and_a_new_one_takes_its_place() {
    let idle = Duration::from_secs(5);
    let model = smoothed(Engine::Rten, SequenceLimits { max_open: 2, max_idle: idle });

    answer(&model, ask(1, true, false, 1.0)).await.unwrap();
    answer(&model, ask(2, true, false, 1.0)).await.unwrap();
    let full = sequence_error(answer(&model, ask(3, true, false, 1.0)).await);
    assert_eq!((&full, full.code()), (&SequenceError::TooMany(2), ErrorCode::Overloaded));
    // One that is open already may begin anew, full or not.
    answer(&model, ask(2, true, false, 1.0)).await.unwrap();

    tokio::time::advance(Duration::from_secs(4)).await;
    answer(&model, ask(2, false, false, 1.0)).await.unwrap();
    tokio::time::advance(Duration::from_secs(2)).await;
    let expired = sequence_error(answer(&model, ask(1, false, false, 1.0)).await);
    assert_eq!(expired, SequenceError::Expired(SequenceId::Number(1), idle));
    answer(&model, ask(2, false, false, 1.0)).await.unwrap();
    answer(&model, ask(3, true, false, 1.0)).await.unwrap();

    tokio::time::advance(Duration::from_secs(6)).await;
    answer(&model, ask(4, true, false, 1.0)).await.unwrap();
    let swept = sequence_error(answer(&model, ask(2, false, false, 1.0)).await);
    assert_eq!(swept, SequenceError::NotOpen(SequenceId::Number(2)));
}

#[tokio::test(start_paused = true)]
async fn a_sequence_is_forgotten_only_after_it_was_silent_for_longer_than_it_may() {
    let idle = Duration::from_secs(5);
    let model = smoothed(Engine::Rten, SequenceLimits { max_open: 2, max_idle: idle });
    assert_eq!(model.sequence_idle(), Some(idle));

    answer(&model, ask(1, true, false, 1.0)).await.unwrap();
    tokio::time::advance(idle).await;
    answer(&model, ask(1, false, false, 1.0)).await.unwrap();
    tokio::time::advance(idle + Duration::from_nanos(1)).await;
    let expired = sequence_error(answer(&model, ask(1, false, false, 1.0)).await);
    assert_eq!(expired, SequenceError::Expired(SequenceId::Number(1), idle));
}

#[tokio::test(start_paused = true)]
async fn silent_ones_are_looked_for_now_and_then_and_whenever_there_is_no_room() {
    let idle = Duration::from_secs(5);
    let model = smoothed(Engine::Rten, SequenceLimits { max_open: 2, max_idle: idle });
    let began = tokio::time::Instant::now();
    let until = |half_seconds| {
        let at = began + half_seconds * Duration::from_millis(500);
        tokio::time::advance(at - tokio::time::Instant::now())
    };
    let is_open = async |id| answer(&model, ask(id, false, false, 1.0)).await.is_ok();

    // They are looked for when the first begins, and again from 5 s on.
    answer(&model, ask(1, true, false, 1.0)).await.unwrap();
    until(8).await;
    assert!(is_open(1).await);
    until(12).await;
    answer(&model, ask(2, true, false, 1.0)).await.unwrap();
    let full = sequence_error(answer(&model, ask(3, true, false, 1.0)).await);
    assert_eq!(full, SequenceError::TooMany(2), "the first was heard of 2 s ago");

    // The next time is at 11 s, but by 9.5 the first is silent and there is no room.
    until(19).await;
    answer(&model, ask(3, true, false, 1.0)).await.unwrap();
    assert!(!is_open(1).await && is_open(2).await && is_open(3).await);

    // There is room, and it is time.
    answer(&model, ask(3, false, true, 1.0)).await.unwrap();
    until(31).await;
    answer(&model, ask(4, true, false, 1.0)).await.unwrap();
    let gone = sequence_error(answer(&model, ask(2, false, false, 1.0)).await);
    assert_eq!(gone, SequenceError::NotOpen(SequenceId::Number(2)));
}

#[tokio::test]
async fn a_sequence_whose_first_request_was_refused_has_not_begun() {
    let model = smoothed(Engine::Rten, SequenceLimits { max_open: 1, ..SequenceLimits::default() });
    model.close();

    for id in [1, 2] {
        let refused = answer(&model, ask(id, true, false, 1.0)).await.unwrap_err();
        assert!(matches!(refused, InferError::Refused(_)), "there is a place: {refused}");
    }
}
