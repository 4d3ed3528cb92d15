//! What is read next. No Redis: what would be sent is looked at.

use std::time::Duration;

use super::*;
use crate::{
    Config, Layout,
    worker::{
        Order, Report,
        rig::{
            SHARD, error, go_live, grant_cameras, hold, id, idle_worker, stream, stream_of, text,
            words, worker,
        },
    },
};

/// A worker with two shards of two cameras each, of which all that is new is read.
fn cameras() -> Worker {
    let mut worker = idle_worker(Config { shards: 2, layout: Layout::Camera, ..Config::default() });
    grant_cameras(&mut worker, 0, &["a", "b"]);
    grant_cameras(&mut worker, 1, &["c", "d"]);
    go_live(&mut worker);
    worker
}

/// The names of cameras whose streams a request is about, by command.
fn asked(worker: &Worker, request: &Request) -> Vec<Vec<String>> {
    let name = |number: &u64| worker.streams[number].camera.clone().unwrap();
    match request {
        Request::Fresh { commands, .. } => {
            commands.iter().map(|streams| streams.iter().map(name).collect()).collect()
        }
        Request::Claim { claims, .. } => {
            vec![claims.iter().map(|(number, _)| name(number)).collect()]
        }
        Request::LookUp(spans) => vec![spans.iter().map(|(number, _)| name(number)).collect()],
        Request::MakeGroups(streams) => vec![streams.iter().map(name).collect()],
        _ => panic!("another request"),
    }
}

fn fresh(worker: &mut Worker) -> (Vec<Vec<String>>, Vec<Vec<String>>, Duration) {
    let (request, commands, longer) = worker.read_fresh(Instant::now()).unwrap();
    assert!(matches!(request, Request::Fresh { .. }));
    (asked(worker, &request), words(&commands), longer)
}

fn recovery(worker: &mut Worker, camera: &str, found: &[(u64, u32)], is_last_page: bool) {
    let number = stream_of(worker, camera);
    let found = found.iter().map(|(millis, n)| (id(*millis), *n)).collect();
    worker.streams.get_mut(&number).unwrap().phase =
        Phase::Recovery { after: id(7), found, is_last_page };
}

#[test]
fn new_entries_of_all_streams_are_read_in_one_command_without_being_noted() {
    let mut worker = cameras();

    let (asked, words, longer) = fresh(&mut worker);

    assert_eq!(asked, [["a", "b", "c", "d"]]);
    let count = words[0][5].clone();
    let expected = ["XREADGROUP", "GROUP", "paceline", "node-1", "COUNT", &count, "NOACK"];
    let streams = ["STREAMS", "cam:a", "cam:b", "cam:c", "cam:d", ">", ">", ">", ">"];
    assert_eq!(words, [[&expected[..], &streams[..]].concat()]);
    assert_eq!(longer, Duration::ZERO);
}

#[test]
fn in_a_cluster_a_command_reads_the_streams_of_one_shard() {
    let mut worker = cameras();
    worker.post.is_cluster = true;

    assert_eq!(fresh(&mut worker).0, [["a", "b"], ["c", "d"]]);
}

#[test]
fn a_command_reads_sixty_four_streams_unless_it_blocks() {
    let mut worker = idle_worker(Config { shards: 1, ..Config::default() });
    let names: Vec<String> = (0..65).map(|camera| format!("{camera:02}")).collect();
    grant_cameras(&mut worker, 0, &names.iter().map(|name| &**name).collect::<Vec<_>>());
    go_live(&mut worker);
    let sizes = |asked: Vec<Vec<String>>| asked.iter().map(Vec::len).collect::<Vec<_>>();

    assert_eq!(sizes(fresh(&mut worker).0), [64, 1]);
    worker.step = Step::Block;
    assert_eq!(sizes(fresh(&mut worker).0), [65]);
}

