//! Several nodes, and nodes that die.

use std::time::Duration;

use paceline_ingest::{Config, shard::stable_hash};
use tokio::time::sleep;

use crate::rig::{self, Load, Process, Producer, Running, Server};

/// Not a test: the body of a node that the tests run as a process of its own.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "what other tests start"]
async fn node_process() {
    let Some(config) = Process::settings() else { return };
    let running = Running::start(config, rig::slow_models(3, 16));
    running.task.await.unwrap();
}

fn node(config: &Config) -> Process {
    Process::start("nodes::node_process", config)
}

fn named(config: &Config, node: &str) -> Config {
    Config { node: node.to_owned(), ..config.clone() }
}

/// Waits until so many results more are written, by whomever.
async fn progress(watcher: &Running, more: u64) {
    let committed = async || watcher.cameras.totals().await.unwrap().committed;
    let before = committed().await;
    rig::until("it goes on", async || before + more <= committed().await).await;
}

/// A door that only looks: it is never run.
fn watcher(config: &Config) -> Running {
    let (cameras, _door) =
        paceline_ingest::Cameras::pair(named(config, "watcher"), std::sync::Arc::default())
            .unwrap();
    Running {
        cameras,
        stop: tokio_util::sync::CancellationToken::new(),
        task: tokio::spawn(async {}),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_killed_again_and_again_loses_and_doubles_nothing() {
    let server = Server::start(&[]).await;
    // A frame may be under way at many kills, and that is not its fault.
    let config = Config { max_tries: 1000, ..rig::config(&server.url()) };
    let watcher = watcher(&config);
    let load = Load::start(Producer::new(&server, &config).await, 20);
    for round in 0..8 {
        let mut process = node(&config);
        progress(&watcher, 30).await;
        sleep(Duration::from_millis(7 * round)).await;
        process.kill();
    }
    let producer = load.stop().await;
    let _last = node(&config);

    let totals = watcher.settled().await;

    assert_eq!((totals.committed, totals.unaccounted()), (producer.added(), 0));
    rig::assert_all_once_in_order(&server, &config, &producer).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_was_stopped_and_wakes_up_doubles_nothing() {
    let server = Server::start(&[]).await;
    let config = rig::config(&server.url());
    let watcher = watcher(&config);
    let load = Load::start(Producer::new(&server, &config).await, 20);
    let first = node(&named(&config, "first"));
    progress(&watcher, 100).await;
    for _ in 0..2 {
        first.signal("STOP");
        let mut second = node(&named(&config, "second"));
        // Its leases end while it sleeps, and the other takes everything.
        progress(&watcher, 300).await;
        first.signal("CONT");
        progress(&watcher, 100).await;
        second.kill();
        progress(&watcher, 100).await;
    }
    let producer = load.stop().await;

    let totals = watcher.settled().await;

    assert_eq!((totals.committed, totals.unaccounted()), (producer.added(), 0));
    rig::assert_all_once_in_order(&server, &config, &producer).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_join_leave_and_die_and_every_frame_has_one_result_in_order() {
    let server = Server::start(&[]).await;
    let config = rig::config(&server.url());
    let load = Load::start(Producer::new(&server, &config).await, 40);
    let node = |name: &str| Running::start(named(&config, name), rig::slow_models(2, 32));
    let owns = |node: &Running| node.cameras.health().n_shards;
    let a = node("a");
    rig::until("a owns all", async || owns(&a) == 16).await;
    let b = node("b");
    let c = node("c");
    rig::until("they share", async || {
        owns(&a) + owns(&b) + owns(&c) == 16 && owns(&a).min(owns(&b)).min(owns(&c)) > 0
    })
    .await;
    sleep(Duration::from_millis(200)).await;
    // One leaves in order: its shards are taken at once, and nothing of it is left pending.
    let left = a.stop().await;
    assert!(left.counts().balances() && left.counts().committed > 0, "{:?}", left.counts());
    rig::until("two share", async || owns(&b) + owns(&c) == 16).await;
    // One dies.
    b.crash().await;
    rig::until("one is left", async || owns(&c) == 16).await;
    let producer = load.stop().await;

    let totals = c.settled().await;

    assert_eq!((totals.committed, totals.unaccounted()), (producer.added(), 0));
    rig::assert_all_once_in_order(&server, &config, &producer).await;
    c.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_nodes_with_one_name_the_later_works_and_nothing_is_doubled() {
    let server = Server::start(&[]).await;
    let config = rig::config(&server.url());
    let load = Load::start(Producer::new(&server, &config).await, 20);
    let first = Running::start(config.clone(), rig::quick_models());
    rig::until("it works", async || first.cameras.counts().committed > 100).await;
    let second = Running::start(config.clone(), rig::quick_models());
    rig::until("it works", async || second.cameras.counts().committed > 100).await;
    rig::until("the first gave up", async || first.cameras.health().n_shards == 0).await;
    let producer = load.stop().await;

    let totals = second.settled().await;

    assert_eq!((totals.committed, totals.unaccounted()), (producer.added(), 0));
    rig::assert_all_once_in_order(&server, &config, &producer).await;
    first.stop().await;
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_lost_a_shard_cannot_commit_into_it() {
    let server = Server::start(&[]).await;
    // So long that the commit finds it out, not who renews.
    let config = Config { lease: Duration::from_secs(10), ..rig::config(&server.url()) };
    let mut producer = Producer::new(&server, &config).await;
    let running = Running::start(config.clone(), rig::slow_models(300, 64));
    producer.add(1, 1).await;
    rig::until("it is in the model", async || running.cameras.counts().in_flight == 1).await;

    // Another takes the shard meanwhile, and does nothing with it for a while.
    let shards = config.shards();
    let lease = shards.lease(shards.of("cam-0"));
    let mut connection = server.connect().await;
    let mut take = redis::pipe();
    take.atomic().cmd("SET").arg(&lease).arg("other:00000000:99").arg("PX").arg(1500);
    take.cmd("SET").arg(shards.fence()).arg(format!("{lease} other:00000000:99"));
    let _: () = take.query_async(&mut connection).await.unwrap();
    rig::until("it is left to the other", async || running.cameras.counts().returned == 1).await;
    assert!(rig::results(&server, &config).await.is_empty(), "the fence holds");

    // Once the other is gone the frame is claimed, and has its result.
    let totals = running.settled().await;
    assert_eq!((totals.committed, totals.unaccounted()), (1, 0));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_takes_a_shard_changes_the_fence_and_who_keeps_one_does_not() {
    let server = Server::start(&[]).await;
    let config = rig::config(&server.url());
    let shards = config.shards();
    let mut connection = server.connect().await;
    let mut other = server.connect().await;
    let mut get = async |key: String| -> Option<String> {
        redis::cmd("GET").arg(key).query_async(&mut connection).await.unwrap()
    };
    let mut lasts = async |lease: &str| -> i64 {
        redis::cmd("PTTL").arg(lease).query_async(&mut other).await.unwrap()
    };
    let first = Running::start(named(&config, "first"), rig::quick_models());
    rig::until("it has all", async || first.cameras.health().n_shards == shards.count()).await;
    let fence = get(shards.fence()).await.unwrap();
    let (lease, token) = fence.split_once(' ').unwrap();
    assert_eq!(get(lease.to_owned()).await.as_deref(), Some(token), "who took it still has it");

    let before = lasts(lease).await;
    rig::until("it is renewed", async || before < lasts(lease).await).await;
    assert_eq!(get(shards.fence()).await.as_ref(), Some(&fence), "nobody took any");

    let second = Running::start(named(&config, "second"), rig::quick_models());
    rig::until("it has some", async || 0 < second.cameras.health().n_shards).await;
    assert!(get(shards.fence()).await.unwrap().contains(" second:"));
    second.stop().await;
    first.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_takes_a_shard_closes_the_readers_of_the_dead_and_nobody_elses() {
    let server = Server::start(&[]).await;
    let config = rig::config(&server.url());
    let mut connection = server.connect().await;
    let mut join = redis::cmd("ZADD");
    join.arg(config.shards().nodes()).arg("+inf").arg("alive");
    let _: u64 = join.query_async(&mut connection).await.unwrap();
    let streams = stable_hash(format!("{}\0{}", config.prefix, config.group).as_bytes());
    let reader = |node: &str| {
        let node = stable_hash(node.as_bytes());
        format!("paceline-reader-{streams:016x}-{node:016x}-00000000")
    };
    let (dead, alive, earlier) = (reader("dead"), reader("alive"), reader("node-1"));
    let mut clients = Vec::new();
    for name in [&dead, &alive, &earlier, "somebody"] {
        let mut client = server.connect().await;
        let mut set = redis::cmd("CLIENT");
        let _: String = set.arg("SETNAME").arg(name).query_async(&mut client).await.unwrap();
        clients.push(client);
    }
    let running = Running::start(config.clone(), rig::quick_models());
    let mut list = async || -> String {
        redis::cmd("CLIENT").arg("LIST").query_async(&mut connection).await.unwrap()
    };

    rig::until("it reads", async || running.cameras.health().n_shards != 0).await;
    rig::until("the dead are closed", async || {
        let clients = list().await;
        !clients.contains(&dead) && !clients.contains(&earlier)
    })
    .await;

    let clients = list().await;
    assert!(clients.contains(&alive) && clients.contains("name=somebody"), "{clients}");
    running.stop().await;
}
