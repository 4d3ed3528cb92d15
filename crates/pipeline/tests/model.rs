//! Models as they are served: their modes, what may share a call, and when they are ready.

use std::{sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use paceline_backend::{Backend, BackendError, Call, Outputs, Ragged, Simulated, simulated};
use paceline_batch::{FireReason, Settings};
use paceline_pipeline::{
    Ask, Blueprint, Build, InferError, Mode, Model, Models, SequenceLimits, VersionPolicy,
};
use paceline_types::{ErrorCode, Signature, Tensor};
use smallvec::smallvec;
use tokio::time::advance;

fn blueprint(simulated: simulated::Settings) -> Blueprint {
    Blueprint {
        name: "m".to_owned(),
        version: 1,
        version_policy: VersionPolicy::default(),
        platform: "paceline_simulated".to_owned(),
        mode: Mode::Batch,
        batch: Settings::default(),
        instances: 1,
        build: Arc::new(move |instance| {
            let model = Simulated::build(simulated.clone(), instance as u64).unwrap();
            Ok(Box::new(model) as Box<dyn Backend>)
        }),
        ragged: Box::new(|_| Ok(Ragged::default())),
        sequences: SequenceLimits::default(),
        warm_up_length: 4,
        adapter: None,
    }
}

fn taking(millis: u64) -> simulated::Settings {
    simulated::Settings { delay: Duration::from_millis(millis), ..simulated::Settings::default() }
}

fn open(blueprint: Blueprint) -> Arc<Model> {
    let (model, clock) = Model::open(blueprint).unwrap();
    tokio::spawn(clock.run());
    model
}

fn ask(length: usize) -> Ask {
    let values = vec![1.0; length];
    Ask { inputs: smallvec![Tensor::from_f32(&[1, length], &values).unwrap()], ..Ask::default() }
}

/// Asks all at once; gives how many items shared each one's call.
async fn shared_by(model: &Arc<Model>, lengths: &[usize]) -> Vec<usize> {
    let asked: Vec<_> = lengths
        .iter()
        .map(|&length| {
            let model = Arc::clone(model);
            tokio::spawn(async move { model.infer(ask(length)).await.unwrap().1.items })
        })
        .collect();
    let mut shared = Vec::new();
    for asked in asked {
        shared.push(asked.await.unwrap());
    }
    shared
}

#[tokio::test]
async fn requests_share_calls_and_different_shapes_never_do() {
    let model = open(blueprint(taking(20)));

    let shared = shared_by(&model, &[2, 2, 2, 3, 3, 2, 2, 3]).await;

    assert!(shared.iter().any(|&items| 1 < items), "{shared:?}");
    assert!(shared.iter().all(|&items| items <= 5), "five of one shape, three of the other");
    assert_eq!(model.stats().n_good, 8);
}

#[tokio::test]
async fn a_pool_runs_one_by_one_on_all_its_instances() {
    let model = open(Blueprint { mode: Mode::Pool, instances: 3, ..blueprint(taking(20)) });

    let shared = shared_by(&model, &[2; 9]).await;

    assert_eq!(shared, [1; 9]);
    assert_eq!(model.batch_stats().batches_fired(FireReason::Full), 9, "nothing waits for company");
}

/// Takes 20 ms of a clock that is paused.
struct Paused(Simulated);

impl Backend for Paused {
    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn is_instant(&self) -> bool {
        true
    }

    fn run(&mut self, call: &Call<'_>) -> Result<Outputs, BackendError> {
        // The clock is moved at once; what is left is to let others have a turn.
        advance(Duration::from_millis(20)).now_or_never();
        self.0.run(call)
    }
}

#[tokio::test(start_paused = true)]
async fn direct_calls_are_never_dropped_for_being_late() {
    let late = || Ask { timeout: Some(Duration::from_millis(15)), ..ask(2) };
    let open = |mode| {
        let build: Build = Arc::new(|_| {
            let model = Simulated::build(simulated::Settings::default(), 0).unwrap();
            Ok(Box::new(Paused(model)))
        });
        open(Blueprint { mode, build, ..blueprint(taking(0)) })
    };

    let refused = open(Mode::Batch).infer(late()).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::DeadlineExceeded, "{refused}");
    let (_, ride) = open(Mode::Direct).infer(late()).await.unwrap();
    assert_eq!((ride.items, ride.took), (1, Duration::from_millis(20)));
}

#[tokio::test]
async fn what_does_not_fit_is_told_before_it_is_queued() {
    let model = open(blueprint(taking(0)));
    let wrong =
        Ask { inputs: smallvec![Tensor::from_f32(&[2], &[1.0, 2.0]).unwrap()], ..Ask::default() };

    let error = model.infer(wrong).await.unwrap_err();

    assert_eq!(error.code(), ErrorCode::InvalidInput);
    assert_eq!(error.to_string(), "input `INPUT` has shape [-1, -1], but [2] was given");
    assert_eq!((model.stats().n_failed, model.batch_stats().accepted), (1, 0));
}

#[tokio::test]
async fn a_failing_model_says_so_in_its_own_words_and_stays_ready() {
    let model = open(blueprint(simulated::Settings { failure_rate: 1.0, ..taking(0) }));

    let error = model.infer(ask(1)).await.unwrap_err();

    assert_eq!(error.code(), ErrorCode::ModelFailed);
    assert_eq!(error.to_string(), "the model failed: Unexpected inference failure");
    assert!(model.is_ready());
}

#[tokio::test]
async fn replacing_a_model_answers_what_the_old_one_accepted() {
    let models = Models::default();
    models.replace("m", vec![open(blueprint(taking(50)))]);
    let old = models.find("m", None).unwrap();
    let under_way = tokio::spawn(async move { old.infer(ask(1)).await });
    while models.find("m", None).unwrap().batch_stats().accepted == 0 {
        tokio::task::yield_now().await;
    }

    models.replace("m", vec![open(Blueprint { version: 2, ..blueprint(taking(0)) })]);

    assert_eq!(models.versions("m"), [2]);
    assert!(matches!(
        models.find("m", Some(1)),
        Err(InferError::UnknownVersion { version: 1, .. })
    ));
    under_way.await.unwrap().unwrap();
    assert!(models.find("m", None).unwrap().infer(ask(1)).await.is_ok());
}

#[tokio::test]
async fn who_has_found_a_model_is_answered_by_it_even_if_it_is_replaced_before_it_is_asked() {
    let models = Models::default();
    models.replace("m", vec![open(blueprint(taking(0)))]);
    let found = models.find("m", None).unwrap();
    let is_gone = Arc::downgrade(&found);

    models.replace("m", vec![open(Blueprint { version: 2, ..blueprint(taking(0)) })]);

    assert!(found.infer(ask(1)).await.is_ok());
    drop(found);
    assert!(is_gone.upgrade().is_none(), "nobody else keeps what is not served any more");
}
