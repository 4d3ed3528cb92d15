//! When a commit begins, what it says, and what becomes of its frames. No Redis: replies are made up.

use std::{future::pending, time::Duration};

use tokio::time::advance;

use super::*;
use crate::{
    Answer, Config,
    entry::EntryId,
    ledger::Reason,
    worker::rig::{
        SHARD, grant_cameras, hold, id, idle_worker, settled, stream, stream_of, text, words,
        worker, worker_with,
    },
};

fn result() -> Verdict {
    let answer = Answer::Json("1".into());
    Verdict::Result { camera: "door".to_owned(), seq: None, taken_ms: 1, answer }
}

/// Frames of the only stream that are ready to be committed.
fn ready(worker: &mut Worker, ids: std::ops::Range<u64>) {
    for millis in ids {
        let stream = stream(worker);
        let frame = settled(worker, stream, id(millis), result(), Standing::Fresh);
        worker.settle(frame);
    }
}

/// Sends all that is ready and answers what the replies say.
fn commit(worker: &mut Worker, replies: Result<Vec<Reply>, Fault>) {
    let batch: Vec<Settled> = worker.ready.drain(..).collect();
    worker.ready_since = None;
    let (parts, _, _) = worker.commands(&batch);
    let began = Instant::now();
    worker.has_committed(Committed { link: None, batch, parts, replies, began });
}

fn waiting(worker: &Worker) -> Vec<EntryId> {
    worker.ready.iter().map(|settled| settled.id).collect()
}

#[tokio::test(start_paused = true)]
async fn a_commit_begins_once_it_is_full_has_waited_or_nothing_more_can_come() {
    let wait = Duration::from_millis(10);
    let config = Config { commit_frames: 2, commit_wait: wait, ..Config::default() };
    let mut worker = worker_with(config);
    worker.start_commit();
    assert!(worker.committing.is_none(), "there is nothing");

    worker.asking.push(Box::pin(pending()));
    ready(&mut worker, 0..1);
    advance(wait / 2).await;
    worker.start_commit();
    assert!(worker.committing.is_none(), "others may come");
    advance(wait / 2).await;
    worker.start_commit();
    assert!(worker.committing.is_some() && worker.ready_since.is_none(), "it has waited");

    worker.committing = None;
    ready(&mut worker, 1..4);
    worker.start_commit();
    assert!(worker.committing.is_some(), "it is full");
    assert_eq!((waiting(&worker), worker.ready_since), (vec![id(3)], Some(Instant::now())));
    worker.asking.clear();
    worker.start_commit();
    assert_eq!(worker.ready.len(), 1, "one at a time");
    worker.committing = None;
    worker.commit_at = Instant::now() + wait;
    worker.start_commit();
    assert!(worker.committing.is_none(), "Redis is left alone for a while");
    advance(wait).await;
    ready(&mut worker, 4..5);
    worker.ready_since = Some(Instant::now());
    worker.start_commit();
    assert!(worker.committing.is_some(), "nothing is in the model");
}

#[test]
fn what_of_a_shard_is_settled_after_it_was_given_up_is_not_committed() {
    let mut worker = worker();
    let number = stream(&worker);
    let frame = settled(&mut worker, number, id(1), result(), Standing::Fresh);
    worker.forget(SHARD);

    worker.settle(frame);

    assert!(worker.ready.is_empty() && worker.ready_since.is_none());
}

#[test]
fn a_part_is_the_frames_of_one_stream_and_a_command_those_of_one_shard_in_a_cluster() {
    for (is_cluster, expected) in [(false, vec![vec![2, 1, 1]]), (true, vec![vec![2, 1], vec![1]])]
    {
        let mut worker = idle_worker(Config { shards: 2, ..Config::default() });
        worker.post.is_cluster = is_cluster;
        grant_cameras(&mut worker, 0, &["a", "b"]);
        grant_cameras(&mut worker, 1, &["c"]);
        let batch: Vec<Settled> = [("a", 1), ("a", 2), ("b", 3), ("c", 4)]
            .map(|(camera, millis)| {
                let stream = stream_of(&worker, camera);
                settled(&mut worker, stream, id(millis), result(), Standing::Fresh)
            })
            .into();

        let (sent, sizes, commands) = worker.commands(&batch);

        assert_eq!(sizes, expected);
        let frames: Vec<_> = sent.iter().map(|sent| sent.frames.clone()).collect();
        assert_eq!(frames, [0..2, 2..3, 3..4]);
        let words = words(&commands).concat();
        let fences = [vec!["fence"], vec!["node:1:s000", "node:1:s001"]];
        for word in ["cam:a", "cam:c", "4-0"].iter().chain(&fences[usize::from(is_cluster)]) {
            assert!(words.iter().any(|own| own == word), "{word}: {words:?}");
        }
        for word in &fences[usize::from(!is_cluster)] {
            assert!(words.iter().all(|own| own != word), "{word}: {words:?}");
        }
    }
}

