//! Orders, reports, and when a worker wakes.

use std::future::pending;

use super::*;
use crate::{
    commit::{Standing, Verdict},
    ledger::Reason,
    worker::rig::{
        SHARD, go_live, grant, grant_cameras, hold, id, idle_worker, settled, stream, stream_of,
        worker, worker_with,
    },
};

#[test]
fn all_posts_together_reserve_half_of_the_credit() {
    let config = Config {
        in_model: 64,
        credit_bytes: 8000,
        credit_frames: 400,
        reply_bytes: 600,
        ..Config::default()
    };
    let post = |n_workers: usize| {
        let post = Post::new(&config, n_workers, config.address().unwrap(), false);
        (post.in_model, post.reply_bytes, post.reply_frames)
    };

    assert_eq!(post(1), (64, 600, 200));
    assert_eq!(post(10), (6, 400, 20));
    assert_eq!(post(10_000), (1, 1, 1), "each gets something");
}

#[test]
fn losses_are_told_at_once_and_then_together() {
    let mut losses = Losses::default();
    let now = Instant::now();
    losses.note("a", 2, now);
    assert_eq!((losses.told, losses.n_untold), (Some(now), 0));
    losses.note("a", 3, now + LOSSES / 2);
    losses.note("b", 4, now + LOSSES - Duration::from_millis(1));
    assert_eq!((losses.told, losses.n_untold), (Some(now), 7));
    losses.note("a", 1, now + LOSSES);
    assert_eq!((losses.told, losses.n_untold), (Some(now + LOSSES), 0));
}

#[tokio::test(start_paused = true)]
async fn a_worker_wakes_for_what_is_due_first() {
    let lease = Duration::from_secs(5);
    let config = Config { lease, commit_wait: Duration::from_millis(10), ..Config::default() };
    let linger = config.linger;
    let mut worker = worker_with(config);
    let now = Instant::now();
    let soon = Duration::from_millis(3);

    worker.read_at = now + soon;
    assert_eq!(worker.next_wake(), now + soon);
    worker.reading = Some(Box::pin(pending()));
    assert_eq!(worker.next_wake(), now + lease, "nothing but the leases");
    worker.ready_since = Some(now);
    assert_eq!(worker.next_wake(), now + Duration::from_millis(10), "a commit");
    worker.commit_at = now + Duration::from_millis(20);
    assert_eq!(worker.next_wake(), now + Duration::from_millis(20), "not before it may be");
    worker.committing = Some(Box::pin(pending()));
    assert_eq!(worker.next_wake(), now + lease, "one commit at a time");
    worker.ask_at = now + soon;
    assert_eq!(worker.next_wake(), now + soon, "the model may be asked again");
    worker.ask_at = now;
    worker.report(Report::Moved);
    assert_eq!(worker.next_wake(), now + linger, "there may be room for a report");
}

#[tokio::test]
async fn reports_wait_in_their_order_for_room() {
    let mut worker = worker();
    let (reports, mut heard) = mpsc::channel(2);
    worker.reports = reports;
    for _ in 0..2 {
        worker.report(Report::Moved);
    }
    worker.report(Report::Drained(SHARD));
    worker.report(Report::Drained(ShardId(1)));
    assert_eq!(worker.to_report.len(), 3, "the same is said once");

    worker.send_reports();
    assert_eq!(worker.to_report, [Report::Drained(ShardId(1))]);
    assert_eq!(heard.recv().await, Some(Report::Moved));
    assert_eq!(heard.recv().await, Some(Report::Drained(SHARD)));
    worker.send_reports();
    assert_eq!(heard.recv().await, Some(Report::Drained(ShardId(1))));
    assert!(worker.to_report.is_empty());
}

#[test]
fn a_shard_that_is_granted_is_read_and_committed_at_once() {
    let mut worker = idle_worker(Config::default());
    let later = Instant::now() + Duration::from_hours(1);
    (worker.read_at, worker.commit_at) = (later, later);
    grant(&mut worker, "node:1:1");

    assert!(worker.read_at < later && worker.commit_at < later);
    let owned = &worker.shards[&SHARD];
    assert_eq!((&*owned.token, owned.n_held, owned.is_draining), ("node:1:1", 0, false));
    assert!(matches!(worker.streams[&stream(&worker)].phase, Phase::Recovery { .. }));
    let earlier = Instant::now();
    worker.read_at = earlier;
    grant(&mut worker, "node:1:2");
    assert_eq!(worker.read_at, earlier, "it was due before");
}

#[test]
fn a_shard_is_given_back_once_nothing_of_it_is_held() {
    let mut worker = worker();
    let number = stream(&worker);
    hold(&mut worker, number, id(1));
    hold(&mut worker, number, id(2));
    worker.obey(Order::Drain(SHARD));
    worker.release(number, id(1), Ending::Committed);
    assert!(worker.to_report.is_empty() && worker.shards[&SHARD].n_held == 1);
    worker.release(number, id(1), Ending::Committed);
    assert_eq!(worker.shards[&SHARD].n_held, 1, "it has ended before");

    worker.release(number, id(2), Ending::Dead);

    assert_eq!(worker.to_report, [Report::Drained(SHARD)]);
    assert!(worker.shards.is_empty() && worker.streams.is_empty() && worker.by_key.is_empty());
    let counts = worker.common.ledger.counts();
    assert_eq!((counts.committed, counts.dead, counts.returned), (1, 1, 0));
}

