//! Replies that come when what they were asked for has changed, and replies that say what is wrong. No
//! Redis and no task: replies are made up.

use std::future::pending;

use super::*;
use crate::{
    Config,
    worker::{
        Order,
        rig::{
            SHARD, error, go_live, grant, grant_cameras, hold, id, idle_worker, stream, stream_of,
            text, worker, worker_with,
        },
    },
};

const ID: EntryId = EntryId { millis: 5, number: 0 };

/// A read of the stream that is answered with one frame.
fn deliver(worker: &mut Worker, asked: u64) {
    let fields = ["k", "7 5 door", "d", "x"].map(text).to_vec();
    let entry = Value::Array(vec![text(&ID.to_string()), Value::Array(fields)]);
    let key = text(&worker.common.shards.frames(SHARD));
    let reply = Value::Array(vec![Value::Array(vec![key, Value::Array(vec![entry])])]);
    worker.fresh(&[vec![asked]], 10, vec![reply], Instant::now());
}

/// The worker's only frame is settled while a read is under way.
fn settle_while_reading(worker: &mut Worker) {
    worker.reading = Some(Box::pin(pending()));
    worker.release(stream(worker), ID, Ending::Committed);
    worker.reading = None;
}

#[test]
fn a_frame_that_was_settled_while_it_was_read_again_is_not_taken_again() {
    let mut worker = worker();
    let number = stream(&worker);
    deliver(&mut worker, number);
    assert_eq!(worker.common.ledger.counts().in_flight, 1);

    settle_while_reading(&mut worker);
    deliver(&mut worker, number);

    let counts = worker.common.ledger.counts();
    assert_eq!((counts.taken, counts.committed, counts.in_flight), (1, 1, 0));
}

#[test]
fn a_frame_that_was_settled_while_it_was_looked_for_is_not_claimed() {
    let mut worker = worker();
    let number = stream(&worker);
    deliver(&mut worker, number);
    let span = Span::new(EntryId::default(), &worker.streams[&number].held);

    settle_while_reading(&mut worker);
    let row = vec![text(&ID.to_string()), text("node"), Value::Int(3), Value::Int(1)];
    let rows = Value::Array(vec![Value::Array(row)]);
    let reply = Value::Array(vec![rows, Value::Array(Vec::new()), Value::Int(0)]);
    worker.looked_up(number, &span, reply, Instant::now());

    assert!(matches!(worker.streams[&number].phase, Phase::Live));
}

#[test]
fn what_was_read_before_a_shard_was_taken_again_is_left_to_be_looked_for() {
    let mut worker = worker();
    let number = stream(&worker);

    worker.obey(Order::Forget(SHARD));
    grant(&mut worker, "node:1:2");
    deliver(&mut worker, number);

    assert_eq!(worker.common.ledger.counts().taken, 0);
    assert!(matches!(worker.streams[&stream(&worker)].phase, Phase::Recovery { .. }));
}

/// What a look says: pending entries as often as they were delivered, others, and how many were lost.
fn looked(pending: &[(u64, i64)], others: &[u64], n_lost: i64) -> Value {
    let row = |(millis, n): &(u64, i64)| {
        Value::Array(vec![text(&id(*millis).to_string()), text("x"), Value::Int(3), Value::Int(*n)])
    };
    let name = |millis: &u64| text(&id(*millis).to_string());
    Value::Array(vec![
        Value::Array(pending.iter().map(row).collect()),
        Value::Array(others.iter().map(name).collect()),
        Value::Int(n_lost),
    ])
}

fn look_up(worker: &mut Worker, reply: Value) {
    let number = stream(worker);
    let span = Span::new(EntryId::default(), &worker.streams[&number].held);
    worker.looked_up(number, &span, reply, Instant::now());
}

/// Entries as Redis lists them.
fn entries(entries: &[(u64, &[&str])]) -> Value {
    let entry = |(millis, fields): &(u64, &[&str])| {
        let fields = fields.iter().map(|field| text(field)).collect();
        Value::Array(vec![text(&id(*millis).to_string()), Value::Array(fields)])
    };
    Value::Array(entries.iter().map(entry).collect())
}

fn phase(worker: &Worker) -> &Phase {
    &worker.streams[&stream(worker)].phase
}

