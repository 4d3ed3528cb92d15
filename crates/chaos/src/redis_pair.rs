//! Two Redis servers, one of which copies the other, behind one address that can be pointed at
//! either: what a failover is made of.

use std::{
    fs::{self, File},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use anyhow::{Context as _, ensure};
use rustix::process::Signal;
use tokio::{
    net::TcpStream,
    time::{Instant, sleep},
};

use crate::{
    clients::cameras::connect,
    process::{LOOK, PATIENCE, Process, free_port},
    relay::Relay,
};

/// How long what Redis has said may take to be read.
const READ: Duration = Duration::from_millis(500);

/// Where Redis is reached, whichever of the two serves.
#[derive(Debug)]
pub(crate) struct RedisPair {
    pub(crate) at: SocketAddr,
    nodes: [Node; 2],
    serving: AtomicUsize,
    pub(crate) relay: Relay,
    binary: PathBuf,
}

#[derive(Debug)]
struct Node {
    process: Process,
    at: SocketAddr,
    folder: PathBuf,
}

impl RedisPair {
    pub(crate) async fn start(binary: &Path, folder: &Path) -> anyhow::Result<Self> {
        let node = |name: &str| {
            let folder = folder.join(name);
            fs::create_dir_all(&folder)?;
            anyhow::Ok(Node { process: Process::default(), at: free_port()?, folder })
        };
        let nodes = [node("redis-0")?, node("redis-1")?];
        let relay = Relay::start(nodes[0].at).await?;
        let pair = Self {
            at: relay.at,
            nodes,
            serving: AtomicUsize::new(0),
            relay,
            binary: binary.to_owned(),
        };
        pair.launch(0, None, &[]).await?;
        pair.launch(1, Some(0), &[]).await?;
        Ok(pair)
    }

    /// The one that serves.
    pub(crate) fn serving(&self) -> &Process {
        &self.nodes[self.serving.load(Ordering::Relaxed)].process
    }

    /// Where that one has its files.
    pub(crate) fn folder(&self) -> &Path {
        &self.nodes[self.serving.load(Ordering::Relaxed)].folder
    }

    /// SIGKILL to the one that serves, a moment without it, and a new start with its files.
    pub(crate) async fn kill_and_start(&self, pause: Duration) -> anyhow::Result<()> {
        self.kill().await?;
        sleep(pause).await;
        self.start_again().await
    }

    /// SIGKILL to the one that serves; nobody answers until it is started again.
    pub(crate) async fn kill(&self) -> anyhow::Result<()> {
        self.serving().signal(Signal::KILL)?;
        self.serving().ended().await?;
        Ok(())
    }

    /// The one that served is there again, with its files.
    pub(crate) async fn start_again(&self) -> anyhow::Result<()> {
        self.start_with(&[]).await
    }

    /// The same with further settings, as the command line has them.
    pub(crate) async fn start_with(&self, settings: &[&str]) -> anyhow::Result<()> {
        self.launch(self.serving.load(Ordering::Relaxed), None, settings).await
    }

    /// SIGKILL to the one that serves, and it starts again without the last bytes of what it had
    /// written. Nobody reaches it before `looked` has seen what it has.
    pub(crate) async fn cut_and_start<T>(
        &self,
        n_bytes: u64,
        looked: impl AsyncFnOnce(SocketAddr) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        self.longer_than(n_bytes).await?;
        self.kill().await?;
        self.relay.point(None);
        let file = File::options().write(true).open(self.appended()?)?;
        let length = file.metadata()?.len();
        file.set_len(length.saturating_sub(n_bytes))?;
        // What it had said before its end has been read by then.
        sleep(READ).await;
        self.start_again().await?;
        self.loaded().await?;
        let [at, _] = self.both();
        let seen = looked(at).await;
        self.relay.point(Some(at));
        seen
    }

    /// Waits until the one that serves has read its files.
    async fn loaded(&self) -> anyhow::Result<()> {
        let began = Instant::now();
        let serving = self.serving.load(Ordering::Relaxed);
        while self.ask::<String>(serving, &["PING"]).await.is_err() {
            ensure!(began.elapsed() < PATIENCE, "Redis reads its files on and on");
            sleep(LOOK).await;
        }
        Ok(())
    }

    /// Waits until Redis has appended more than so many bytes to its file.
    async fn longer_than(&self, n_bytes: u64) -> anyhow::Result<()> {
        let began = Instant::now();
        while fs::metadata(self.appended()?)?.len() <= n_bytes {
            ensure!(began.elapsed() < PATIENCE, "Redis has not written {n_bytes} bytes");
            sleep(LOOK).await;
        }
        Ok(())
    }

    /// The file that the one that serves appends to: the newest of its kind.
    fn appended(&self) -> anyhow::Result<PathBuf> {
        let mut files = Vec::new();
        for entry in fs::read_dir(self.folder().join("appendonlydir"))? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let number = name.strip_suffix(".incr.aof").and_then(|name| name.rsplit('.').next());
            if let Some(number) = number.and_then(|number| number.parse::<u64>().ok()) {
                files.push((number, path));
            }
        }
        files.into_iter().max().map(|(_, path)| path).context("Redis appends to no file")
    }

    /// SIGKILL to the one that serves; the other one takes its place, and it comes back with
    /// nothing, as a copy. `lost` is called when what was not copied is lost.
    pub(crate) async fn fail_over(&self, lost: impl FnOnce()) -> anyhow::Result<()> {
        self.lose_serving(lost).await?;
        let new = 1 - self.serving.load(Ordering::Relaxed);
        self.ask::<()>(new, &["REPLICAOF", "NO", "ONE"]).await?;
        self.serve_other().await
    }

    /// Where the one that serves is, and the other one.
    pub(crate) fn both(&self) -> [SocketAddr; 2] {
        let serving = self.serving.load(Ordering::Relaxed);
        [self.nodes[serving].at, self.nodes[1 - serving].at]
    }

    /// The first half of a failover: SIGKILL to the one that serves, and nobody is reached.
    pub(crate) async fn lose_serving(&self, lost: impl FnOnce()) -> anyhow::Result<()> {
        self.copied().await?;
        self.kill().await?;
        self.relay.point(None);
        lost();
        Ok(())
    }

    /// The second half, once the other one copies nobody any more: it serves, and the first comes
    /// back with nothing, as its copy.
    pub(crate) async fn serve_other(&self) -> anyhow::Result<()> {
        let old = self.serving.load(Ordering::Relaxed);
        let new = 1 - old;
        self.serving.store(new, Ordering::Relaxed);
        self.relay.point(Some(self.nodes[new].at));
        fs::remove_dir_all(&self.nodes[old].folder)?;
        fs::create_dir_all(&self.nodes[old].folder)?;
        self.launch(old, Some(new), &[]).await?;
        self.copied().await
    }

    /// Waits until the copy is one.
    async fn copied(&self) -> anyhow::Result<()> {
        let began = Instant::now();
        let serving = self.serving.load(Ordering::Relaxed);
        loop {
            let said: String = self.ask(serving, &["INFO", "replication"]).await?;
            if said.contains("state=online") {
                return Ok(());
            }
            ensure!(began.elapsed() < PATIENCE, "Redis has no copy: {said}");
            sleep(LOOK).await;
        }
    }

    async fn ask<T: redis::FromRedisValue>(
        &self,
        node: usize,
        words: &[&str],
    ) -> anyhow::Result<T> {
        let mut connection = connect(self.nodes[node].at, PATIENCE).await?;
        Ok(redis::cmd(words[0]).arg(&words[1..]).query_async(&mut connection).await?)
    }

    /// Starts one, as a copy of another or to serve, and waits until it listens.
    async fn launch(
        &self,
        node: usize,
        copies: Option<usize>,
        settings: &[&str],
    ) -> anyhow::Result<()> {
        let Node { process, at, folder } = &self.nodes[node];
        let log = File::options().create(true).append(true).open(folder.join("log"))?;
        let mut command = Command::new(&self.binary);
        command
            .args(["--bind", "127.0.0.1", "--port", &at.port().to_string()])
            .args(["--save", "", "--appendonly", "yes", "--maxmemory-policy", "noeviction"])
            // Else it may say yes to what it has not written, for two seconds where its disk is slow.
            .args(["--appendfsync", "always"])
            .args(["--repl-diskless-sync-delay", "0", "--enable-debug-command", "local"])
            .args(["--enable-protected-configs", "local"])
            .args(settings)
            .arg("--dir")
            .arg(folder);
        if let Some(copies) = copies {
            let port = self.nodes[copies].at.port().to_string();
            command.args(["--replicaof", "127.0.0.1", &port]);
        }
        let child = command
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("{} does not start", self.binary.display()))?;
        process.put(child);
        let began = Instant::now();
        while TcpStream::connect(at).await.is_err() {
            ensure!(began.elapsed() < PATIENCE, "redis-server does not listen");
            sleep(LOOK).await;
        }
        Ok(())
    }
}
