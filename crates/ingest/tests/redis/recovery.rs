//! Frames that were read and not settled: none is pending until it is claimed.

use std::{collections::BTreeSet, sync::Arc};

use paceline_ingest::{Config, Layout};
use paceline_pipeline::Models;
use redis::Value;

use crate::rig::{self, Producer, Running, Server};

/// Without a model frames are read and wait.
fn no_models() -> Arc<Models> {
    Arc::default()
}

/// The model that they wait for comes.
fn come(models: &Models) {
    models.replace("sim", vec![rig::quick_models().find("sim", None).unwrap()]);
}

async fn redis<T: redis::FromRedisValue>(server: &Server, command: &[&str]) -> T {
    let mut cmd = redis::cmd(command[0]);
    cmd.arg(&command[1..]).query_async(&mut server.connect().await).await.unwrap()
}

/// How many entries of a stream are pending.
async fn n_pending(server: &Server, key: &str) -> u64 {
    let (n, _, _, _): (u64, Value, Value, Value) =
        redis(server, &["XPENDING", key, "paceline"]).await;
    n
}

/// Somebody of the same group takes frames, and notes them as pending or not.
async fn take(server: &Server, key: &str, n: usize, notes: bool) {
    let n = n.to_string();
    let mut command = vec!["XREADGROUP", "GROUP", "paceline", "dead", "COUNT", &n];
    if !notes {
        command.push("NOACK");
    }
    command.extend(["STREAMS", key, ">"]);
    let taken: Value = redis(server, &command).await;
    assert_ne!(taken, Value::Nil);
}