fn set_phase(worker: &mut Worker, phase: Phase) {
    let number = stream(worker);
    worker.streams.get_mut(&number).unwrap().phase = phase;
}

/// The frames that were found and are to be claimed, and whether there are no others.
fn found(worker: &Worker) -> (Vec<(EntryId, u32)>, bool) {
    match phase(worker) {
        Phase::Recovery { found, is_last_page, .. } => (found.clone(), *is_last_page),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_looked_for_is_found_unless_it_is_worked_on() {
    let mut worker = worker();
    let number = stream(&worker);
    hold(&mut worker, number, id(2));
    worker.common.health.update(|health| health.problem = Some("gone by now".to_owned()));

    look_up(&mut worker, looked(&[(2, 1), (3, 4)], &[1], 0));

    assert_eq!(found(&worker), (vec![(id(1), 1), (id(3), 4)], true));
    assert!(worker.common.health.now().problem.is_some(), "that is not known yet");
    set_phase(&mut worker, Phase::recovery());
    worker.read_breaker.fail(0.0);
    look_up(&mut worker, looked(&[(2, 1)], &[], 0));
    assert!(matches!(phase(&worker), Phase::Live));
    assert_eq!(worker.common.health.now().problem, None);
    assert_eq!(worker.read_breaker.n_failures(), 0);
    look_up(&mut worker, looked(&[], &[9], 0));
    assert!(matches!(phase(&worker), Phase::Live), "nobody looks any more");
}

#[test]
fn a_look_that_is_not_at_its_end_goes_on_where_it_stopped() {
    let mut worker = worker();
    let page: Vec<u64> = (1..=100).collect();
    look_up(&mut worker, looked(&[], &page, 0));

    let Phase::Recovery { after, .. } = phase(&worker) else { panic!("another phase") };
    let (page_found, is_last_page) = found(&worker);
    assert_eq!((*after, page_found.len(), is_last_page), (id(100), 100, false));
    set_phase(
        &mut worker,
        Phase::Recovery { after: id(7), found: Vec::new(), is_last_page: false },
    );
    for id in page.iter().map(|millis| id(*millis)) {
        worker.settled_meanwhile.insert((stream(&worker), id));
    }
    look_up(&mut worker, looked(&[], &page, 0));
    assert!(found(&worker).0.is_empty());
    assert!(matches!(phase(&worker), Phase::Recovery { .. }), "there may be more");
}

#[test]
fn what_was_trimmed_away_is_counted_once() {
    let mut worker = worker();
    look_up(&mut worker, looked(&[], &[], 3));
    let counts = worker.common.ledger.counts();
    assert_eq!((counts.taken, counts.lost, counts.in_flight), (3, 3, 0));
    assert!(worker.losses.told.is_some());

    // What is held is counted when its commit says that it is gone.
    set_phase(&mut worker, Phase::recovery());
    let number = stream(&worker);
    hold(&mut worker, number, id(1));
    look_up(&mut worker, looked(&[], &[], 2));
    assert_eq!(worker.common.ledger.counts().lost, 3);
}

#[test]
fn where_nothing_was_trimmed_away_nobody_is_told_so() {
    let mut worker = worker();
    look_up(&mut worker, looked(&[], &[], 0));

    assert!(worker.losses.told.is_none());
}

#[test]
fn a_look_that_is_not_understood_is_asked_again_later() {
    let mut worker = worker();
    let before = Instant::now();
    look_up(&mut worker, Value::Okay);

    assert!(before < worker.read_at && matches!(phase(&worker), Phase::Recovery { .. }));
    let health = worker.common.health.now();
    assert!(health.problem.unwrap().contains("a look for unsettled frames"));
    assert_eq!(health.n_faults, 1);
}

#[test]
fn what_is_claimed_knows_how_often_it_was_delivered() {
    let mut worker = worker_with(Config { max_tries: 4, ..Config::default() });
    let number = stream(&worker);
    let is_last_page = true;
    set_phase(&mut worker, Phase::Recovery { after: id(9), found: Vec::new(), is_last_page });
    let frame: &[&str] = &["c", "door", "d", "x"];
    let reply = entries(&[(1, frame), (2, frame), (3, frame)]);

    worker.claimed(number, &[(id(1), 3), (id(2), 4), (id(3), 5)], reply, Instant::now());

    assert!(matches!(phase(&worker), Phase::Live), "that was the last page");
    let dead: Vec<_> = worker.ready.iter().map(|settled| (settled.id, settled.standing)).collect();
    assert_eq!(dead, [(id(2), Standing::Claimed), (id(3), Standing::Claimed)]);
    let Verdict::Dead { reason, tries } = &worker.ready[0].verdict else { panic!("no letter") };
    assert_eq!((&**reason, *tries), ("delivered 4 times without a result", 4));
    assert_eq!(worker.common.ledger.counts().in_flight, 3);
}

#[test]
fn a_stream_is_live_once_all_that_was_found_is_claimed() {
    let mut worker = worker();
    let number = stream(&worker);
    for (found, is_last_page) in [(vec![(id(9), 1)], true), (Vec::new(), false)] {
        set_phase(&mut worker, Phase::Recovery { after: id(9), found, is_last_page });
        worker.claimed(number, &[], Value::Nil, Instant::now());
        assert!(matches!(phase(&worker), Phase::Recovery { .. }), "{is_last_page}");
    }
    let before = worker.pace.streams(1 << 20);
    set_phase(&mut worker, Phase::Recovery { after: id(9), found: Vec::new(), is_last_page: true });
    let large = "x".repeat(100_000);
    let reply = entries(&[(1, &["c", "door", "d", &large])]);
    worker.claimed(number, &[(id(1), 1)], reply, Instant::now());
    assert!(matches!(phase(&worker), Phase::Live));
    assert_eq!((before, worker.pace.streams(1 << 20)), (1024, 10), "it is known what frames weigh");
}

#[test]
fn a_claim_that_is_refused_is_looked_for_again() {
    let mut worker = worker();
    let number = stream(&worker);
    set_phase(&mut worker, Phase::Recovery { after: id(9), found: Vec::new(), is_last_page: true });
    worker.claimed(number, &[(id(1), 1)], error("OOM"), Instant::now());

    let Phase::Recovery { after, is_last_page, .. } = phase(&worker) else { panic!("live") };
    assert_eq!((*after, *is_last_page), (EntryId::default(), false));
    assert_eq!(worker.read_breaker.n_failures(), 1);
}

/// The worker's only stream has no group, and one is made, or was there by then; how many were lost
/// in all.
fn resets(worker: &mut Worker, made: i64) -> u64 {
    let number = stream(worker);
    let Value::ServerError(error) = error("NOGROUP") else { panic!("no error") };
    worker.refused(&[number], &error, Instant::now());
    worker.read_breaker.fail(0.0);
    let made = vec![Value::Array(vec![Value::Int(made)])];
    worker.groups_made(&[number], made, Instant::now());
    assert!(matches!(phase(worker), Phase::Recovery { .. }));
    assert_eq!(worker.read_breaker.n_failures(), 0);
    worker.common.health.now().n_resets
}

#[test]
fn a_group_that_had_to_be_made_anew_is_a_reset_and_a_first_one_is_not() {
    let mut worker = worker();

    assert_eq!(resets(&mut worker, 1), 0);
    assert_eq!(resets(&mut worker, 0), 0, "somebody else made it");
    assert_eq!(resets(&mut worker, 1), 1);
}

/// The worker's stream has a group, and nothing in it.
fn find_group(worker: &mut Worker) {
    let number = stream(worker);
    let span = Span::new(EntryId::default(), &worker.streams[&number].held);
    let nothing = || Value::Array(Vec::new());
    let reply = Value::Array(vec![nothing(), nothing(), Value::Int(0)]);
    worker.looked_up(number, &span, reply, Instant::now());
}

#[test]
fn a_group_is_missed_also_where_the_lease_was_lost_before() {
    let mut worker = worker();
    find_group(&mut worker);

    worker.obey(Order::Forget(SHARD));
    grant(&mut worker, "node:1:2");

    assert_eq!(resets(&mut worker, 1), 1);
}

#[test]
fn the_group_of_a_camera_that_was_removed_is_not_missed() {
    let mut worker = idle_worker(Config { shards: 1, ..Config::default() });
    grant_cameras(&mut worker, 0, &["a"]);
    find_group(&mut worker);

    worker.obey(Order::Remove(SHARD, "cam:a".to_owned()));
    grant_cameras(&mut worker, 0, &["a"]);

    assert_eq!(resets(&mut worker, 1), 0);
}

#[test]
fn a_group_that_cannot_be_made_leaves_the_key_alone_for_a_while() {
    let mut worker = worker();
    let number = stream(&worker);
    let now = Instant::now();
    set_phase(&mut worker, Phase::NoGroup);
    worker.groups_made(&[number], vec![Value::Nil], now);
    assert!(now < worker.read_at && matches!(phase(&worker), Phase::NoGroup));

    worker.groups_made(&[number], vec![Value::Array(vec![text("WRONGTYPE")])], now);
    assert!(matches!(phase(&worker), Phase::Broken(until) if *until == now + BROKEN_FOR));
}

#[test]
fn a_key_that_is_no_stream_is_left_alone_for_a_while() {
    let mut worker = worker();
    let now = Instant::now();
    let number = stream(&worker);
    worker.broken(&[number], now);

    assert!(matches!(phase(&worker), Phase::Broken(until) if *until == now + BROKEN_FOR));
}

#[test]
fn a_refusal_is_answered_by_what_it_means() {
    let mut worker = worker();
    let number = stream(&worker);
    let now = Instant::now();
    let mut refused = |code: &str| {
        set_phase(&mut worker, Phase::Live);
        (worker.read_at, worker.to_report) = (now, std::collections::VecDeque::new());
        let Value::ServerError(error) = error(code) else { panic!("no error") };
        worker.refused(&[number], &error, now);
        let phase = format!("{:?}", phase(&worker));
        (phase, now < worker.read_at, worker.to_report.contains(&Report::Moved))
    };

    assert_eq!(refused("NOGROUP"), ("NoGroup".to_owned(), false, false));
    assert!(refused("WRONGTYPE").0.starts_with("Broken"));
    assert_eq!(refused("OOM"), ("Live".to_owned(), true, false));
    assert_eq!(refused("READONLY"), ("Live".to_owned(), true, true));
    assert_eq!(refused("MOVED"), ("Live".to_owned(), true, true));
    let health = worker.common.health.now();
    assert_eq!(health.problem.as_deref(), Some("Redis refused: MOVED what was wrong"));
    assert_eq!(health.n_faults, 3);
}

#[test]
fn of_several_keys_the_one_that_is_no_stream_is_found() {
    let mut worker = idle_worker(Config { shards: 1, ..Config::default() });
    grant_cameras(&mut worker, 0, &["a", "b", "c"]);
    go_live(&mut worker);
    let streams: Vec<u64> = ["a", "b", "c"].map(|camera| stream_of(&worker, camera)).into();
    let Value::ServerError(error) = error("WRONGTYPE") else { panic!("no error") };
    worker.refused(&streams, &error, Instant::now());
    let is_broken = |worker: &Worker| {
        let is_broken = |number: &u64| matches!(worker.streams[number].phase, Phase::Broken(_));
        streams.iter().map(is_broken).collect::<Vec<_>>()
    };
    assert_eq!(is_broken(&worker), [false; 3], "each has to be asked");

    let kinds = ["stream", "list", "none"].map(|kind| Value::SimpleString(kind.to_owned()));
    worker.typed(&streams, kinds.into(), Instant::now());
    assert_eq!(is_broken(&worker), [false, true, false]);
}

#[test]
fn after_a_broken_connection_all_streams_are_looked_over() {
    let mut worker = idle_worker(Config { shards: 1, ..Config::default() });
    grant_cameras(&mut worker, 0, &["a", "b", "c"]);
    let [a, b, c] = ["a", "b", "c"].map(|camera| stream_of(&worker, camera));
    let now = Instant::now();
    worker.streams.get_mut(&a).unwrap().phase = Phase::Live;
    worker.streams.get_mut(&b).unwrap().phase =
        Phase::Recovery { after: id(9), found: vec![(id(10), 1)], is_last_page: true };
    worker.streams.get_mut(&c).unwrap().phase = Phase::Broken(now + BROKEN_FOR);

    worker.read_failed(&Fault::Timeout(Duration::ZERO), now);

    for number in [a, b] {
        let Phase::Recovery { after, found, is_last_page } = &worker.streams[&number].phase else {
            panic!("another phase")
        };
        assert_eq!((*after, found.len(), *is_last_page), (EntryId::default(), 0, false));
    }
    assert!(matches!(worker.streams[&c].phase, Phase::Broken(_)));
    assert!(now < worker.read_at);
    assert_eq!(worker.to_report, [Report::Moved]);
    assert_eq!(worker.common.health.now().n_faults, 1);
    worker.to_report.clear();
    worker.read_failed(&Fault::Nonsense("nothing"), now);
    assert!(worker.to_report.is_empty(), "the server is where it was");
}

/// A read of new entries of the only stream that is answered so.
fn read(worker: &mut Worker, reply: Value, now: Instant) {
    let number = stream(worker);
    let key = text(&worker.common.shards.frames(SHARD));
    let reply = Value::Array(vec![Value::Array(vec![key, reply])]);
    worker.fresh(&[vec![number]], 2, vec![reply], now);
}

#[test]
fn the_next_read_follows_as_the_last_one_was() {
    let mut worker = worker();
    go_live(&mut worker);
    let linger = worker.common.config.linger;
    let now = Instant::now();
    let frame: &[&str] = &["c", "door", "d", "x"];
    worker.read_breaker.fail(0.0);
    read(&mut worker, entries(&[(1, frame), (2, frame)]), now);
    assert_eq!((worker.read_at, worker.read_breaker.n_failures()), (now, 0), "there is more");

    worker.last_read = now;
    let later = now + linger;
    read(&mut worker, entries(&[(3, frame)]), later);
    assert_eq!(worker.read_at, later + 2 * linger, "there was little");
    assert_eq!(worker.common.ledger.counts().in_flight, 3);

    // So long without a frame that it may block.
    let idle = now + Duration::from_secs(1);
    read(&mut worker, Value::Nil, idle);
    assert_eq!((worker.step, worker.read_at), (Step::Block, idle));
    worker.post.is_cluster = true;
    read(&mut worker, Value::Nil, idle);
    assert_eq!(worker.read_at, idle + CLUSTER_IDLE, "nothing can block");
    worker.post.is_cluster = false;
    set_phase(&mut worker, Phase::recovery());
    read(&mut worker, Value::Nil, idle);
    assert_eq!(worker.read_at, idle + linger, "something is to be done meanwhile");
}

#[test]
fn a_read_counts_all_streams_that_were_asked_and_all_that_came() {
    let mut worker = idle_worker(Config { shards: 1, ..Config::default() });
    grant_cameras(&mut worker, 0, &["a", "b"]);
    go_live(&mut worker);
    let streams: Vec<u64> = ["a", "b"].map(|camera| stream_of(&worker, camera)).into();
    let now = Instant::now();
    let large = "x".repeat(10_000);
    let reply = |camera: &str, millis: u64| {
        Value::Array(vec![
            text(&format!("cam:{camera}")),
            entries(&[(millis, &["d", &large]), (millis + 1, &["d", &large])]),
        ])
    };
    let both = Value::Array(vec![reply("a", 1), reply("b", 1)]);
    worker.fresh(std::slice::from_ref(&streams), 2, vec![both], now);
    assert_eq!(worker.read_at, now, "there is more of both");
    assert_eq!(worker.pace.streams(100_010), 10, "it is known what frames weigh");

    // Two of a hundred streams that were asked had frames: it waits for as many as it may.
    worker.last_read = now;
    let (later, many) = (now + Duration::from_millis(1), vec![streams[0]; 100]);
    let some = Value::Array(vec![reply("a", 3)]);
    worker.fresh(&[many], 9, vec![some], later);
    assert_eq!(worker.read_at, later + Duration::from_millis(16));
}

#[test]
fn a_read_that_is_refused_is_not_followed_at_once() {
    let mut worker = worker();
    go_live(&mut worker);
    let now = Instant::now();
    let number = stream(&worker);
    worker.fresh(&[vec![number]], 2, vec![error("OOM")], now);

    assert!(now < worker.read_at);
    assert_eq!(worker.read_breaker.n_failures(), 1);
}

#[test]
fn the_lag_is_how_old_the_newest_frame_is() {
    let mut worker = worker();
    go_live(&mut worker);
    let frame: &[&str] = &["c", "door", "d", "x"];
    let before = now_ms();
    read(&mut worker, entries(&[(before - 5000, frame), (before - 9000, frame)]), Instant::now());

    let lag = worker.common.flow.lag_ms.load(Ordering::Relaxed);
    assert!((5000..9000).contains(&lag), "{lag}");
    read(&mut worker, Value::Nil, Instant::now());
    assert_eq!(worker.common.flow.lag_ms.load(Ordering::Relaxed), 0);
}

#[test]
fn what_cannot_be_a_frame_here_is_settled_at_once() {
    let mut worker = worker_with(Config {
        max_frame_bytes: 10,
        policies: vec![crate::Rule {
            cameras: "quick".to_owned(),
            keep: crate::Keep::All,
            max_age: Some(Duration::from_secs(1)),
        }],
        ..Config::default()
    });
    go_live(&mut worker);
    worker.common.roster.pause("paused").unwrap();
    let reply = entries(&[
        (1, &["c", "door"]),
        (2, &["c", "paused", "d", "x"]),
        (3, &["c", "quick", "t", "1", "d", "x"]),
        (4, &["c", "door", "d", "0123456789x"]),
        (5, &["c", "door", "d", "0123456789"]),
    ]);
    read(&mut worker, reply, Instant::now());

    let endings: Vec<_> =
        worker.ready.iter().map(|settled| (settled.id, settled.verdict.ending())).collect();
    let dropped = |reason| Ending::Dropped(reason);
    let expected = [
        (id(1), Ending::Dead),
        (id(2), dropped(Reason::Paused)),
        (id(3), dropped(Reason::Stale)),
        (id(4), Ending::Dead),
    ];
    assert_eq!(endings, expected);
    assert_eq!((worker.line.n_waiting("door"), worker.line.n_waiting("quick")), (1, 0));
    // What is settled weighs no more than that; what waits weighs what it is.
    assert_eq!(worker.common.credit.used(), (5 + 9 + 10 + 17 + 16, 5));
    let seen = worker.common.sightings.of("door").unwrap();
    assert_eq!((seen.frames, seen.last_ms), (1, 5));
    assert_eq!(worker.shards[&SHARD].n_held, 5);
}

#[test]
fn a_frame_in_shared_memory_weighs_what_it_will_weigh_once_it_is_copied() {
    let mut worker = worker();
    read(&mut worker, entries(&[(1, &["c", "door", "h", "ring:1:2:5000"])]), Instant::now());

    assert_eq!(worker.common.credit.used(), (1 + 4 + 1 + 13 + 5000, 1));
}

#[test]
fn a_settled_frame_of_any_size_weighs_little() {
    let worker = worker();
    let held = worker.common.credit.charge(5000);

    assert_eq!(light(&held).bytes(), 64);
}

#[test]
fn a_camera_of_another_shard_does_not_belong_into_a_stream_that_is_shared() {
    let mut worker = idle_worker(Config { shards: 2, ..Config::default() });
    grant(&mut worker, "node:1:1");
    let shards = worker.common.shards.clone();
    let names: Vec<String> = (0..20).map(|camera| format!("cam-{camera}")).collect();
    let own = names.iter().find(|name| shards.of(name) == SHARD).unwrap();
    let other = names.iter().find(|name| shards.of(name) != SHARD).unwrap();
    read(
        &mut worker,
        entries(&[(1, &["c", own, "d", "x"]), (2, &["c", other, "d", "x"])]),
        Instant::now(),
    );

    assert_eq!((worker.line.n_waiting(own), worker.ready.len()), (1, 1));
    let Verdict::Dead { reason, .. } = &worker.ready[0].verdict else { panic!("no letter") };
    assert!(reason.contains("does not belong into this stream"), "{reason}");

    // In a stream of its own a camera is where it was put.
    let mut worker = idle_worker(Config { shards: 2, ..Config::default() });
    grant_cameras(&mut worker, 0, &[other]);
    let number = stream(&worker);
    let fields = vec![(b"d".to_vec(), b"x".to_vec())];
    let standing = Standing::Fresh;
    worker.arrived(number, Delivered { id: id(1), fields, tries: 0, standing });
    assert_eq!((worker.line.n_waiting(other), worker.ready.len()), (1, 0));
}

#[test]
fn a_shard_that_waited_for_a_read_is_given_back_after_it() {
    let mut worker = worker();
    worker.reading_of.insert(SHARD);
    worker.obey(Order::Drain(SHARD));
    assert!(worker.to_report.is_empty());

    let link = Err(Fault::Nonsense("nothing"));
    worker.has_read(Read { request: Request::Open, link, values: Vec::new() });

    assert_eq!(worker.to_report, [Report::Drained(SHARD)]);
}

#[test]
fn a_camera_that_left_during_a_read_is_forgotten_after_it() {
    let mut worker = idle_worker(Config { shards: 1, ..Config::default() });
    grant_cameras(&mut worker, 0, &["a", "b"]);
    worker.reading = Some(Box::pin(pending()));
    worker.obey(Order::Remove(SHARD, "cam:a".to_owned()));
    assert_eq!(worker.streams.len(), 2);

    worker.reading = None;
    let link = Err(Fault::Nonsense("nothing"));
    worker.has_read(Read { request: Request::Open, link, values: Vec::new() });

    assert_eq!(worker.by_key.keys().collect::<Vec<_>>(), [b"cam:b"]);
}

#[test]
fn what_was_asked_is_what_a_reply_is_about() {
    let mut worker = worker();
    let number = stream(&worker);
    let now = Instant::now();
    worker.has_replied(Request::Open, Vec::new(), now);
    assert!(worker.must_verify);
    let token = std::sync::Arc::clone(&worker.shards[&SHARD].token);
    let values = ["fence", "node:1:1"].map(text).into();
    worker.has_replied(Request::Verify(vec![(SHARD, token)]), values, now);
    assert!(!worker.must_verify && worker.shards.contains_key(&SHARD));
    let span = Span::new(EntryId::default(), &worker.streams[&number].held);
    worker.has_replied(Request::LookUp(vec![(number, span)]), vec![looked(&[(1, 2)], &[], 0)], now);
    assert_eq!(found(&worker).0, [(id(1), 2)]);
    let reserved = worker.common.credit.reserve(100, 10).unwrap();
    let claims = vec![(number, vec![(id(1), 2)])];
    let reply = entries(&[(1, &["c", "door", "d", "x"])]);
    worker.has_replied(Request::Claim { claims, reserved }, vec![reply], now);
    assert_eq!(worker.common.credit.used(), (7, 1), "what was set aside is given back");
    let streams = vec![number];
    let list = Value::SimpleString("list".to_owned());
    worker.has_replied(Request::Types(streams), vec![list], now);
    assert!(matches!(phase(&worker), Phase::Broken(_)));
    set_phase(&mut worker, Phase::NoGroup);
    let made = Value::Array(vec![Value::Int(1)]);
    worker.has_replied(Request::MakeGroups(vec![number]), vec![made], now);
    assert!(matches!(phase(&worker), Phase::Recovery { .. }));
}

/// A worker that may read its stream, works on a frame, and has had a connection break.
fn doubting() -> Worker {
    let mut worker = worker();
    worker.common.leases.set(SHARD, Some(Instant::now() + Duration::from_hours(1)));
    let number = stream(&worker);
    hold(&mut worker, number, id(5));
    worker.doubt();
    worker
}

#[test]
fn where_redis_went_back_in_time_what_is_worked_on_begins_again_behind_what_is_older() {
    let mut worker = doubting();
    look_up(&mut worker, looked(&[], &[4, 6], 0));

    assert!(worker.streams[&stream(&worker)].held.is_empty());
    assert_eq!(found(&worker), (Vec::new(), false), "it is looked for from the beginning");
    let counts = worker.common.ledger.counts();
    assert_eq!((counts.taken, counts.in_flight), (1, 0));
    assert!(!worker.is_in_doubt(Instant::now()));
}

#[test]
fn what_is_found_behind_what_is_worked_on_is_only_claimed() {
    let mut worker = doubting();
    assert!(worker.is_in_doubt(Instant::now()));
    look_up(&mut worker, looked(&[], &[6], 0));

    assert!(worker.streams[&stream(&worker)].held.contains(&id(5)));
    assert_eq!(found(&worker), (vec![(id(6), 1)], true));
    assert!(!worker.is_in_doubt(Instant::now()));
}

#[test]
fn a_stream_that_is_not_read_any_more_is_not_waited_for() {
    let mut worker = doubting();
    worker.obey(Order::Drain(SHARD));

    assert!(!worker.is_in_doubt(Instant::now()));
}
