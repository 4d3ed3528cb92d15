//! A Redis Cluster of three masters, and one that fails over.

use std::time::Duration;

use paceline_ingest::{Config, Layout, shard::slot};

use crate::rig::{self, Producer, Running, Server};

struct Cluster {
    masters: Vec<Server>,
    replica: Server,
}

async fn ask<T: redis::FromRedisValue>(server: &Server, command: &[&str]) -> T {
    let mut connection = server.connect().await;
    let mut cmd = redis::cmd(command[0]);
    cmd.arg(&command[1..]).query_async(&mut connection).await.unwrap()
}

impl Cluster {
    /// Three masters, and a replica of the first.
    async fn start() -> Self {
        let options = ["--cluster-enabled", "yes", "--cluster-node-timeout", "5000"];
        let mut masters = Vec::new();
        for _ in 0..3 {
            masters.push(Server::start_with_bus(&options).await);
        }
        let replica = Server::start_with_bus(&options).await;
        for (at, range) in [("0", "5461"), ("5462", "10922"), ("10923", "16383")].iter().enumerate()
        {
            let add = ["CLUSTER", "ADDSLOTSRANGE", range.0, range.1];
            let _: String = ask(&masters[at], &add).await;
        }
        let all: Vec<&Server> = masters.iter().chain([&replica]).collect();
        // ORDER: before anybody knows anybody, since afterwards it is refused.
        for (number, server) in all.iter().enumerate() {
            let epoch = (number + 1).to_string();
            let _: String = ask(server, &["CLUSTER", "SET-CONFIG-EPOCH", &epoch]).await;
        }
        for server in &all {
            for other in &all {
                let (port, bus) = (other.port.to_string(), other.bus().to_string());
                let _: String = ask(server, &["CLUSTER", "MEET", "127.0.0.1", &port, &bus]).await;
            }
        }
        let first: String = ask(&masters[0], &["CLUSTER", "MYID"]).await;
        rig::until("the replica knows its master", async || {
            let nodes: String = ask(&replica, &["CLUSTER", "NODES"]).await;
            nodes.lines().any(|line| line.starts_with(&first) && line.contains("0-5461"))
        })
        .await;
        let _: String = ask(&replica, &["CLUSTER", "REPLICATE", &first]).await;
        for server in masters.iter().chain([&replica]) {
            rig::until("the cluster is up", async || {
                let info: String = ask(server, &["CLUSTER", "INFO"]).await;
                info.contains("cluster_state:ok")
            })
            .await;
        }
        rig::until("the replica follows", async || {
            let info: String = ask(&replica, &["INFO", "replication"]).await;
            info.contains("master_link_status:up")
        })
        .await;
        Self { masters, replica }
    }

    /// The server that serves a key now, among those that are alive.
    fn home(&self, key: &str, is_failed_over: bool) -> &Server {
        match slot(key) {
            0..=5461 if is_failed_over => &self.replica,
            0..=5461 => &self.masters[0],
            5462..=10922 => &self.masters[1],
            _ => &self.masters[2],
        }
    }

    /// Adds the frames `from..to` of each of 30 cameras.
    async fn add(&self, config: &Config, numbers: std::ops::Range<u64>, is_failed_over: bool) {
        let shards = config.shards();
        for seq in numbers {
            for camera in (0..30).map(|camera| format!("cam-{camera}")) {
                let key = shards.frames(shards.of(&camera));
                let mut connection = self.home(&key, is_failed_over).connect().await;
                let mut add = redis::cmd("XADD");
                add.arg(&key).arg("*").arg("c").arg(&camera).arg("q").arg(seq);
                add.arg("d").arg(seq.to_le_bytes().as_slice());
                // While nodes agree on a new master the cluster takes nothing; a producer waits.
                rig::until("the cluster takes a frame", async || {
                    match add.query_async::<String>(&mut connection).await {
                        Err(error) if error.code() == Some("CLUSTERDOWN") => false,
                        added => !added.unwrap().is_empty(),
                    }
                })
                .await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_read_and_a_failover_loses_and_doubles_nothing() {
    let cluster = Cluster::start().await;
    let config = rig::config(&cluster.masters[1].url());
    cluster.add(&config, 0..5, false).await;
    let running = Running::start(config.clone(), rig::slow_models(5, 8));
    rig::until("it works", async || running.cameras.counts().committed > 20).await;
    cluster.add(&config, 5..10, false).await;

    // The replica takes over in good order while frames are under way.
    let _: String = ask(&cluster.replica, &["CLUSTER", "FAILOVER"]).await;
    rig::until("it took over", async || {
        let role: String = ask(&cluster.replica, &["INFO", "replication"]).await;
        role.contains("role:master")
    })
    .await;
    cluster.add(&config, 10..15, true).await;
    let totals = running.settled().await;

    assert_eq!((totals.committed, totals.unaccounted()), (30 * 15, 0));
    let shards = config.shards();
    for shard in shards.all() {
        let key = shards.results(shard);
        let server = cluster.home(&key, true);
        let found = rig::results_of(server, &key).await;
        for (camera, numbers) in found {
            assert_eq!(numbers, (0..15).collect::<Vec<u64>>(), "{camera}");
        }
    }
    let cameras = running.stop().await;
    assert!(cameras.counts().balances(), "{:?}", cameras.counts());
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_cluster_the_key_of_a_cameras_own_stream_must_name_its_shard() {
    let server = Server::start_with_bus(&["--cluster-enabled", "yes"]).await;
    let _: String = ask(&server, &["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]).await;
    rig::until("the cluster is up", async || {
        let info: String = ask(&server, &["CLUSTER", "INFO"]).await;
        info.contains("cluster_state:ok")
    })
    .await;
    let config = Config {
        layout: Layout::Camera,
        discover: Duration::from_millis(200),
        ..rig::config(&server.url())
    };
    let running = Running::start(config.clone(), rig::quick_models());
    rig::until("it says so", async || {
        running.cameras.health().problem.is_some_and(|problem| problem.contains("`<shard>`"))
    })
    .await;
    assert!(!running.cameras.health().is_up);
    running.stop().await;

    let config = Config { camera_key: "<camera>:<shard>".to_owned(), ..config };
    let mut producer = Producer::new(&server, &config).await;
    producer.add(10, 4).await;
    let running = Running::start(config.clone(), rig::quick_models());
    rig::until("all are found", async || running.cameras.roster().list().len() == 10).await;
    let totals = running.settled().await;

    assert_eq!((totals.committed, totals.unaccounted()), (40, 0));
    rig::assert_all_once_in_order(&server, &config, &producer).await;
    running.stop().await;
}
