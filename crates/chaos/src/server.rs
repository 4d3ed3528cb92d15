//! The server under test: a real process on ports that stay the same over restarts, with a model of
//! every kind, and the Redis that its cameras read.

use std::{
    ffi::OsString,
    fs::{self, OpenOptions},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, bail, ensure};
use bytes::Bytes;
use rustix::process::Pid;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::{
    clients::http,
    parts::{Part, Parts},
    process::{LOOK, PATIENCE, Process, children, free_port},
    redis_pair::RedisPair,
};

/// Where everything is.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) process: Process,
    pub(crate) redis: Option<RedisPair>,
    pub(crate) http: SocketAddr,
    pub(crate) grpc: SocketAddr,
    binary: PathBuf,
    settings: Vec<String>,
    folder: TempDir,
}

/// What a start may have other than usual.
#[derive(Debug, Default)]
pub(crate) struct Surroundings {
    /// Where its log goes.
    pub(crate) log: Option<PathBuf>,
    /// Variables of its environment.
    pub(crate) variables: Vec<(&'static str, OsString)>,
}

impl Server {
    /// Writes the configuration, and starts Redis and the server. `settings` are further ones, as
    /// the command line has them.
    pub(crate) async fn start(parts: &Parts, settings: &[&str]) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir().context("no folder for the server's files")?;
        let redis = if parts.has(Part::Redis) {
            Some(RedisPair::start(&parts.redis, folder.path()).await?)
        } else {
            None
        };
        let server = Self {
            process: Process::default(),
            redis,
            http: free_port()?,
            grpc: free_port()?,
            binary: parts.server.clone(),
            settings: settings.iter().map(|&set| set.to_owned()).collect(),
            folder,
        };
        fs::create_dir_all(server.models())?;
        let mut text = include_str!("model/paceline.toml")
            .replace("HTTP", &server.http.to_string())
            .replace("GRPC", &server.grpc.to_string())
            .replace("MODELS", &server.models().display().to_string());
        if parts.has(Part::Python) {
            let version = server.models().join("fragile/1");
            fs::create_dir_all(&version)?;
            fs::write(version.join("model.py"), include_str!("model/model.py"))?;
            text += &include_str!("model/python.toml")
                .replace("PYTHON", &parts.python.display().to_string());
        }
        if let Some(redis) = &server.redis {
            text += &include_str!("model/cameras.toml").replace("REDIS", &redis.at.to_string());
        }
        fs::write(server.folder.path().join("paceline.toml"), text)?;
        server.start_server().await?;
        Ok(server)
    }

    /// Redis, where it is not left out.
    pub(crate) fn redis(&self) -> anyhow::Result<&RedisPair> {
        self.redis.as_ref().context("there is no Redis here")
    }

    /// The model repository.
    pub(crate) fn models(&self) -> PathBuf {
        self.folder.path().join("models")
    }

    /// Everything that it wrote stays where it is.
    pub(crate) fn keep_files(&mut self) -> &Path {
        self.folder.disable_cleanup(true);
        self.folder.path()
    }

    /// A file for whoever does harm, gone with the server's.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Where the server writes its log.
    pub(crate) fn log(&self) -> PathBuf {
        self.file("server.log")
    }

    pub(crate) async fn start_server(&self) -> anyhow::Result<()> {
        self.start_in(&Surroundings::default()).await
    }

    pub(crate) async fn start_in(&self, around: &Surroundings) -> anyhow::Result<()> {
        self.launch(around)?;
        self.ready().await
    }

    /// Starts it and does not wait.
    pub(crate) fn launch_server(&self) -> anyhow::Result<()> {
        self.launch(&Surroundings::default())
    }

    fn launch(&self, around: &Surroundings) -> anyhow::Result<()> {
        let log = around.log.clone().unwrap_or_else(|| self.log());
        let log = OpenOptions::new().create(true).append(true).open(log)?;
        let child = Command::new(&self.binary)
            .args(["serve", "--stop-with-stdin", "--config"])
            .arg(self.folder.path().join("paceline.toml"))
            .args(self.settings.iter().flat_map(|set| ["--set", set]))
            .env("RUST_LOG", "info")
            // Each of its threads wants memory, of which the worker may not have much.
            .env("OPENBLAS_NUM_THREADS", "1")
            .envs(around.variables.iter().map(|(name, value)| (name, value)))
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
        let asked = http::get(self.http, "/v2/health/ready").await;
        asked.is_ok_and(|status| status == 200)
    }

    /// What the server says of itself under this name, all of its labels together.
    pub(crate) async fn metric(&self, name: &str) -> anyhow::Result<u64> {
        let (_, body) = http::send(self.http, "/metrics", None, "GET", Bytes::new()).await?;
        let text = String::from_utf8_lossy(&body).into_owned();
        let value = |line: &str| {
            let rest = line.strip_prefix(name)?;
            let is_it = rest.starts_with([' ', '{']);
            is_it.then(|| rest.rsplit_once(' ')?.1.parse::<u64>().ok()).flatten()
        };
        let values: Vec<u64> = text.lines().filter_map(value).collect();
        ensure!(!values.is_empty(), "the server does not say {name}");
        Ok(values.iter().sum())
    }

    /// The server's worker processes.
    pub(crate) fn workers(&self) -> anyhow::Result<Vec<Pid>> {
        children(self.process.pid()?)
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