#[test]
fn an_idle_reader_blocks_where_nothing_speaks_against_it() {
    let blocks = |worker: &mut Worker| {
        let (_, words, longer) = fresh(worker);
        let blocks = words[0].windows(2).any(|pair| pair == ["BLOCK", "250"]);
        assert_eq!(longer, if blocks { BLOCK } else { Duration::ZERO });
        blocks
    };
    let mut worker = cameras();
    worker.step = Step::Block;
    assert!(blocks(&mut worker));

    worker.step = Step::Wait(Duration::ZERO);
    assert!(!blocks(&mut worker), "it is busy");
    worker.step = Step::Block;
    worker.post.is_cluster = true;
    assert!(!blocks(&mut worker), "in a Cluster nothing blocks");
    worker.post.is_cluster = false;
    recovery(&mut worker, "a", &[], false);
    assert!(!blocks(&mut worker), "a stream is being looked over");
    go_live(&mut worker);
    worker.common.leases.set(ShardId(1), Some(Instant::now() + BLOCK));
    assert!(!blocks(&mut worker), "a lease may end meanwhile");
    worker.common.leases.set(ShardId(1), Some(Instant::now() + BLOCK * 3));
    assert!(blocks(&mut worker));
    let number = stream_of(&worker, "a");
    worker.streams.get_mut(&number).unwrap().phase = Phase::Broken(Instant::now() + BROKEN_FOR);
    assert!(blocks(&mut worker), "a key that is no stream is not waited for");
}

#[test]
fn rounds_that_cannot_ask_all_begin_where_the_last_one_ended() {
    let mut worker = cameras();
    // Frames are so large that a reply has room for three.
    worker.pace.weighed(1, worker.post.reply_bytes / 3);

    assert_eq!(fresh(&mut worker).0, [["a", "b", "c"]]);
    assert_eq!(fresh(&mut worker).0, [["d", "a", "b"]]);
    assert_eq!(fresh(&mut worker).0, [["c", "d", "a"]]);
    worker.step = Step::Block;
    assert_eq!(fresh(&mut worker).0, [["b", "c", "d", "a"]], "who is idle asks all");
}

#[test]
fn without_credit_nothing_is_read_or_claimed() {
    let mut worker = cameras();
    let all = worker.common.credit.charge(worker.common.config.credit_bytes);
    assert!(worker.read_fresh(Instant::now()).is_none());
    recovery(&mut worker, "a", &[(8, 1)], true);
    assert!(worker.recover(Instant::now()).is_none());

    drop(all);
    assert!(worker.read_fresh(Instant::now()).is_some());
    assert!(worker.recover(Instant::now()).is_some());
}

#[test]
fn only_what_is_ours_and_wanted_is_read() {
    let mut worker = cameras();
    let picked = |worker: &Worker, most: usize| {
        let picked = worker.pick(Instant::now(), most, |phase| matches!(phase, Phase::Live));
        let name = |number: &u64| worker.streams[number].camera.clone().unwrap();
        picked.iter().map(name).collect::<String>()
    };
    assert_eq!(picked(&worker, 9), "abcd");
    assert_eq!(picked(&worker, 3), "abc");

    worker.common.roster.pause("a").unwrap();
    assert_eq!(picked(&worker, 9), "bcd", "a camera is paused");
    let number = stream_of(&worker, "b");
    worker.streams.get_mut(&number).unwrap().is_leaving = true;
    assert_eq!(picked(&worker, 9), "cd", "a camera is leaving");
    worker.shards.get_mut(&ShardId(1)).unwrap().is_draining = true;
    assert_eq!(picked(&worker, 9), "", "a shard is being given back");
    worker.shards.get_mut(&ShardId(1)).unwrap().is_draining = false;
    worker.common.leases.set(ShardId(1), None);
    assert_eq!(picked(&worker, 9), "", "a lease has ended");
}

#[test]
fn a_stream_without_a_group_gets_one_before_anything_else_is_asked() {
    let mut worker = cameras();
    let number = stream_of(&worker, "c");
    worker.streams.get_mut(&number).unwrap().phase = Phase::NoGroup;
    recovery(&mut worker, "a", &[], false);

    let (request, commands, _) = worker.next_request(Instant::now()).unwrap();

    assert!(matches!(request, Request::MakeGroups(_)));
    assert_eq!(asked(&worker, &request), [["c"]]);
    assert_eq!(words(&commands)[0][2..], ["1", "cam:c", "paceline"]);
}

#[test]
fn looking_over_and_reading_on_take_turns() {
    let mut worker = cameras();
    recovery(&mut worker, "a", &[], false);
    let mut kinds = Vec::new();
    for _ in 0..4 {
        kinds.push(match worker.next_request(Instant::now()).unwrap().0 {
            Request::Fresh { .. } => "new",
            Request::LookUp(_) => "old",
            _ => "other",
        });
    }
    assert_eq!(kinds, ["new", "old", "new", "old"]);

    go_live(&mut worker);
    for _ in 0..2 {
        let request = worker.next_request(Instant::now()).unwrap().0;
        assert!(matches!(request, Request::Fresh { .. }), "nothing else is to be done");
    }
    for camera in ["a", "b", "c", "d"] {
        recovery(&mut worker, camera, &[], false);
    }
    for _ in 0..2 {
        let request = worker.next_request(Instant::now()).unwrap().0;
        assert!(matches!(request, Request::LookUp(_)), "nothing else can be done");
    }
}