/// Closes the connection of the only reader, after which it looks all its streams over.
async fn cut_reader(server: &Server) {
    let clients: String = redis(server, &["CLIENT", "LIST"]).await;
    let reader = clients.lines().find(|client| client.contains("name=paceline-reader-")).unwrap();
    let id = reader.split([' ', '=']).nth(1).unwrap();
    let _: u64 = redis(server, &["CLIENT", "KILL", "ID", id]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_dead_node_read_is_taken_over_in_order() {
    for layout in [Layout::Shard, Layout::Camera] {
        let server = Server::start(&[]).await;
        let cameras = (0..10).map(|camera| format!("cam-{camera}")).collect();
        let config = Config { layout, cameras, ..rig::config(&server.url()) };
        let mut producer = Producer::new(&server, &config).await;
        producer.add(10, 20).await;
        let running = Running::start(config.clone(), no_models());
        rig::until("all are read", async || running.cameras.counts().in_flight == 200).await;
        for camera in 0..10 {
            assert_eq!(n_pending(&server, &producer.key(&format!("cam-{camera}"))).await, 0);
        }
        running.crash().await;
        producer.add(10, 5).await;

        let running = Running::start(config.clone(), rig::quick_models());
        let totals = running.settled().await;

        assert_eq!((totals.committed, totals.unaccounted()), (250, 0), "{layout:?}");
        rig::assert_all_once_in_order(&server, &config, &producer).await;
        assert!(running.stop().await.counts().balances());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frame_that_kills_one_reader_after_the_other_is_given_up() {
    let server = Server::start(&[]).await;
    let config = Config { max_tries: 4, ..rig::config(&server.url()) };
    let mut producer = Producer::new(&server, &config).await;
    producer.add(1, 1).await;
    for _ in 0..4 {
        let running = Running::start(config.clone(), no_models());
        rig::until("the model has it", async || running.cameras.counts().in_flight == 1).await;
        running.crash().await;
    }
    producer.add(1, 2).await;

    let running = Running::start(config.clone(), rig::quick_models());
    let totals = running.settled().await;

    assert_eq!((totals.committed, totals.dead, totals.unaccounted()), (2, 1, 0));
    let letters = running.cameras.dead_letters(10).await.unwrap();
    assert_eq!(letters[0].reason, "delivered 4 times without a result");
    assert_eq!(n_pending(&server, &producer.key("cam-0")).await, 0);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_pending_and_what_is_not_is_taken_over_in_one_order() {
    let server = Server::start(&[]).await;
    let config = rig::config(&server.url());
    let mut producer = Producer::new(&server, &config).await;
    producer.add(1, 1000).await;
    let key = producer.key("cam-0");
    let _: () = redis(&server, &["XGROUP", "CREATE", &key, "paceline", "0"]).await;
    // Earlier versions noted what they read.
    for round in 0..6 {
        take(&server, &key, 150, round % 2 == 0).await;
    }
    assert_eq!(n_pending(&server, &key).await, 450);

    let running = Running::start(config.clone(), rig::quick_models());
    let totals = running.settled().await;

    assert_eq!((totals.committed, totals.lost, totals.unaccounted()), (1000, 0, 0));
    rig::assert_all_once_in_order(&server, &config, &producer).await;
    assert_eq!(n_pending(&server, &key).await, 0);
    assert!(running.stop().await.counts().balances());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_delivered_to_nobody_is_found_among_what_is_worked_on() {
    let server = Server::start(&[]).await;
    let config = Config { shards: 1, readers: 1, ..rig::config(&server.url()) };
    let mut producer = Producer::new(&server, &config).await;
    let key = producer.key("cam-0");
    let models = no_models();
    let running = Running::start(config.clone(), Arc::clone(&models));
    for n in 0..3 {
        producer.add_some(n..n + 1).await;
        let n = n as u64;
        rig::until("it is read", async || running.cameras.counts().in_flight == n + 1).await;
        // A reply that never arrives.
        let mut lost = redis::pipe();
        lost.atomic();
        for number in 2 * n..2 * n + 2 {
            let label = format!("{number} 0 cam-10");
            lost.cmd("XADD").arg(&key).arg(&["*", "k", &label, "d"]).arg(&number.to_le_bytes());
        }
        lost.cmd("XREADGROUP").arg(&["GROUP", "paceline", "dead", "NOACK", "STREAMS", &key, ">"]);
        let _: Value = lost.query_async(&mut producer.connection).await.unwrap();
        *producer.next.entry("cam-10".to_owned()).or_default() += 2;
    }
    cut_reader(&server).await;
    rig::until("all are read", async || running.cameras.counts().in_flight == 9).await;
    come(&models);

    let totals = running.settled().await;

    assert_eq!((totals.committed, totals.unaccounted()), (9, 0));
    rig::assert_all_once_in_order(&server, &config, &producer).await;
    assert!(running.stop().await.counts().balances());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_trimmed_away_while_it_is_worked_on_is_counted_as_lost() {
    let server = Server::start(&[]).await;
    let config = rig::config(&server.url());
    let mut producer = Producer::new(&server, &config).await;
    producer.add(1, 5).await;
    let key = producer.key("cam-0");
    // Fresh frames, and then such that were claimed.
    for (n_crashes, n_kept) in [(0, 3), (1, 1)] {
        for _ in 0..n_crashes {
            let running = Running::start(config.clone(), no_models());
            rig::until("they are read", async || running.cameras.counts().in_flight == 5).await;
            running.crash().await;
        }
        let models = no_models();
        let running = Running::start(config.clone(), Arc::clone(&models));
        rig::until("they are read", async || running.cameras.counts().in_flight == 5).await;
        let _: u64 = redis(&server, &["XTRIM", &key, "MAXLEN", &n_kept.to_string()]).await;
        come(&models);
        running.settled().await;
        let counts = running.stop().await.counts();
        assert_eq!((counts.committed, counts.lost), (n_kept, 5 - n_kept));
        assert!(counts.balances(), "{counts:?}");
        producer.add(1, 5).await;
    }

    let running = Running::start(config.clone(), rig::quick_models());
    let totals = running.settled().await;
    assert_eq!((totals.committed, totals.lost, totals.unaccounted()), (9, 6, 0));
    assert_eq!(rig::results(&server, &config).await["cam-0"], [2, 3, 4, 9, 10, 11, 12, 13, 14]);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_trimmed_away_after_its_reader_died_is_counted_as_lost() {
    for layout in [Layout::Shard, Layout::Camera] {
        let server = Server::start(&[]).await;
        let cameras = (0..10).map(|camera| format!("cam-{camera}")).collect();
        let config = Config { layout, cameras, ..rig::config(&server.url()) };
        let mut producer = Producer::new(&server, &config).await;
        producer.add(10, 20).await;
        let running = Running::start(config.clone(), no_models());
        rig::until("all are read", async || running.cameras.counts().in_flight == 200).await;
        running.crash().await;
        // Some that nobody has read go as well.
        producer.add(10, 2).await;
        let keys: BTreeSet<String> =
            (0..10).map(|camera| producer.key(&format!("cam-{camera}"))).collect();
        let mut n_trimmed = 0;
        for (n_kept, key) in keys.iter().enumerate() {
            let n: u64 = redis(&server, &["XTRIM", key, "MAXLEN", &n_kept.to_string()]).await;
            n_trimmed += n;
        }

        let second = Config { node: "second".to_owned(), ..config.clone() };
        let running = Running::start(second, rig::quick_models());
        let totals = running.settled().await;

        assert_eq!((totals.lost, totals.committed), (n_trimmed, 220 - n_trimmed), "{layout:?}");
        assert_eq!(totals.unaccounted(), 0, "{layout:?}");
        let counts = running.stop().await.counts();
        assert_eq!((counts.lost, counts.balances()), (n_trimmed, true), "{counts:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_trimmed_away_is_counted_once_whoever_finds_it() {
    let server = Server::start(&[]).await;
    let config = Config { shards: 1, readers: 1, ..rig::config(&server.url()) };
    let mut producer = Producer::new(&server, &config).await;
    producer.add(1, 5).await;
    let models = no_models();
    let running = Running::start(config.clone(), Arc::clone(&models));
    rig::until("they are read", async || running.cameras.counts().in_flight == 5).await;
    let _: u64 = redis(&server, &["XTRIM", &producer.key("cam-0"), "MAXLEN", "2"]).await;
    let lost = async || running.cameras.totals().await.unwrap().lost;
    assert_eq!(lost().await, 0);

    cut_reader(&server).await;
    rig::until("a look finds it", async || lost().await == 3).await;
    come(&models);
    let totals = running.settled().await;

    assert_eq!((totals.lost, totals.committed, totals.unaccounted()), (3, 2, 0));
    let counts = running.stop().await.counts();
    assert_eq!((counts.lost, counts.committed, counts.balances()), (3, 2, true), "{counts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_new_or_was_made_anew_has_lost_nothing() {
    let server = Server::start(&[]).await;
    let config = Config { shards: 1, readers: 1, ..rig::config(&server.url()) };
    let mut producer = Producer::new(&server, &config).await;
    let key = producer.key("cam-0");
    let shards = config.shards();
    let ledger = shards.ledger(shards.of("cam-0"));
    // Of each some are gone before a node looks; one has had more frames than the next, one fewer.
    for n in [9, 4, 7] {
        producer.add(1, n).await;
        let _: u64 = redis(&server, &["XTRIM", &key, "MAXLEN", "3"]).await;
        let running = Running::start(config.clone(), rig::quick_models());
        running.settled().await;
        running.stop().await;
        let lost: Option<i64> = redis(&server, &["HGET", &ledger, "lost"]).await;
        assert_eq!(lost, None, "{n}");
        let _: u64 = redis(&server, &["DEL", &key]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_a_count_was_removed_or_is_none_nothing_counts_as_lost() {
    let server = Server::start(&[]).await;
    let config = Config { shards: 1, readers: 1, ..rig::config(&server.url()) };
    let mut producer = Producer::new(&server, &config).await;
    let shards = config.shards();
    let count = shards.settled(shards.of("cam-0"), None);
    let mut added = 0;
    for spoil in [&["DEL", &count][..], &["SET", &count, "many"]] {
        let running = Running::start(config.clone(), rig::quick_models());
        producer.add(1, 5).await;
        running.settled().await;
        let _: redis::Value = redis(&server, spoil).await;
        producer.add(1, 3).await;
        running.settled().await;
        running.stop().await;
        added += 8;

        let running = Running::start(config.clone(), rig::quick_models());
        producer.add(1, 1).await;
        added += 1;
        let totals = running.settled().await;
        assert_eq!((totals.committed, totals.lost, totals.unaccounted()), (added, 0, 0));
        running.stop().await;
        let counted: u64 = redis(&server, &["GET", &count]).await;
        assert_eq!(counted, added + 1, "there is one again: {spoil:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_read_and_what_is_not_adds_up() {
    let server = Server::start(&[]).await;
    let config = Config { credit_frames: 40, ..rig::config(&server.url()) };
    let mut producer = Producer::new(&server, &config).await;
    producer.add(10, 20).await;
    let running = Running::start(config.clone(), no_models());
    rig::until("it holds what it can", async || {
        let (totals, counts) = (running.cameras.totals().await.unwrap(), running.cameras.counts());
        30 < counts.in_flight
            && (totals.pending(), totals.unread) == (counts.in_flight, 200 - counts.in_flight)
    })
    .await;
    running.crash().await;

    let running = Running::start(config.clone(), rig::quick_models());
    let totals = running.settled().await;
    assert_eq!((totals.committed, totals.pending(), totals.unread), (200, 0, 0));
    running.stop().await;
}
