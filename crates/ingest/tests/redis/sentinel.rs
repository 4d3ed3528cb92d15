//! Redis behind Sentinels, real ones: found through them, and followed when they name another.

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::Arc,
};

use paceline_frames::{Format, NewFrame, Placement};
use paceline_ingest::{Cameras, Config};
use redis::FromRedisValue;
use tokio::time::Instant;

use crate::rig::{self, Producer, Running, Server};

/// What the Sentinels call the service.
pub(crate) const SERVICE: &str = "cameras";
/// More than there are: they see that a master is down, and leave it at that.
const NEVER: usize = 9;

/// One redis-server as a Sentinel, on a free port; ended when dropped.
pub(crate) struct Sentinel {
    child: Child,
    pub(crate) port: u16,
    _folder: tempfile::TempDir,
}

impl Sentinel {
    /// One that fails over when `quorum` of them see that the master is down.
    async fn start(master: u16, quorum: usize) -> Self {
        Self::start_with(rig::program(), &format!("127.0.0.1 {master} {quorum}"), "").await
    }

    /// One with further lines in its configuration.
    pub(crate) async fn start_with(program: PathBuf, watched: &str, lines: &str) -> Self {
        let (folder, port) = (tempfile::tempdir().unwrap(), rig::free_port());
        let file = folder.path().join("sentinel.conf");
        let text = format!(
            "port {port}\nbind 127.0.0.1\ndir {}\nlogfile log\n{lines}\
             sentinel monitor {SERVICE} {watched}\n\
             sentinel down-after-milliseconds {SERVICE} 2000\n\
             sentinel failover-timeout {SERVICE} 5000\n",
            folder.path().display(),
        );
        fs::write(&file, text).unwrap();
        let child = Command::new(program)
            .arg(&file)
            .arg("--sentinel")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let own = Self { child: child.unwrap(), port, _folder: folder };
        rig::until("a Sentinel answers", async || ask::<String>(port, &["PING"]).await.is_ok())
            .await;
        own
    }

    /// Sends it a signal by name.
    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &pid]).status().unwrap().success());
    }

    /// What it says where the master is.
    async fn master(&self) -> u16 {
        let words = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE];
        ask::<(String, u16)>(self.port, &words).await.unwrap().1
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

async fn ask<T: FromRedisValue>(port: u16, words: &[&str]) -> redis::RedisResult<T> {
    let client = redis::Client::open(format!("redis://127.0.0.1:{port}"))?;
    let config = redis::AsyncConnectionConfig::new().set_response_timeout(Some(rig::PATIENCE));
    let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
    redis::cmd(words[0]).arg(&words[1..]).query_async(&mut connection).await
}

/// Three that know each other and all servers.
async fn sentinels(master: &Server, n_replicas: usize, quorum: usize) -> Vec<Sentinel> {
    let mut all = Vec::new();
    for _ in 0..3 {
        all.push(Sentinel::start(master.port, quorum).await);
    }
    let wanted = [("num-slaves", n_replicas), ("num-other-sentinels", 2)];
    for sentinel in &all {
        rig::until("the Sentinels know everybody", async || {
            let words = ["SENTINEL", "MASTER", SERVICE];
            let said: HashMap<String, String> = ask(sentinel.port, &words).await.unwrap();
            wanted.iter().all(|(name, n)| said[*name] == n.to_string())
        })
        .await;
    }
    all
}

fn url(sentinels: &[Sentinel], service: &str) -> String {
    let hosts = sentinels.iter().map(|sentinel| format!("127.0.0.1:{}", sentinel.port));
    format!("redis+sentinel://{}/{service}", hosts.collect::<Vec<_>>().join(","))
}

/// A master, and a replica that has what it has.
async fn pair() -> (Server, Server) {
    let master = Server::start(&["--repl-diskless-sync-delay", "0"]).await;
    let port = master.port.to_string();
    let replica = Server::start(&["--replicaof", "127.0.0.1", &port]).await;
    rig::until("the replica follows", async || {
        let info: String = ask(master.port, &["INFO", "replication"]).await.unwrap();
        info.contains("state=online")
    })
    .await;
    (master, replica)
}

