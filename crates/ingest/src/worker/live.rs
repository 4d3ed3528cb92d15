//! What a worker asks over a connection, which only a Redis gives it: one of each test's own.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, ChildStdout, Command, Stdio},
};

use super::{
    rig::{go_live, grant_cameras, idle_worker, stream_of, worker_with},
    *,
};

/// A redis-server on a socket in a folder of its own; ended when dropped.
struct Redis {
    child: Child,
    folder: tempfile::TempDir,
    /// Kept open: it may say more.
    _says: BufReader<ChildStdout>,
}

impl Redis {
    /// As `PACELINE_REDIS_SERVER` names it, or the system's.
    fn start() -> Self {
        let program = std::env::var_os("PACELINE_REDIS_SERVER");
        let folder = tempfile::tempdir().unwrap();
        let mut child = Command::new(program.unwrap_or_else(|| "redis-server".into()))
            .args(["--port", "0", "--save", "", "--daemonize", "no", "--unixsocket"])
            .arg(folder.path().join("socket"))
            .arg("--dir")
            .arg(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("redis-server does not start; run scripts/install-redis");
        let mut says = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains("ready to accept connections") {
            line.clear();
            assert_ne!(says.read_line(&mut line).unwrap(), 0, "redis-server ended");
        }
        Self { child, folder, _says: says }
    }

    fn config(&self) -> Config {
        let url = format!("unix://{}", self.folder.path().join("socket").display());
        Config { url, shards: 1, ..Config::default() }
    }

    async fn link(&self) -> Link {
        let address = self.config().address().unwrap();
        Link::open(&address, Duration::from_mins(1)).await.unwrap()
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[tokio::test]
async fn a_reader_without_credit_waits_before_it_looks_again() {
    let redis = Redis::start();
    let mut worker = worker_with(redis.config());
    worker.common.leases.set(rig::SHARD, Some(Instant::now() + Duration::from_hours(1)));
    go_live(&mut worker);
    worker.read_link = Some(redis.link().await);
    let credit = Arc::clone(&worker.common.credit);
    let _all = credit.reserve(usize::MAX, usize::MAX).unwrap();

    let now = Instant::now();
    worker.start_read();

    assert!(worker.reading.is_none());
    assert!(worker.read_link.is_some(), "the connection is kept");
    assert!(now + worker.common.config.linger <= worker.read_at);
}

/// Lets the worker have the reply that it waits for.
async fn reply(worker: &mut Worker) {
    let reading = worker.reading.take().expect("nothing was asked");
    let read = reading.await;
    worker.has_read(read);
}

#[tokio::test]
async fn a_key_that_became_something_else_is_found_among_the_others() {
    let redis = Redis::start();
    let mut link = redis.link().await;
    for camera in ["cam:a", "cam:c"] {
        let mut command = redis::cmd("XGROUP");
        command.arg("CREATE").arg(camera).arg("paceline").arg(0).arg("MKSTREAM");
        link.ask_one(command).await.unwrap();
    }
    let mut command = redis::cmd("LPUSH");
    command.arg("cam:b").arg("something");
    link.ask_one(command).await.unwrap();
    let mut worker = idle_worker(redis.config());
    grant_cameras(&mut worker, 0, &["a", "b", "c"]);
    go_live(&mut worker);
    worker.read_link = Some(link);

    worker.start_read();
    reply(&mut worker).await;
    reply(&mut worker).await;

    let is_broken = |camera: &str| {
        let number = stream_of(&worker, camera);
        matches!(worker.streams[&number].phase, Phase::Broken(_))
    };
    assert_eq!(["a", "b", "c"].map(is_broken), [false, true, false]);
}

#[tokio::test]
async fn a_look_that_was_under_way_when_a_doubt_came_up_does_not_end_it() {
    let redis = Redis::start();
    let mut link = redis.link().await;
    let mut command = redis::cmd("XGROUP");
    command.arg("CREATE").arg("cam:a").arg("paceline").arg(0).arg("MKSTREAM");
    link.ask_one(command).await.unwrap();
    let mut worker = idle_worker(redis.config());
    grant_cameras(&mut worker, 0, &["a"]);
    worker.read_link = Some(link);

    worker.start_read();
    worker.doubt();
    reply(&mut worker).await;
    assert!(worker.is_in_doubt(Instant::now()));

    worker.start_read();
    reply(&mut worker).await;
    assert!(!worker.is_in_doubt(Instant::now()));
}
