//! A redis-server of a run's own, on a free port, which ends with the run.

use std::{
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use redis::{Client, RedisError, aio::MultiplexedConnection};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

/// Longest that it may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// A running redis-server, killed when dropped.
#[derive(Debug)]
pub struct RedisServer {
    child: Child,
    /// Where it is.
    pub url: String,
    _folder: TempDir,
}

impl RedisServer {
    /// Starts `program` with nothing kept on disk.
    ///
    /// # Errors
    ///
    /// When there is no such program or it does not answer.
    pub async fn start(program: &Path) -> std::io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let child = Command::new(program)
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
            .args(["--appendonly", "no", "--loglevel", "warning", "--daemonize", "no"])
            .arg("--dir")
            .arg(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let url = format!("redis://127.0.0.1:{port}");
        let server = Self { child, url, _folder: folder };
        let began = Instant::now();
        while connect(&server.url).await.is_err() {
            if PATIENCE < began.elapsed() {
                return Err(std::io::Error::other("the redis-server does not answer"));
            }
            sleep(Duration::from_millis(10)).await;
        }
        Ok(server)
    }

    /// Seconds of CPU that a server has used, as it says itself.
    ///
    /// # Errors
    ///
    /// When it cannot be asked.
    pub async fn cpu_seconds(url: &str) -> Result<f64, RedisError> {
        let mut connection = connect(url).await?;
        let info: String = redis::cmd("INFO").arg("cpu").query_async(&mut connection).await?;
        let value = |name: &str| -> f64 {
            let line = info.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|value| value.trim().parse().ok()).unwrap_or(0.0)
        };
        Ok(value("used_cpu_sys:") + value("used_cpu_user:"))
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

async fn connect(url: &str) -> Result<MultiplexedConnection, RedisError> {
    let mut connection = Client::open(url)?.get_multiplexed_async_connection().await?;
    let _: String = redis::cmd("PING").query_async(&mut connection).await?;
    Ok(connection)
}
