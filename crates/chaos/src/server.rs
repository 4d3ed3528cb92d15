//! The server under test: a real process on ports that stay the same over restarts, with a model of
//! every kind, and the Redis that its cameras read.

use std::{
    fs::{self, File, OpenOptions},
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};
use parking_lot::Mutex;
use rustix::process::{Pid, Signal};
use tempfile::TempDir;
use tokio::{
    net::TcpStream,
    time::{Instant, sleep},
};

/// Longest that a start or a stop may take.
const PATIENCE: Duration = Duration::from_mins(1);
const LOOK: Duration = Duration::from_millis(10);

/// A port that nobody has now.
fn free_port() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// A child process that can be stopped and started again; killed when dropped.
#[derive(Debug, Default)]
pub(crate) struct Process(Mutex<Option<Child>>);

impl Process {
    pub(crate) fn pid(&self) -> anyhow::Result<Pid> {
        let id = self.0.lock().as_ref().map(Child::id).context("the process is not running")?;
        Pid::from_raw(i32::try_from(id)?).context("no process id")
    }

    pub(crate) fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        Ok(rustix::process::kill_process(self.pid()?, signal)?)
    }

    /// Waits for its end.
    pub(crate) async fn ended(&self) -> anyhow::Result<ExitStatus> {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            if let Some(status) = self.has_ended()? {
                return Ok(status);
            }
            sleep(LOOK).await;
        }
        bail!("the process does not end within {PATIENCE:?}")
    }

    fn has_ended(&self) -> anyhow::Result<Option<ExitStatus>> {
        let mut child = self.0.lock();
        let status = child.as_mut().context("the process is not running")?.try_wait()?;
        if status.is_some() {
            *child = None;
        }
        Ok(status)
    }

    fn put(&self, child: Child) {
        *self.0.lock() = Some(child);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(child) = self.0.get_mut() {
            // Either fails only where it has ended already.
            child.kill().ok();
            child.wait().ok();
        }
    }
}

/// Where everything is.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) process: Process,
    pub(crate) redis: Process,
    pub(crate) http: SocketAddr,
    pub(crate) grpc: SocketAddr,
    pub(crate) redis_at: SocketAddr,
    binary: PathBuf,
    folder: TempDir,
}

impl Server {
    /// Writes the configuration, and starts Redis and the server.
    pub(crate) async fn start(binary: &Path, python: &Path) -> anyhow::Result<Self> {
        let server = Self {
            process: Process::default(),
            redis: Process::default(),
            http: free_port()?,
            grpc: free_port()?,
            redis_at: free_port()?,
            binary: binary.to_owned(),
            folder: tempfile::tempdir().context("no folder for the server's files")?,
        };
        let version = server.models().join("fragile/1");
        fs::create_dir_all(&version)?;
        fs::write(version.join("model.py"), include_str!("model/model.py"))?;
        let text = include_str!("model/paceline.toml")
            .replace("HTTP", &server.http.to_string())
            .replace("GRPC", &server.grpc.to_string())
            .replace("REDIS", &server.redis_at.to_string())
            .replace("MODELS", &server.models().display().to_string())
            .replace("PYTHON", &python.display().to_string());
        fs::write(server.folder.path().join("paceline.toml"), text)?;
        server.start_redis().await?;
        server.start_server().await?;
        Ok(server)
    }

    /// The model repository.
    pub(crate) fn models(&self) -> PathBuf {
        self.folder.path().join("models")
    }

    /// Where the server writes its log.
    pub(crate) fn log(&self) -> PathBuf {
        self.folder.path().join("server.log")
    }

    pub(crate) async fn start_server(&self) -> anyhow::Result<()> {
        self.launch_server()?;
        self.ready().await
    }

    /// Starts it and does not wait.
    pub(crate) fn launch_server(&self) -> anyhow::Result<()> {
        let log = OpenOptions::new().create(true).append(true).open(self.log())?;
        let child = Command::new(&self.binary)
            .args(["serve", "--stop-with-stdin", "--config"])
            .arg(self.folder.path().join("paceline.toml"))
            .env("RUST_LOG", "info")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .with_context(|| format!("{} does not start", self.binary.display()))?;
        self.process.put(child);
        Ok(())
    }

    /// Waits until all models are ready.
    pub(crate) async fn ready(&self) -> anyhow::Result<()> {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            if self.is_ready().await {
                return Ok(());
            }
            sleep(LOOK).await;
        }
        let log = fs::read_to_string(self.log()).unwrap_or_default();
        let from = log.floor_char_boundary(log.len().saturating_sub(2000));
        bail!("the server is not ready after {PATIENCE:?}; its log ends:\n{}", &log[from..])
    }

    async fn is_ready(&self) -> bool {
        let asked = crate::clients::http::get(self.http, "/v2/health/ready").await;
        asked.is_ok_and(|status| status == 200)
    }

    pub(crate) async fn start_redis(&self) -> anyhow::Result<()> {
        let log =
            File::options().create(true).append(true).open(self.folder.path().join("redis"))?;
        let child = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--port", &self.redis_at.port().to_string()])
            .args(["--save", "", "--appendonly", "yes", "--maxmemory-policy", "noeviction"])
            .args(["--enable-debug-command", "local", "--dir"])
            .arg(self.folder.path())
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(Stdio::null())
            .spawn()
            .context("redis-server does not start; run scripts/install-redis")?;
        self.redis.put(child);
        let began = Instant::now();
        while TcpStream::connect(self.redis_at).await.is_err() {
            ensure!(began.elapsed() < PATIENCE, "redis-server does not listen");
            sleep(LOOK).await;
        }
        Ok(())
    }

    /// The server's worker processes.
    pub(crate) fn workers(&self) -> anyhow::Result<Vec<Pid>> {
        let parent = self.process.pid()?.as_raw_nonzero().get();
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc")?.flatten() {
            let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
            // The name stands in brackets and may hold anything; the parent is the second field after.
            let Some((head, rest)) = stat.rsplit_once(')') else { continue };
            let is_child = rest.split_whitespace().nth(1) == Some(&parent.to_string());
            let pid = head.split_whitespace().next().and_then(|pid| pid.parse().ok());
            if let (true, Some(pid)) = (is_child, pid.and_then(Pid::from_raw)) {
                found.push(pid);
            }
        }
        Ok(found)
    }

    /// The server's resident memory in KiB and its open descriptors.
    pub(crate) fn weight(&self) -> anyhow::Result<(u64, usize)> {
        let pid = self.process.pid()?.as_raw_nonzero();
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.split_whitespace().next()).unwrap_or_default();
        Ok((kib.parse()?, fs::read_dir(format!("/proc/{pid}/fd"))?.count()))
    }
}
