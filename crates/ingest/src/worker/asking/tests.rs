//! What becomes of a frame that came back from the model, whatever came back.

use futures_util::StreamExt as _;

use super::*;
use crate::{
    Answer, Config, Data, Form, Payload,
    line::Waiting,
    policy::Policy,
    worker::rig::{SHARD, hold, id, stream, worker, worker_with},
};

/// A frame that is in the model, and was tried so often before.
fn in_model(worker: &mut Worker, millis: u64, tries: u32) -> (Place, Piece) {
    let number = stream(worker);
    hold(worker, number, id(millis));
    let payload =
        Payload { form: Form::Raw { dtype: None, shape: None }, data: Data::Inline("x".into()) };
    let frame = Frame { camera: "door".to_owned(), seq: Some(7), taken_ms: now_ms(), payload };
    let held = worker.common.credit.charge(100);
    let (shard, standing) = (SHARD, Standing::Claimed);
    let body = Piece { stream: number, shard, id: id(millis), frame, tries, standing, held };
    let waiting = Waiting { taken_ms: 0, bytes: 1, body };
    worker.line.arrive("door", (SHARD, Policy::default()), waiting, |_, _| ());
    worker.line.next(0, |_, _| ()).unwrap()
}

/// What a frame that was tried so often before ends in, if it does: why and after how many tries.
fn dead(outcome: Outcome, tries: u32) -> Option<(String, u32)> {
    let mut worker = worker_with(Config { max_tries: 3, ..Config::default() });
    let (place, piece) = in_model(&mut worker, 1, tries);
    worker.answered(Asked { place, piece, outcome });
    assert_eq!(worker.asking.len() + worker.ready.len(), 1, "it is asked again, or it ends");
    let settled = worker.ready.pop_front()?;
    match settled.verdict {
        Verdict::Dead { reason, tries } => Some((reason, tries)),
        other => panic!("{other:?}"),
    }
}

fn unknown_model() -> InferError {
    InferError::UnknownModel("m".to_owned())
}

fn failed() -> InferError {
    InferError::Failed(paceline_batch::Failure::Panicked)
}

#[test]
fn an_answer_is_written_as_its_frames() {
    let mut worker = worker();
    let (place, piece) = in_model(&mut worker, 1, 0);
    let outcome = Outcome::Answer(Answer::Json("1".into()));
    worker.answered(Asked { place, piece, outcome });

    let settled = &worker.ready[0];
    assert_eq!((settled.id, settled.standing), (id(1), Standing::Claimed));
    let Verdict::Result { camera, seq, .. } = &settled.verdict else { panic!("no result") };
    assert_eq!((&**camera, *seq), ("door", Some(7)));
}

#[test]
fn what_is_the_frames_fault_ends_it_at_once() {
    let poison = Outcome::Unfit(Unfit::Poison("why".to_owned()));
    assert_eq!(dead(poison, 1), Some(("why".to_owned(), 2)));
    let panicked = Some(("preparing the frame panicked".to_owned(), 1));
    assert_eq!(dead(Outcome::Panicked, 0), panicked);
    let error = InferError::Streams("m".to_owned());
    let why = error.to_string();
    assert_eq!(dead(Outcome::Failed(error), 0), Some((why, 1)));
}

#[test]
fn what_may_be_the_frames_fault_is_tried_as_often_as_is_set() {
    assert_eq!(dead(Outcome::Failed(failed()), 0), None);
    assert_eq!(dead(Outcome::Failed(failed()), 1), None);
    let (reason, tries) = dead(Outcome::Failed(failed()), 2).unwrap();
    assert!(reason.starts_with("failed 3 times, last: "), "{reason}");
    assert_eq!(tries, 3);
}

#[test]
fn a_frame_that_was_written_over_is_dropped() {
    let mut worker = worker();
    let (place, piece) = in_model(&mut worker, 1, 0);
    worker.answered(Asked { place, piece, outcome: Outcome::Unfit(Unfit::Overwritten) });

    assert!(matches!(worker.ready[0].verdict, Verdict::Dropped(Reason::Overwritten)));
}