#[test]
fn results_are_trimmed_once_there_are_sixty_four_more() {
    let mut worker = worker();
    let number = stream(&worker);
    let mut trims = |ids: std::ops::Range<u64>| {
        let batch: Vec<Settled> = ids
            .map(|millis| settled(&mut worker, number, id(millis), result(), Standing::Fresh))
            .collect();
        worker.commands(&batch).0[0].trims
    };

    assert!(!trims(0..63));
    assert!(trims(63..64));
    assert!(!trims(64..127), "it counts anew");
    assert!(trims(127..200));
}

#[test]
fn every_frame_ends_as_redis_says() {
    let mut worker = worker();
    let number = stream(&worker);
    ready(&mut worker, 0..2);
    let dropped = || Verdict::Dropped(Reason::Stale);
    for (millis, verdict, standing) in [
        (2, dropped(), Standing::Fresh),
        (3, Verdict::Dead { reason: String::new(), tries: 1 }, Standing::Fresh),
        (4, result(), Standing::Claimed),
        (5, result(), Standing::Uncertain),
        (6, result(), Standing::Uncertain),
        (7, result(), Standing::Fresh),
    ] {
        let frame = settled(&mut worker, number, id(millis), verdict, standing);
        worker.settle(frame);
    }
    hold(&mut worker, number, id(8));

    let mut states = vec![State::Settled; 4];
    states.extend([State::SettledBefore, State::SettledBefore, State::SettledBefore, State::Lost]);
    commit(&mut worker, Ok(vec![Reply::Frames(states)]));

    let counts = worker.common.ledger.counts();
    assert_eq!((counts.taken, counts.in_flight), (9, 1));
    assert_eq!((counts.committed, counts.all_dropped(), counts.dead), (4, 1, 1));
    assert_eq!((counts.duplicate, counts.lost), (1, 1));
    assert_eq!((worker.shards[&SHARD].n_held, worker.streams[&number].held.len()), (1, 1));
    // Of the frames that have a result now, not of one whose result was there before.
    let seen = worker.common.sightings.of("door").unwrap();
    assert_eq!((seen.results, worker.common.flow.latency.now().n()), (2, 2));
    assert_eq!(worker.common.flow.commit_time.now().n(), 1);
    assert!(worker.losses.told.is_some(), "it was said that one is lost");
}

#[test]
fn nothing_is_said_to_be_lost_where_nothing_is() {
    let mut worker = worker();
    ready(&mut worker, 0..1);
    commit(&mut worker, Ok(vec![Reply::Frames(vec![State::Settled])]));

    assert!(worker.losses.told.is_none());
}

#[test]
fn what_redis_refuses_waits_in_its_order_before_all_others() {
    let mut worker = worker();
    ready(&mut worker, 0..4);
    let refused = || State::Refused("OOM".to_owned());
    let before = Instant::now();
    commit(
        &mut worker,
        Ok(vec![Reply::Frames(vec![refused(), State::Settled, refused(), refused()])]),
    );

    assert_eq!(waiting(&worker), [id(0), id(2), id(3)]);
    assert!(worker.ready.iter().all(|settled| settled.standing == Standing::Fresh), "it said no");
    assert!(before < worker.commit_at && worker.ready_since.is_some());
    let health = worker.common.health.now();
    assert_eq!((health.problem.as_deref(), health.n_faults), (Some("OOM"), 1), "it is said once");
    ready(&mut worker, 4..5);
    assert_eq!(waiting(&worker), [id(0), id(2), id(3), id(4)]);
    assert_eq!(worker.commit_breaker.n_failures(), 1);
    commit(&mut worker, Ok(vec![Reply::Frames(vec![State::Settled; 4])]));
    assert_eq!((worker.commit_breaker.n_failures(), worker.ready.len()), (0, 0));
    assert_eq!(worker.common.ledger.counts().committed, 5);
}

#[test]
fn what_was_sent_without_an_answer_is_uncertain_and_goes_first() {
    let mut worker = worker();
    ready(&mut worker, 0..2);
    let before = Instant::now();
    commit(&mut worker, Err(Fault::Timeout(Duration::from_secs(1))));

    ready(&mut worker, 2..3);
    assert_eq!(waiting(&worker), [id(0), id(1), id(2)]);
    let standings: Vec<_> = worker.ready.iter().map(|settled| settled.standing).collect();
    assert_eq!(standings, [Standing::Uncertain, Standing::Uncertain, Standing::Fresh]);
    assert!(before < worker.commit_at);
    assert_eq!(worker.to_report, [Report::Moved], "the server may be another by now");
    assert_eq!(worker.common.health.now().n_faults, 1);
}