#[test]
fn what_was_found_is_claimed_before_more_is_looked_for() {
    let mut worker = cameras();
    recovery(&mut worker, "a", &[], false);
    recovery(&mut worker, "b", &[(8, 1), (9, 3)], false);

    let (request, commands, _) = worker.recover(Instant::now()).unwrap();
    assert_eq!(asked(&worker, &request), [["b"]]);
    let claim = ["XCLAIM", "cam:b", "paceline", "node-1", "0", "8-0", "9-0", "FORCE"];
    assert_eq!(words(&commands), [claim]);
    let Request::Claim { claims, .. } = request else { panic!("another request") };
    assert_eq!(claims[0].1, [(id(8), 1), (id(9), 3)]);

    let number = stream_of(&worker, "a");
    hold(&mut worker, number, id(12));
    let (request, commands, _) = worker.recover(Instant::now()).unwrap();
    assert_eq!(asked(&worker, &request), [["a", "b"]]);
    let shards = &worker.common.shards;
    let expected = [
        "3",
        "cam:a",
        &shards.settled(SHARD, Some("a")),
        &shards.ledger(SHARD),
        "paceline",
        "(7-0",
        "100",
        "1",
        "12-0",
    ];
    assert_eq!(words(&commands)[0][2..], expected);
    go_live(&mut worker);
    assert!(worker.recover(Instant::now()).is_none());
}

#[test]
fn as_many_are_claimed_as_there_is_room_for() {
    let mut worker = cameras();
    let found: Vec<(u64, u32)> = (8..208).map(|millis| (millis, 1)).collect();
    recovery(&mut worker, "a", &found, true);
    recovery(&mut worker, "b", &found, true);
    let claimed = |worker: &mut Worker| match worker.recover(Instant::now()).unwrap().0 {
        Request::Claim { claims, .. } => {
            claims.iter().map(|(_, ids)| ids.len()).collect::<Vec<_>>()
        }
        _ => panic!("another request"),
    };

    assert_eq!(claimed(&mut worker), [100, 100], "a page of each");
    worker.pace.weighed(1, worker.post.reply_bytes / 60);
    assert_eq!(claimed(&mut worker), [30, 30], "they are large");
    worker.pace.weighed(1, worker.post.reply_bytes);
    assert_eq!(claimed(&mut worker), [1], "one is as large as a reply may be");
    let Phase::Recovery { found, .. } = &worker.streams[&stream_of(&worker, "a")].phase else {
        panic!("another phase")
    };
    assert_eq!((found.len(), found[0].0), (69, id(139)));
}

#[test]
fn a_new_connection_asks_first_whose_the_shards_are() {
    let mut worker = cameras();
    worker.must_verify = true;

    let (request, commands, _) = worker.next_request(Instant::now()).unwrap();

    let Request::Verify(shards) = request else { panic!("another request") };
    let keys = &worker.common.shards;
    let asked = [keys.fence(), keys.lease(SHARD), keys.lease(ShardId(1))];
    assert_eq!(words(&commands), asked.map(|key| vec!["GET".to_owned(), key]));
    worker.verified(shards, vec![text("new"), text("node:1:s000"), text("other:1:9")]);
    assert!(!worker.must_verify);
    assert_eq!(worker.shards.keys().collect::<Vec<_>>(), [&SHARD], "one is somebody else's");
    let fenced = Report::Fenced(ShardId(1), "node:1:s001".into());
    assert_eq!(worker.to_report, [fenced]);
    assert_eq!(worker.fence.as_deref(), Some("new"));

    let owned = || vec![(SHARD, "node:1:s000".into())];
    worker.verified(owned(), vec![text("newer"), error("LOADING")]);
    assert!(worker.must_verify && worker.shards.contains_key(&SHARD), "nobody knows");
    assert_eq!(worker.fence.as_deref(), Some("new"));
    worker.verified(owned(), vec![error("LOADING"), text("node:1:s000")]);
    assert!(worker.must_verify && worker.fence.as_deref() == Some("new"));
    worker.verified(owned(), vec![Value::Nil, text("node:1:s000")]);
    assert!(!worker.must_verify && worker.fence.as_deref() == Some(""), "nobody took any");
    worker.verified(owned(), vec![text("new"), Value::Nil]);
    assert!(!worker.must_verify && worker.shards.is_empty(), "it is nobody's");
}