#[test]
fn a_shard_that_is_kept_is_not_given_back_when_nothing_of_it_is_held() {
    let mut worker = worker();
    let number = stream(&worker);
    hold(&mut worker, number, id(1));
    worker.release(number, id(1), Ending::Committed);

    assert!(worker.to_report.is_empty() && worker.shards.contains_key(&SHARD));
    worker.obey(Order::Drain(ShardId(9)));
    assert!(worker.to_report.is_empty(), "it is not ours");
}

#[test]
fn what_is_forgotten_is_left_to_the_next_owner_and_nothing_else_is() {
    let mut worker = idle_worker(Config { shards: 2, ..Config::default() });
    grant_cameras(&mut worker, 0, &["a"]);
    grant_cameras(&mut worker, 1, &["b"]);
    let (a, b) = (stream_of(&worker, "a"), stream_of(&worker, "b"));
    assert_ne!(a, b);
    hold(&mut worker, a, id(1));
    for (stream, millis) in [(a, 4), (b, 2), (b, 3)] {
        let dropped = Verdict::Dropped(Reason::Stale);
        let frame = settled(&mut worker, stream, id(millis), dropped, Standing::Fresh);
        worker.settle(frame);
    }

    worker.obey(Order::Forget(ShardId(1)));

    assert_eq!(worker.ready.iter().map(|settled| settled.id).collect::<Vec<_>>(), [id(4)]);
    assert_eq!(worker.streams.keys().collect::<Vec<_>>(), [&a]);
    assert_eq!((worker.by_key.len(), worker.shards.len()), (1, 1));
    let counts = worker.common.ledger.counts();
    assert_eq!((counts.returned, counts.in_flight), (2, 2));
}

#[test]
fn a_camera_that_leaves_is_forgotten_once_nothing_of_it_is_held_and_may_come_back() {
    let mut worker = idle_worker(Config { shards: 2, ..Config::default() });
    grant_cameras(&mut worker, 0, &["a", "b"]);
    let remove = |camera: &str| Order::Remove(SHARD, format!("cam:{camera}"));
    let add = |shard: u16, camera: &str| {
        let stream = NewStream { key: format!("cam:{camera}"), camera: Some(camera.to_owned()) };
        Order::Add(ShardId(shard), stream)
    };
    let has = |worker: &Worker, camera: &str| {
        worker.by_key.contains_key(format!("cam:{camera}").as_bytes())
    };
    let (a, b) = (stream_of(&worker, "a"), stream_of(&worker, "b"));
    hold(&mut worker, a, id(1));

    worker.obey(remove("a"));
    worker.obey(remove("b"));
    worker.obey(remove("nobody"));
    assert!(has(&worker, "a") && !has(&worker, "b") && !worker.streams.contains_key(&b));
    worker.obey(add(0, "a"));
    worker.release(a, id(1), Ending::Committed);
    assert!(has(&worker, "a"), "it came back");
    assert_eq!(worker.streams.len(), 1, "and is one stream");
    hold(&mut worker, a, id(2));
    worker.obey(remove("a"));
    worker.release(a, id(2), Ending::Committed);
    assert!(!has(&worker, "a"));

    worker.obey(add(1, "c"));
    assert!(!has(&worker, "c"), "the shard is not ours");
    worker.obey(add(0, "c"));
    worker.obey(Order::Remove(ShardId(1), "cam:c".to_owned()));
    assert!(has(&worker, "c"), "it is of another shard");
    go_live(&mut worker);
    assert!(worker.is_quiet());
}

#[test]
fn only_what_ends_while_a_read_is_under_way_is_remembered() {
    let mut worker = worker();
    let number = stream(&worker);
    hold(&mut worker, number, id(1));
    worker.release(number, id(1), Ending::Committed);
    assert!(worker.settled_meanwhile.is_empty());

    hold(&mut worker, number, id(2));
    worker.reading = Some(Box::pin(pending()));
    worker.release(number, id(2), Ending::Committed);
    assert!(worker.settled_meanwhile.contains(&(number, id(2))));
}

#[tokio::test]
async fn a_worker_whose_orders_end_leaves_what_it_holds_to_the_next() {
    let mut worker = worker();
    let number = stream(&worker);
    hold(&mut worker, number, id(1));
    // Nothing is to be tried meanwhile.
    worker.read_at = Instant::now() + Duration::from_hours(1);
    let (_, orders) = mpsc::channel(1);
    worker.orders = orders;
    let common = Arc::clone(&worker.common);

    worker.run().await;

    let counts = common.ledger.counts();
    assert_eq!((counts.returned, counts.in_flight), (1, 0));
}