/// Of each camera, how many frames a server has, with a result or still without; there is no gap
/// among them.
async fn copied(server: &Server, config: &Config) -> BTreeMap<String, u64> {
    let mut found = rig::results(server, config).await;
    for shard in config.shards().all() {
        let words = ["XRANGE", &config.shards().frames(shard), "-", "+"];
        let frames: Vec<(String, HashMap<String, redis::Value>)> =
            ask(server.port, &words).await.unwrap();
        for (_, mut fields) in frames {
            let camera = redis::from_redis_value(fields.remove("c").unwrap()).unwrap();
            let number = redis::from_redis_value(fields.remove("q").unwrap()).unwrap();
            found.entry(camera).or_insert_with(Vec::new).push(number);
        }
    }
    let whole = |(camera, numbers): (String, Vec<u64>)| {
        let n = numbers.len() as u64;
        assert_eq!(numbers, (0..n).collect::<Vec<u64>>(), "{camera}");
        (camera, n)
    };
    found.into_iter().map(whole).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_are_added_read_and_committed_through_sentinels() {
    let master = Server::start(&[]).await;
    let sentinels = sentinels(&master, 0, 2).await;
    let config = rig::config(&url(&sentinels, SERVICE));
    let placement = Placement::Shards(config.shards());
    let redis = config.address().unwrap();
    let mut producer = paceline_frames::Producer::connect(&redis, placement).await.unwrap();
    for number in 0..200_u64 {
        let (camera, format, data) = ("cam-0", Format::Raw, &number.to_le_bytes());
        producer.add(&NewFrame { camera, number, taken_ms: 1, format, data }).unwrap();
    }
    assert!(producer.flush().await.unwrap().iter().all(Option::is_none));

    let running = Running::start(config.clone(), rig::quick_models());
    let totals = running.settled().await;

    assert_eq!((totals.committed, totals.unaccounted()), (200, 0));
    assert_eq!(rig::results(&master, &config).await["cam-0"], (0..200).collect::<Vec<u64>>());
    let health = running.cameras.health();
    assert!(health.is_up && health.warnings.iter().any(|warning| warning.contains("appendonly")));
    assert!(running.cameras.dead_letters(10).await.unwrap().is_empty());
    assert!(running.stop().await.counts().balances());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_master_is_followed_and_what_it_had_copied_has_one_result_in_order() {
    let (mut master, replica) = pair().await;
    let sentinels = sentinels(&master, 1, NEVER).await;
    let config = rig::config(&url(&sentinels, SERVICE));
    let running = Running::start(config.clone(), rig::slow_models(5, 8));
    let mut producer = Producer::new(&master, &config).await;
    let adding = tokio::spawn(async move { while producer.try_add(0..20).await.is_ok() {} });
    rig::until("it works", async || running.cameras.counts().committed > 100).await;

    master.kill();
    adding.await.unwrap();
    rig::until("the replica is alone", async || {
        let info: String = ask(replica.port, &["INFO", "replication"]).await.unwrap();
        info.contains("master_link_status:down")
    })
    .await;
    let copied = copied(&replica, &config).await;
    let n_copied: u64 = copied.values().sum();
    for sentinel in &sentinels {
        let words = ["SENTINEL", "SET", SERVICE, "quorum", "2"];
        let _: String = ask(sentinel.port, &words).await.unwrap();
    }
    rig::until("it is the master", async || {
        let info: String = ask(replica.port, &["INFO", "replication"]).await.unwrap();
        info.contains("role:master")
    })
    .await;
    // Only now: who is promoted closes what was connected before.
    let mut producer = Producer::new(&replica, &config).await;
    producer.next = copied;
    producer.add(20, 10).await;
    let totals = running.settled().await;

    assert_eq!((totals.added, totals.committed), (n_copied + 200, n_copied + 200));
    assert_eq!(totals.unaccounted(), 0);
    rig::assert_all_once_in_order(&replica, &config, &producer).await;
    assert!(running.stop().await.counts().balances());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_is_named_no_longer_is_left_though_it_lives() {
    let (first, second) = (Server::start(&[]).await, Server::start(&[]).await);
    let sentinel = [Sentinel::start(first.port, NEVER).await];
    let config = rig::config(&url(&sentinel, SERVICE));
    let mut producer = Producer::new(&first, &config).await;
    producer.add(10, 10).await;
    let running = Running::start(config.clone(), rig::quick_models());
    running.settled().await;
    rig::assert_all_once_in_order(&first, &config, &producer).await;

    let (port, new) = (sentinel[0].port, second.port.to_string());
    let _: String = ask(port, &["SENTINEL", "REMOVE", SERVICE]).await.unwrap();
    let words = ["SENTINEL", "MONITOR", SERVICE, "127.0.0.1", &new, "9"];
    let _: String = ask(port, &words).await.unwrap();
    let mut producer = Producer::new(&second, &config).await;
    producer.add(10, 10).await;
    running.settled().await;

    rig::assert_all_once_in_order(&second, &config, &producer).await;
    rig::until("nobody reads where it was", async || {
        let clients: String = ask(first.port, &["CLIENT", "LIST"]).await.unwrap();
        // Whoever asks, and the Sentinel.
        clients.lines().all(|client| !client.contains("paceline-reader"))
    })
    .await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sentinels_that_are_dead_or_hang_are_passed_over() {
    let master = Server::start(&[]).await;
    let mut sentinels = sentinels(&master, 0, 2).await;
    let config = rig::config(&url(&sentinels, SERVICE));
    drop(sentinels.remove(0));
    sentinels[0].signal("STOP");
    let mut producer = Producer::new(&master, &config).await;
    producer.add(10, 10).await;

    let running = Running::start(config.clone(), rig::quick_models());
    let totals = running.settled().await;

    assert_eq!((totals.committed, totals.unaccounted()), (100, 0));
    rig::assert_all_once_in_order(&master, &config, &producer).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_a_sentinel_takes_for_the_master_is_not_worked_on() {
    let (master, replica) = pair().await;
    let stale = Sentinel::start(replica.port, NEVER).await;
    let sentinels = [stale, Sentinel::start(master.port, NEVER).await];
    assert_eq!(sentinels[0].master().await, replica.port);
    let config = rig::config(&url(&sentinels, SERVICE));
    let mut producer = Producer::new(&master, &config).await;
    producer.add(10, 10).await;

    let running = Running::start(config.clone(), rig::quick_models());
    let totals = running.settled().await;

    assert_eq!((totals.committed, totals.unaccounted()), (100, 0));
    rig::assert_all_once_in_order(&master, &config, &producer).await;
    assert_eq!(sentinels[0].master().await, replica.port, "it still is wrong");
    running.stop().await;

    let alone = Config { url: url(&sentinels[..1], SERVICE), ..config };
    let running = Running::start(alone, rig::quick_models());
    rig::until("it says what it found", async || {
        let problem = running.cameras.health().problem.unwrap_or_default();
        problem.contains(&format!("names 127.0.0.1:{}: says that it is a slave", replica.port))
    })
    .await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_sentinels_work_goes_on_at_the_master_that_is_known() {
    let master = Server::start(&[]).await;
    let sentinels = sentinels(&master, 0, 2).await;
    let config = rig::config(&url(&sentinels, SERVICE));
    let mut producer = Producer::new(&master, &config).await;
    producer.add(10, 1).await;
    let running = Running::start(config.clone(), rig::quick_models());
    running.settled().await;
    drop(sentinels);

    // Until it has looked for them more than once.
    let began = Instant::now();
    while began.elapsed() < config.lease * 3 {
        producer.add(10, 1).await;
        let n_added = producer.added();
        rig::until("it works", async || running.cameras.counts().committed == n_added).await;
    }

    assert!(running.cameras.health().is_up);
    rig::assert_all_once_in_order(&master, &config, &producer).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_sentinels_do_not_know_is_said_and_so_is_who_was_asked() {
    let master = Server::start(&[]).await;
    let sentinels = sentinels(&master, 0, 2).await;
    let at = |sentinel: &Sentinel| format!("127.0.0.1:{}", sentinel.port);
    let all: Vec<String> = sentinels.iter().map(at).collect();
    let says = async |service: &str, said: &str, of_each: &str| {
        let running = Running::start(rig::config(&url(&sentinels, service)), rig::quick_models());
        rig::until("it says why", async || {
            let problem = running.cameras.health().problem.unwrap_or_default();
            problem.contains(said) && all.iter().all(|at| problem.contains(&(at.clone() + of_each)))
        })
        .await;
        assert!(!running.cameras.health().is_up);
        running.stop().await;
    };
    says("others", "the Sentinels know no service `others`", " (does not know it)").await;
    for sentinel in &sentinels {
        sentinel.signal("KILL");
    }
    says(SERVICE, "no Sentinel can be asked for the master of `cameras`", " (").await;
}

#[test]
fn an_address_of_sentinels_that_is_wrong_is_told_what_it_must_be() {
    let refused = |url: &str| {
        let models = Arc::new(paceline_pipeline::Models::default());
        Cameras::pair(rig::config(url), models).unwrap_err().to_string()
    };
    let said = refused("redis+sentinel://user:secret@one,two:26380");
    assert_eq!(
        said,
        "cameras.url is an address of Sentinels without the name of a service; it must be like \
         redis+sentinel://[user:password@]host[:26379][,host...]/service[/db]\
         [?sentinel_username=...&sentinel_password=...]",
    );
    assert!(refused("rediss+sentinel://one/x").contains("cameras.ca_file is not set"));
    assert!(refused("http+sentinel://one/x").contains("cameras.url"));
}
