//! A server of this bench's own: the same binary on free ports, which ends when the bench does.
//!
//! It is killed when this is dropped. Should the bench itself be killed, the server's standard
//! input ends with it, and `--stop-with-stdin` makes it stop then.

use std::{
    fs::{self, File},
    net::SocketAddr,
    os::unix::process::CommandExt as _,
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, bail};
use serde::Deserialize;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::args::ConfigArgs;

/// Longest that models may take to load.
const READY: Duration = Duration::from_mins(2);
/// How often it is looked whether they have.
const LOOK: Duration = Duration::from_millis(5);

/// A running server.
#[derive(Debug)]
pub(crate) struct OwnServer {
    child: Child,
    /// Where it listens for HTTP.
    pub(crate) http: SocketAddr,
    /// Where it listens for gRPC.
    pub(crate) grpc: SocketAddr,
    /// Holds its log and its configuration; removed with it.
    _folder: TempDir,
}

/// The line that a server logs when it serves.
#[derive(Debug, Deserialize)]
struct Serving {
    message: String,
    http: SocketAddr,
    grpc: SocketAddr,
}

impl OwnServer {
    /// Starts a server and waits until it serves. `text` is a configuration in place of a file.
    pub(crate) async fn start(args: &ConfigArgs, text: Option<&str>) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir().context("no folder for the server's log")?;
        let log = folder.path().join("server.log");
        let mut command = Command::new(std::env::current_exe().context("this program is gone")?);
        command
            .args([
                "serve",
                "--stop-with-stdin",
                "--listen=127.0.0.1:0",
                "--grpc-listen=127.0.0.1:0",
            ])
            // What interrupts the bench is not for the server: the bench stops it when it is done.
            .process_group(0)
            .env("RUST_LOG", "info")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(File::create(&log).context("no file for the server's log")?);
        if let Some(text) = text {
            let path = folder.path().join("paceline.toml");
            fs::write(&path, text).context("no file for the server's configuration")?;
            command.arg("--config").arg(path);
        }
        for (flag, path) in
            [("--config", &args.config), ("--model-repository", &args.model_repository)]
        {
            if let Some(path) = path {
                command.arg(flag).arg(path);
            }
        }
        args.set.iter().for_each(|set| {
            command.arg("--set").arg(set);
        });
        let child = command.spawn().context("the server did not start")?;
        // From here on, whatever fails takes the server with it.
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut server = Self { child, http: nowhere, grpc: nowhere, _folder: folder };
        let began = Instant::now();
        loop {
            let ended = server.child.try_wait().context("the server is lost")?;
            let text = fs::read_to_string(&log).unwrap_or_default();
            if let Some(serving) = text.lines().find_map(serving) {
                (server.http, server.grpc) = (serving.http, serving.grpc);
                return Ok(server);
            }
            if ended.is_some() || READY < began.elapsed() {
                bail!("the server did not come up; its log ends with:\n{}", tail(&text));
            }
            sleep(LOOK).await;
        }
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its URL for HTTP.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.http)
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn serving(line: &str) -> Option<Serving> {
    serde_json::from_str(line).ok().filter(|serving: &Serving| serving.message == "serving")
}

fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(10)..].join("\n")
}