#[test]
fn an_answer_for_a_shard_that_was_given_up_is_forgotten() {
    let mut worker = worker();
    let (place, piece) = in_model(&mut worker, 1, 0);
    worker.line.abandon(SHARD);
    worker.answered(Asked { place, piece, outcome: Outcome::Panicked });

    assert!(worker.ready.is_empty());
}

#[test]
fn results_leave_in_the_cameras_order() {
    let mut worker = worker();
    let first = in_model(&mut worker, 1, 0);
    let second = in_model(&mut worker, 2, 0);
    for (place, piece) in [second, first] {
        assert!(worker.ready.is_empty());
        worker.answered(Asked { place, piece, outcome: Outcome::Panicked });
    }

    assert_eq!(worker.ready.iter().map(|settled| settled.id).collect::<Vec<_>>(), [id(1), id(2)]);
}

#[test]
fn a_model_that_is_away_is_one_failure_however_many_find_out() {
    let mut worker = worker();
    for millis in 1..4 {
        let (place, piece) = in_model(&mut worker, millis, 2);
        worker.answered(Asked { place, piece, outcome: Outcome::Failed(unknown_model()) });
    }

    assert_eq!((worker.asking.len(), worker.ready.len()), (3, 0), "they wait for it");
    assert_eq!(worker.model_breaker.n_failures(), 1);
    assert!(Instant::now() < worker.ask_at && !worker.common.health.now().has_model);
    worker.asking.clear();
    let (place, piece) = in_model(&mut worker, 4, 0);
    let outcome = Outcome::Answer(Answer::Json("1".into()));
    worker.answered(Asked { place, piece, outcome });
    assert_eq!(worker.model_breaker.n_failures(), 0);
    assert!(worker.common.health.now().has_model);
}

#[test]
fn who_finds_out_later_waits_for_the_rest_of_the_pause() {
    let mut worker = worker();
    let pause = worker.model_is_ill(&unknown_model());
    assert!(Duration::from_millis(50) <= pause);
    let rest = worker.model_is_ill(&unknown_model());
    assert!(Duration::ZERO < rest && rest <= pause, "{rest:?} of {pause:?}");
    worker.ask_at = Instant::now();
    worker.model_is_ill(&unknown_model());
    assert_eq!(worker.model_breaker.n_failures(), 2, "it was asked again");
}

#[test]
fn a_model_that_is_full_is_not_away() {
    let mut worker = worker();
    let before = worker.ask_at;
    let error = InferError::Refused(paceline_batch::Refused::QueueFull(9));

    assert_eq!(worker.model_is_ill(&error), TRY_AGAIN_AFTER);
    assert_eq!((worker.ask_at, worker.model_breaker.n_failures()), (before, 0));
    assert!(worker.common.health.now().has_model);
}

#[test]
fn no_more_are_begun_than_may_be_in_the_model_and_none_while_it_is_away() {
    let mut worker = worker();
    worker.post.in_model = 2;
    let pieces: Vec<_> = (1..4).map(|millis| in_model(&mut worker, millis, 0).1).collect();
    worker.line.abandon(SHARD);
    for piece in pieces {
        let millis = piece.id.millis;
        let waiting = Waiting { taken_ms: 0, bytes: 1, body: piece };
        let camera = format!("cam-{millis}");
        worker.line.arrive(&camera, (SHARD, Policy::default()), waiting, |_, _| ());
    }
    worker.ask_at = Instant::now() + Duration::from_hours(1);
    worker.begin();
    assert_eq!(worker.asking.len(), 0);

    worker.ask_at = Instant::now();
    worker.begin();
    assert_eq!(worker.asking.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_frame_that_is_to_wait_is_asked_then_and_another_at_once() {
    let mut worker = worker();
    let began = Instant::now();
    for pause in [Duration::ZERO, TRY_AGAIN_AFTER] {
        let (place, piece) = in_model(&mut worker, 1 + u64::from(!pause.is_zero()), 0);
        worker.ask(place, piece, pause);
        let asked = worker.asking.next().await.unwrap();
        assert!(matches!(asked.outcome, Outcome::Failed(_)), "there is no model");
        assert_eq!(began.elapsed().as_millis(), pause.as_millis());
    }
}