#[test]
fn a_shard_that_was_granted_meanwhile_is_asked_for_before_anything_is_committed() {
    let mut worker = cameras();
    let (request, ..) = worker.verify();
    let Request::Verify(shards) = request else { panic!("another request") };
    grant_cameras(&mut worker, 2, &["e"]);
    worker.fence = None;

    let leases = ["node:1:s000", "node:1:s001"];
    worker.verified(shards, ["new", leases[0], leases[1]].map(text).into());

    assert!(worker.must_verify && worker.fence.is_none());
}

#[test]
fn in_a_cluster_no_fence_is_asked_for() {
    let mut worker = cameras();
    worker.post.is_cluster = true;

    let (request, commands, _) = worker.verify();

    let Request::Verify(shards) = request else { panic!("another request") };
    assert_eq!(words(&commands).len(), 2);
    worker.verified(shards, vec![text("node:1:s000"), text("other:1:9")]);
    assert_eq!(worker.shards.keys().collect::<Vec<_>>(), [&SHARD]);
}

#[test]
fn now_and_then_all_streams_are_looked_over_and_broken_ones_once_it_is_time() {
    let mut worker = cameras();
    let now = Instant::now();
    worker.sweep_at = now + SWEEP_EVERY;
    let number = stream_of(&worker, "a");
    worker.streams.get_mut(&number).unwrap().phase = Phase::Broken(now + BROKEN_FOR / 2);
    let looked_over = |worker: &mut Worker, now| {
        worker.sweep(now);
        let recovers =
            |stream: &&crate::worker::Stream| matches!(stream.phase, Phase::Recovery { .. });
        worker.streams.values().filter(recovers).count()
    };

    assert_eq!(looked_over(&mut worker, now), 0);
    assert_eq!(looked_over(&mut worker, now + BROKEN_FOR / 2), 1);
    assert_eq!(looked_over(&mut worker, now + SWEEP_EVERY), 4);
    go_live(&mut worker);
    worker.sweep_at = now + SWEEP_EVERY;
    looked_over(&mut worker, now + SWEEP_EVERY);
    assert_eq!(worker.sweep_at, now + SWEEP_EVERY * 2, "and then again");
}

#[test]
fn a_shard_is_not_given_back_while_entries_of_it_are_on_their_way() {
    let mut worker = cameras();
    let now = Instant::now();
    let both = HashSet::from([SHARD, ShardId(1)]);
    let (request, _, _) = worker.read_fresh(now).unwrap();
    assert_eq!(worker.shards_of(&request), both);
    recovery(&mut worker, "c", &[(8, 1)], true);
    let (request, _, _) = worker.recover(now).unwrap();
    assert_eq!(worker.shards_of(&request), HashSet::from([ShardId(1)]));
    let (request, _, _) = worker.recover(now).unwrap();
    assert!(worker.shards_of(&request).is_empty(), "a look brings none");

    worker.reading_of = both;
    worker.obey(Order::Drain(SHARD));
    assert!(worker.to_report.is_empty());
    worker.reading_of.clear();
    worker.check_drained(SHARD);
    assert_eq!(worker.to_report, [Report::Drained(SHARD)]);
}

#[test]
fn who_owns_nothing_does_not_connect() {
    let mut worker = idle_worker(Config::default());
    let before = Instant::now();
    worker.start_read();

    assert!(worker.reading.is_none());
    assert!(before + worker.common.config.linger <= worker.read_at);
}

#[test]
fn a_read_begins_when_it_is_due_and_none_is_under_way() {
    let mut worker = worker();
    let later = Instant::now() + Duration::from_hours(1);
    worker.read_at = later;
    worker.start_read();
    assert!(worker.reading.is_none() && worker.read_at == later, "it is not due");

    worker.read_at = Instant::now();
    worker.start_read();
    assert!(worker.reading.is_some(), "it connects");
    let number = stream(&worker);
    worker.streams.get_mut(&number).unwrap().is_leaving = true;
    worker.check_left(number);
    assert!(worker.streams.contains_key(&number), "the reply may be about it");
}
