//! Redis goes away, stalls, forgets, runs full or is meddled with.

use std::{collections::BTreeSet, time::Duration};

use tokio::time::sleep;

use crate::rig::{self, Load, Producer, Running, Server};

/// A model slow enough for frames to be in flight when something happens.
fn slow_models() -> std::sync::Arc<paceline_pipeline::Models> {
    rig::slow_models(5, 16)
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_that_is_not_there_at_the_start_is_waited_for() {
    let mut server = Server::start(&[]).await;
    let config = rig::config(&server.url());
    server.kill();
    let running = Running::start(config.clone(), rig::quick_models());
    rig::until("it says so", async || running.cameras.health().problem.is_some()).await;
    assert!(!running.cameras.health().is_up);

    server.launch().await;
    let mut producer = Producer::new(&server, &config).await;
    producer.add(20, 3).await;

    let totals = running.settled().await;
    assert_eq!((totals.committed, totals.unaccounted()), (60, 0));
    assert!(running.cameras.health().is_up);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_when_a_durable_redis_is_killed() {
    let mut server = Server::durable().await;
    let config = rig::config(&server.url());
    let mut producer = Producer::new(&server, &config).await;
    let running = Running::start(config.clone(), slow_models());
    for _ in 0..3 {
        producer.add(40, 15).await;
        rig::until("work is under way", async || running.cameras.counts().in_flight > 20).await;
        server.kill();
        server.launch().await;
        producer.connection = server.connect().await;
    }

    let totals = running.settled().await;

    assert_eq!((totals.committed, totals.unaccounted()), (producer.added(), 0));
    rig::assert_all_once_in_order(&server, &config, &producer).await;
    assert_eq!(running.cameras.counts().lost, 0);
    let cameras = running.stop().await;
    assert!(cameras.counts().balances(), "{:?}", cameras.counts());
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_redis_that_went_back_in_time_everything_comes_in_order() {
    let mut server = Server::durable().await;
    let config = rig::config(&server.url());
    let mut producer = Producer::new(&server, &config).await;
    let running = Running::start(config.clone(), slow_models());
    for _ in 0..3 {
        producer.add(10, 60).await;
        rig::until("work is under way", async || running.cameras.counts().in_flight > 20).await;
        let written = server.written();
        let n_before = running.cameras.counts().committed;
        rig::until("results are written", async || {
            let counts = running.cameras.counts();
            n_before + 30 < counts.committed && 20 < counts.in_flight
        })
        .await;
        server.go_back(written).await;
        producer.connection = server.connect().await;
    }

    let totals = running.settled().await;

    assert_eq!((totals.committed, totals.unaccounted()), (producer.added(), 0));
    rig::assert_all_once_in_order(&server, &config, &producer).await;
    assert_eq!(running.cameras.counts().lost, 0);
    let cameras = running.stop().await;
    assert!(cameras.counts().balances(), "{:?}", cameras.counts());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_forgot_everything_is_read_from_its_new_beginning() {
    let mut server = Server::start(&[]).await;
    let config = rig::config(&server.url());
    let mut producer = Producer::new(&server, &config).await;
    producer.add(40, 15).await;
    let running = Running::start(config.clone(), slow_models());
    rig::until("work is under way", async || running.cameras.counts().in_flight > 20).await;

    server.kill();
    server.launch().await;
    let mut producer = Producer::new(&server, &config).await;
    producer.add(40, 5).await;

    let totals = running.settled().await;
    assert_eq!((totals.committed, totals.unaccounted()), (200, 0));
    rig::assert_all_once_in_order(&server, &config, &producer).await;
    let cameras = running.stop().await;
    assert!(cameras.counts().balances(), "{:?}", cameras.counts());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stalls_delivers_nothing_to_nobody() {
    let server = Server::start(&[]).await;
    let config = rig::config(&server.url());
    let producer = Producer::new(&server, &config).await;
    let running = Running::start(config.clone(), slow_models());
    let load = Load::start(producer, 20);
    for stall in [600, 1300] {
        rig::until("work is under way", async || running.cameras.counts().in_flight > 5).await;
        server.signal("STOP");
        sleep(Duration::from_millis(stall)).await;
        server.signal("CONT");
        sleep(Duration::from_millis(300)).await;
    }
    let producer = load.stop().await;

    let totals = running.settled().await;

    assert_eq!((totals.committed, totals.unaccounted()), (producer.added(), 0));
    rig::assert_all_once_in_order(&server, &config, &producer).await;
    let cameras = running.stop().await;
    assert!(cameras.counts().balances(), "{:?}", cameras.counts());
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_replies_and_black_holes_lose_and_double_nothing() {
    let server = Server::start(&[]).await;
    let proxy = crate::proxy::Proxy::start(server.port).await;
    let config = rig::config(&format!("redis://127.0.0.1:{}", proxy.port));
    let producer = Producer::new(&server, &config).await;
    let running = Running::start(config.clone(), slow_models());
    let load = Load::start(producer, 20);
    for round in 0..6 {
        let before = running.cameras.counts().committed;
        rig::until("it goes on", async || running.cameras.counts().committed > before + 100).await;
        if round % 3 == 2 {
            proxy.swallow(true);
            sleep(Duration::from_secs(1)).await;
            proxy.swallow(false);
        } else {
            // In the middle of some reply.
            proxy.cut_after(1000 * (round + 1));
        }
    }
    let producer = load.stop().await;
    proxy.never_cut();

    let totals = running.settled().await;

    assert_eq!((totals.committed, totals.unaccounted()), (producer.added(), 0));
    rig::assert_all_once_in_order(&server, &config, &producer).await;
    assert!(running.cameras.health().n_faults > 0, "the faults were felt");
    let cameras = running.stop().await;
    assert!(cameras.counts().balances(), "{:?}", cameras.counts());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_whose_answer_was_lost_is_sent_again_and_doubles_nothing() {
    let server = Server::start(&[]).await;
    let proxy = crate::proxy::Proxy::start(server.port).await;
    let config = rig::config(&format!("redis://127.0.0.1:{}", proxy.port));
    let mut producer = Producer::new(&server, &config).await;
    let running = Running::start(config.clone(), slow_models());
    for _ in 0..5 {
        proxy.lose_next_commit();
        producer.add(20, 5).await;
        rig::until("a commit was lost", async || !proxy.waits_for_commit()).await;
    }

    let totals = running.settled().await;

    assert_eq!((totals.committed, totals.unaccounted()), (500, 0));
    rig::assert_all_once_in_order(&server, &config, &producer).await;
    let counts = running.stop().await.counts();
    assert!(counts.balances() && counts.committed == 500 && counts.duplicate == 0, "{counts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_redis_is_drained() {
    // Valkey frees what is deleted later, unless it is told not to.
    let full = ["--maxmemory", "8mb", "--maxmemory-policy", "noeviction"];
    let server = Server::start(&[&full[..], &["--lazyfree-lazy-user-del", "no"]].concat()).await;
    let config = rig::config(&server.url());
    let mut producer = Producer::new(&server, &config).await;
    producer.bytes = 4000;
    let mut refused = false;
    for _ in 0..200 {
        let before = producer.added();
        producer.add(20, 1).await;
        refused |= producer.added() < before + 20;
    }
    assert!(refused, "it is full");

    // Not even leases and groups were there before it was full.
    let running = Running::start(config.clone(), rig::quick_models());
    let totals = running.settled().await;

    assert_eq!((totals.committed, totals.unaccounted()), (producer.added(), 0));
    rig::assert_all_once_in_order(&server, &config, &producer).await;
    let before = producer.added();
    let mut connection = server.connect().await;
    let shards = config.shards();
    for shard in shards.all() {
        let _: u64 = redis::cmd("DEL")
            .arg(shards.results(shard))
            .query_async(&mut connection)
            .await
            .unwrap();
    }
    producer.add(20, 1).await;
    assert_eq!(producer.added(), before + 20, "there is room again");
    running.settled().await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_lose_frames_are_warned_of() {
    let server = Server::start(&["--maxmemory", "50mb", "--maxmemory-policy", "allkeys-lru"]).await;
    let running = Running::start(rig::config(&server.url()), rig::quick_models());

    rig::until("it warns", async || running.cameras.health().warnings.len() == 2).await;

    let warnings = running.cameras.health().warnings.join("\n");
    assert!(warnings.contains("allkeys-lru") && warnings.contains("appendonly"), "{warnings}");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_does_not_say_how_it_is_set_is_warned_of() {
    let server = Server::start(&["--rename-command", "CONFIG", ""]).await;
    let running = Running::start(rig::config(&server.url()), rig::quick_models());

    rig::until("it warns", async || running.cameras.health().warnings.len() == 1).await;

    let warnings = running.cameras.health().warnings.join("\n");
    assert!(warnings.contains("CONFIG GET is refused"), "{warnings}");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_that_were_trimmed_while_pending_are_counted_as_lost() {
    let server = Server::start(&[]).await;
    let config = rig::config(&server.url());
    let mut producer = Producer::new(&server, &config).await;
    producer.add(1, 1).await;
    let running = Running::start(config.clone(), rig::quick_models());
    running.settled().await;
    running.stop().await;
    producer.add(1, 50).await;
    // Somebody of the same group took them and died.
    let key = producer.key("cam-0");
    let mut connection = server.connect().await;
    let mut redis = async |command: &[&str]| -> redis::Value {
        let mut cmd = redis::cmd(command[0]);
        cmd.arg(&command[1..]).query_async(&mut connection).await.unwrap()
    };
    redis(&["XREADGROUP", "GROUP", "paceline", "dead", "COUNT", "40", "STREAMS", &key, ">"]).await;
    redis(&["XTRIM", &key, "MAXLEN", "20"]).await;

    let running = Running::start(config.clone(), rig::quick_models());
    let totals = running.settled().await;

    assert_eq!((totals.lost, totals.committed, totals.unaccounted()), (30, 21, 0));
    let expected: Vec<u64> = [0].into_iter().chain(31..51).collect();
    assert_eq!(rig::results(&server, &config).await["cam-0"], expected);
    assert!(running.stop().await.counts().balances());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_was_destroyed_is_made_again() {
    let server = Server::start(&[]).await;
    let config = rig::config(&server.url());
    let mut producer = Producer::new(&server, &config).await;
    producer.add(20, 20).await;
    let keys: Vec<String> = (0..20).map(|camera| producer.key(&format!("cam-{camera}"))).collect();
    let running = Running::start(config.clone(), slow_models());
    let load = Load::start(producer, 20);
    let mut connection = server.connect().await;
    for _ in 0..3 {
        let before = running.cameras.counts().committed;
        rig::until("it goes on", async || running.cameras.counts().committed > before + 50).await;
        for key in &keys {
            let mut destroy = redis::cmd("XGROUP");
            destroy.arg("DESTROY").arg(key).arg("paceline");
            let _: u64 = destroy.query_async(&mut connection).await.unwrap();
        }
    }
    let producer = load.stop().await;

    let totals = running.settled().await;

    assert_eq!((totals.committed, totals.unaccounted()), (producer.added(), 0));
    rig::assert_all_once_in_order(&server, &config, &producer).await;
    assert!(running.cameras.health().n_resets > 0);
    assert!(running.stop().await.counts().balances());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_that_was_deleted_takes_nothing_with_it() {
    let server = Server::start(&[]).await;
    let config = rig::config(&server.url());
    let mut producer = Producer::new(&server, &config).await;
    producer.add(20, 20).await;
    let key = producer.key("cam-0");
    let running = Running::start(config.clone(), slow_models());
    rig::until("work is under way", async || running.cameras.counts().in_flight > 20).await;

    // The work may be that of other shards; this one has to be read, too.
    let connection = server.connect().await;
    let mut delete = redis::cmd("XGROUP");
    delete.arg("DELCONSUMER").arg(key).arg("paceline").arg("node-1");
    rig::until("the shard's group is there", async || {
        delete.query_async::<u64>(&mut connection.clone()).await.is_ok()
    })
    .await;

    let totals = running.settled().await;
    assert_eq!((totals.committed, totals.unaccounted()), (producer.added(), 0));
    rig::assert_all_once_in_order(&server, &config, &producer).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_everything_was_flushed_it_goes_on() {
    let server = Server::start(&[]).await;
    let config = rig::config(&server.url());
    let mut producer = Producer::new(&server, &config).await;
    producer.add(20, 30).await;
    let running = Running::start(config.clone(), slow_models());
    rig::until("work is under way", async || running.cameras.counts().in_flight > 20).await;

    let mut connection = server.connect().await;
    let _: () = redis::cmd("FLUSHALL").query_async(&mut connection).await.unwrap();
    let mut producer = Producer::new(&server, &config).await;
    producer.add(20, 10).await;

    let totals = running.settled().await;
    assert_eq!((totals.committed, totals.unaccounted()), (200, 0));
    rig::assert_all_once_in_order(&server, &config, &producer).await;
    assert!(running.stop().await.counts().balances());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_no_stream_stops_nobody_else() {
    let server = Server::start(&[]).await;
    let config = rig::config(&server.url());
    let mut producer = Producer::new(&server, &config).await;
    let key = producer.key("cam-0");
    let mut connection = server.connect().await;
    let _: () = redis::cmd("SET").arg(&key).arg("x").query_async(&mut connection).await.unwrap();
    let running = Running::start(config.clone(), rig::quick_models());
    producer.add(20, 5).await;

    let totals = running.settled().await;

    assert!(producer.added() < 100, "some could not be added");
    assert_eq!((totals.committed, totals.unaccounted()), (producer.added(), 0));
    rig::assert_all_once_in_order(&server, &config, &producer).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_becomes_no_stream_stops_nobody_else() {
    let server = Server::start(&[]).await;
    let config = paceline_ingest::Config { readers: 1, ..rig::config(&server.url()) };
    let mut producer = Producer::new(&server, &config).await;
    producer.add(20, 1).await;
    let running = Running::start(config.clone(), rig::quick_models());
    running.settled().await;
    let key = producer.key("cam-0");
    let mut connection = server.connect().await;
    let mut swap = redis::pipe();
    swap.atomic().cmd("DEL").arg(&key).cmd("SET").arg(&key).arg("x");
    let _: redis::Value = swap.query_async(&mut connection).await.unwrap();
    let before = running.cameras.counts().committed;
    producer.add(20, 5).await;

    let added = producer.added();
    assert!(added < 120, "some could not be added");
    rig::until("the others have results", async || {
        running.cameras.counts().committed - before == added - 20
    })
    .await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frame_that_somebody_deletes_meanwhile_has_no_result() {
    let server = Server::start(&[]).await;
    let config = rig::config(&server.url());
    let mut producer = Producer::new(&server, &config).await;
    producer.add(1, 4).await;
    let key = producer.key("cam-0");
    let mut connection = server.connect().await;
    let mut redis = async |command: &[&str]| -> redis::Value {
        let mut cmd = redis::cmd(command[0]);
        cmd.arg(&command[1..]).query_async(&mut connection).await.unwrap()
    };
    let entries: Vec<(String, redis::Value)> =
        redis::from_redis_value(redis(&["XRANGE", &key, "-", "+"]).await).unwrap();
    let running = Running::start(config.clone(), rig::slow_models(500, 4));
    rig::until("the model has them", async || running.cameras.counts().in_flight == 4).await;

    redis(&["XDEL", &key, &entries[2].0]).await;
    let totals = running.settled().await;

    assert_eq!(rig::results(&server, &config).await["cam-0"], [0, 1, 3]);
    let counts = running.stop().await.counts();
    assert_eq!((counts.committed, counts.lost), (3, 1));
    assert!(counts.balances() && totals.unaccounted() == 0, "{counts:?} {totals:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_of_a_server_that_takes_no_writes_any_more_connects_again() {
    let server = Server::start(&[]).await;
    let config = rig::config(&server.url());
    let mut producer = Producer::new(&server, &config).await;
    producer.add(10, 5).await;
    let running = Running::start(config.clone(), rig::quick_models());
    running.settled().await;
    let mut connection = server.connect().await;
    let before = readers(&mut connection).await;
    assert!(!before.is_empty());

    // Such a server keeps its clients; whoever waits for it to change waits at the wrong one.
    let mut demote = redis::cmd("REPLICAOF");
    demote.arg("127.0.0.1").arg(rig::free_port());
    let _: String = demote.query_async(&mut connection).await.unwrap();
    rig::until("all connected again", async || {
        let now = readers(&mut connection).await;
        now.len() == before.len() && now.is_disjoint(&before)
    })
    .await;

    let mut promote = redis::cmd("REPLICAOF");
    let _: String = promote.arg("NO").arg("ONE").query_async(&mut connection).await.unwrap();
    producer.add(10, 5).await;
    let totals = running.settled().await;
    assert_eq!((totals.committed, totals.unaccounted()), (100, 0));
    rig::assert_all_once_in_order(&server, &config, &producer).await;
    running.stop().await;
}

/// The connections on which frames are read.
async fn readers(connection: &mut redis::aio::MultiplexedConnection) -> BTreeSet<String> {
    let mut list = redis::cmd("CLIENT");
    let clients: String = list.arg("LIST").query_async(connection).await.unwrap();
    let readers = clients.lines().filter(|client| client.contains("name=paceline-reader"));
    readers.map(|client| client.split(' ').next().unwrap().to_owned()).collect()
}
