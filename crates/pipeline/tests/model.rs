//! Models as they are served: their modes, what may share a call, and when they are ready.

use std::{path::Path, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use paceline_backend::{
    Backend, BackendError, Call, Health, Outputs, Ragged, Simulated, simulated,
};
use paceline_batch::{FireReason, Settings};
use paceline_pipeline::{
    Ask, Blueprint, Build, InferError, Mode, Model, ModelName, Models, SequenceLimits,
    VersionPolicy, adapt,
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

    let lengths = [2, 3, 2, 3, 2, 3, 2, 3];
    let shared = shared_by(&model, &lengths).await;

    assert!(shared.iter().any(|&items| 1 < items), "{shared:?}");
    assert!(shared.iter().all(|&items| items <= 4), "four of each shape: {shared:?}");
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

#[tokio::test]
async fn models_are_found_listed_and_removed_by_name_and_version() {
    let models = Models::default();
    let version = |version| open(Blueprint { version, ..blueprint(taking(0)) });
    models.replace("m", vec![version(1), version(2)]);
    models.replace("n", vec![version(7)]);
    let versions = |models: Vec<Arc<Model>>| -> Vec<u64> {
        models.iter().map(|model| model.facts().version).collect()
    };

    assert_eq!(versions(models.all()), [1, 2, 7]);
    assert_eq!(versions(models.find_all("m", None).unwrap()), [1, 2]);
    assert_eq!(versions(models.find_all("m", Some(1)).unwrap()), [1]);
    assert!(models.find_all("m", Some(3)).is_err() && models.find_all("o", None).is_err());
    assert_eq!(models.find("m", None).unwrap().facts().version, 2, "the latest");

    assert!(models.remove("m"));
    assert!(!models.remove("m"), "it is gone already");
    assert_eq!(versions(models.all()), [7]);

    let left = models.find("n", None).unwrap();
    models.close();
    let refused = left.infer(ask(1)).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::Unavailable, "{refused}");
    assert_eq!(ModelName::parse("v2_3").unwrap().to_string(), "v2_3");
}

#[tokio::test]
async fn what_a_model_did_is_told_batch_by_batch() {
    let model = open(blueprint(taking(0)));
    for _ in 0..3 {
        model.infer(ask(2)).await.unwrap();
    }
    // A batch has landed a moment after its items are answered.
    while model.landed_after(0, 8).len() < 3 {
        tokio::task::yield_now().await;
    }

    let landed = model.landed_after(0, 8);
    assert_eq!(landed.iter().map(|batch| batch.sequence).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(model.landed_after(2, 8).len(), 1);
    assert!(model.adapter().is_none() && model.sequence_idle().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_model_is_as_old_as_it_has_been_served() {
    let model = open(blueprint(taking(0)));
    advance(Duration::from_secs(3)).await;

    assert_eq!(model.age(), Duration::from_secs(3));
}

#[tokio::test]
async fn a_model_has_the_adapter_that_it_was_given() {
    let adapter = adapt::open("moonshine", Path::new(".")).unwrap();
    let model = open(Blueprint { adapter: Some(adapter), ..blueprint(taking(0)) });

    assert!(model.adapter().is_some_and(|adapter| !adapter.leaves_outputs()));
}

/// Takes so many rows, and is as well as its health says.
struct Ailing {
    model: Simulated,
    max_rows: Option<usize>,
    health: Health,
}

impl Backend for Ailing {
    fn signature(&self) -> &Signature {
        self.model.signature()
    }

    fn max_rows(&self) -> Option<usize> {
        self.max_rows
    }

    fn health(&self) -> Health {
        self.health.clone()
    }

    fn run(&mut self, call: &Call<'_>) -> Result<Outputs, BackendError> {
        self.model.run(call)
    }
}

fn ailing(instances: usize, max_rows: Option<usize>) -> (Arc<Model>, Vec<Health>) {
    let healths: Vec<Health> = (0..instances).map(|_| Health::default()).collect();
    let of_model = healths.clone();
    let build: Build = Arc::new(move |instance| {
        let model = Simulated::build(simulated::Settings::default(), 0).unwrap();
        let health = of_model[instance].clone();
        Ok(Box::new(Ailing { model, max_rows, health }))
    });
    (open(Blueprint { instances, build, ..blueprint(taking(0)) }), healths)
}

#[tokio::test]
async fn a_model_is_ready_while_one_of_its_instances_is_well() {
    let (model, healths) = ailing(2, None);
    assert!(model.is_ready());

    healths[0].set(Some("the first is ill".to_owned()));
    assert!(model.is_ready(), "the second is well");
    healths[1].set(Some("the second too".to_owned()));
    assert_eq!((model.is_ready(), model.trouble().as_deref()), (false, Some("the first is ill")));
    healths[0].set(None);
    assert!(model.is_ready() && model.trouble().is_none());

    assert_eq!(model.restarts(), 0);
    healths.iter().for_each(Health::restarted);
    healths[1].restarted();
    assert_eq!(model.restarts(), 3);
}

#[tokio::test]
async fn a_batch_has_no_more_rows_than_the_model_takes() {
    let most = |max_rows| ailing(1, max_rows).0.facts().limits.max_items();
    let own = most(None);

    assert_eq!([most(Some(own - 1)), most(Some(own)), most(Some(own + 1))], [own - 1, own, own]);
}

#[tokio::test]
async fn padded_items_share_calls_as_far_as_their_cost_allows() {
    let padded = |max_cost| {
        open(Blueprint {
            batch: Settings { max_cost, ..Settings::default() },
            ragged: Box::new(|_| Ok(Ragged { inputs: vec![(0, 1)], ..Ragged::default() })),
            ..blueprint(taking(20))
        })
    };

    let shared = shared_by(&padded(None), &[4, 3, 2, 1, 4, 3]).await;
    assert!(shared.iter().any(|&items| 2 < items), "lengths may differ: {shared:?}");
    let shared = shared_by(&padded(Some(8)), &[4; 6]).await;
    assert!(shared.iter().all(|&items| items <= 2), "two rows of four each: {shared:?}");
    let refused = padded(Some(3)).infer(ask(4)).await.unwrap_err();
    assert!(matches!(refused, InferError::Refused(_)), "not even one row fits: {refused}");
}
