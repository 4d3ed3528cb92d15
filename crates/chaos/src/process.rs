//! A child process that can be stopped and started again, and a port that it can have each time.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    process::{Child, ExitStatus},
    time::Duration,
};

use anyhow::{Context as _, bail};
use parking_lot::Mutex;
use rand::RngExt as _;
use rustix::process::{Pid, Signal};
use tokio::time::{Instant, sleep};

/// Longest that a start or a stop may take.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);
pub(crate) const LOOK: Duration = Duration::from_millis(10);
/// Where ports of servers are looked for: below those that the system gives to clients, since a
/// client must not get the port of a server that is just being started anew.
const PORTS: std::ops::Range<u16> = 10_000..32_000;

/// A port that nobody has now.
pub(crate) fn free_port() -> anyhow::Result<SocketAddr> {
    let first = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let first = first.split_whitespace().next().and_then(|port| port.parse().ok());
    let end = first.unwrap_or(PORTS.end).clamp(PORTS.start + 1, PORTS.end);
    let mut random = rand::rng();
    for _ in 0..1000 {
        let at = SocketAddr::from((Ipv4Addr::LOCALHOST, random.random_range(PORTS.start..end)));
        if TcpListener::bind(at).is_ok() {
            return Ok(at);
        }
    }
    bail!("there is no free port below {end}")
}

/// The processes that this one has started.
pub(crate) fn children(parent: Pid) -> anyhow::Result<Vec<Pid>> {
    let parent = parent.as_raw_nonzero().get().to_string();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        // The name stands in brackets and may hold anything; the parent is the second field after.
        let Some((head, rest)) = stat.rsplit_once(')') else { continue };
        let is_child = rest.split_whitespace().nth(1) == Some(&parent);
        let pid = head.split_whitespace().next().and_then(|pid| pid.parse().ok());
        if let (true, Some(pid)) = (is_child, pid.and_then(Pid::from_raw)) {
            found.push(pid);
        }
    }
    Ok(found)
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

    /// How it ended, if it did.
    pub(crate) fn has_ended(&self) -> anyhow::Result<Option<ExitStatus>> {
        let mut child = self.0.lock();
        let status = child.as_mut().context("the process is not running")?.try_wait()?;
        if status.is_some() {
            *child = None;
        }
        Ok(status)
    }

    pub(crate) fn put(&self, child: Child) {
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