#[test]
fn a_reply_about_fewer_parts_than_were_sent_is_no_answer() {
    let mut worker = worker();
    ready(&mut worker, 0..1);
    commit(&mut worker, Ok(Vec::new()));

    assert_eq!(worker.ready[0].standing, Standing::Uncertain);
    assert!(worker.to_report.is_empty(), "the server is where it was");
    let problem = worker.common.health.now().problem.unwrap();
    assert!(problem.contains("too few or too many parts"), "{problem}");
}

#[test]
fn what_failed_of_a_shard_that_was_given_up_is_not_sent_again() {
    let mut worker = worker();
    ready(&mut worker, 0..2);
    let batch: Vec<Settled> = worker.ready.drain(..).collect();
    worker.forget(SHARD);

    worker.commit_failed(&Fault::Nonsense("nothing"), batch, Instant::now());

    assert!(worker.ready.is_empty() && worker.ready_since.is_none());
}

#[test]
fn a_shard_that_another_owns_is_left_to_it_unless_it_was_taken_again() {
    let mut worker = worker();
    ready(&mut worker, 0..2);
    let old: Arc<str> = "node:1:0".into();
    worker.fenced(&[(SHARD, old)]);
    assert!(worker.shards.contains_key(&SHARD), "that was before");

    worker.post.is_cluster = true;
    commit(&mut worker, Ok(vec![Reply::Fenced]));

    assert!(worker.shards.is_empty() && worker.streams.is_empty());
    assert_eq!(worker.common.ledger.counts().returned, 2);
    assert_eq!(worker.to_report, [Report::Fenced(SHARD, "node:1:1".into())]);
}

#[tokio::test(start_paused = true)]
async fn what_met_another_fence_waits_in_its_order_until_it_is_known_whose_the_shards_are() {
    let mut worker = worker();
    ready(&mut worker, 0..2);
    commit(&mut worker, Ok(vec![Reply::Fenced]));
    ready(&mut worker, 2..3);

    assert_eq!(waiting(&worker), [id(0), id(1), id(2)]);
    assert!(worker.ready.iter().all(|settled| settled.standing == Standing::Fresh), "not sent");
    worker.start_commit();
    assert!(worker.committing.is_none() && worker.must_verify);
    assert!(Instant::now() < worker.commit_at, "it is not tried over and over");

    let owned: Vec<_> = vec![(SHARD, "node:1:1".into())];
    worker.verified(owned, vec![text("lease other:1:9"), text("node:1:1")]);
    advance(worker.common.config.linger).await;
    worker.start_commit();
    assert!(worker.committing.is_some() && worker.ready.is_empty());
    assert_eq!(worker.fence.as_deref(), Some("lease other:1:9"));
}

#[test]
fn after_a_fenced_part_the_others_are_about_their_own_frames() {
    let mut worker = idle_worker(Config { shards: 2, ..Config::default() });
    grant_cameras(&mut worker, 0, &["a"]);
    grant_cameras(&mut worker, 1, &["b"]);
    for (camera, millis) in [("a", 1), ("a", 2), ("b", 3), ("b", 4)] {
        let stream = stream_of(&worker, camera);
        let frame = settled(&mut worker, stream, id(millis), result(), Standing::Fresh);
        worker.settle(frame);
    }
    worker.post.is_cluster = true;
    let states = vec![State::Settled, State::Lost];
    commit(&mut worker, Ok(vec![Reply::Fenced, Reply::Frames(states)]));

    let counts = worker.common.ledger.counts();
    assert_eq!((counts.returned, counts.committed, counts.lost), (2, 1, 1));
    assert!(counts.balances() && counts.in_flight == 0);
}

#[tokio::test(start_paused = true)]
async fn after_a_connection_broke_nothing_is_committed_before_its_stream_was_looked_over() {
    let mut worker = worker();
    worker.common.leases.set(SHARD, Some(Instant::now() + Duration::from_hours(1)));
    ready(&mut worker, 0..1);
    commit(&mut worker, Err(Fault::Timeout(Duration::ZERO)));
    advance(Duration::from_secs(10)).await;

    worker.start_commit();
    assert!(worker.committing.is_none());
    assert!(Instant::now() < worker.commit_at, "it is not tried over and over");

    let number = stream(&worker);
    worker.streams.get_mut(&number).unwrap().is_doubtful = false;
    advance(Duration::from_secs(1)).await;
    worker.start_commit();
    assert!(worker.committing.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_refusal_raises_no_doubt() {
    let mut worker = worker();
    worker.common.leases.set(SHARD, Some(Instant::now() + Duration::from_hours(1)));
    ready(&mut worker, 0..1);
    commit(&mut worker, Err(Fault::Refused("OOM".to_owned())));
    advance(Duration::from_secs(10)).await;

    worker.start_commit();

    assert!(worker.committing.is_some());
}
