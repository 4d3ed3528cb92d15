//! The one place that spawns. Stages are few, named and critical; connections are many and
//! expendable.

use std::{collections::HashMap, future::Future, time::Duration};

use tokio::{
    task::{Id, JoinSet},
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// What a stage ends with; a stage that is not told to stop should not end.
pub type StageResult = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// Why the server did not stop cleanly.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A stage ended though nobody asked it to.
    #[error("`{0}` ended unexpectedly")]
    StageEnded(String),
    /// Something outlived the time it had to finish.
    #[error("not finished within {after:?} and cut off: {left:?}")]
    CutOff {
        /// How long it had.
        after: Duration,
        /// What it was.
        left: Vec<String>,
    },
}

/// Owns every long-lived task of the process.
#[derive(Debug)]
pub struct Supervisor {
    stages: JoinSet<StageResult>,
    names: HashMap<Id, String>,
    connections: TaskTracker,
    clocks: TaskTracker,
    stop_intake: CancellationToken,
    drain_timeout: Duration,
}

impl Supervisor {
    /// A supervisor with nothing to supervise yet.
    #[must_use]
    pub fn new(drain_timeout: Duration) -> Self {
        Self {
            stages: JoinSet::new(),
            names: HashMap::new(),
            connections: TaskTracker::new(),
            clocks: TaskTracker::new(),
            stop_intake: CancellationToken::new(),
            drain_timeout,
        }
    }

    /// Starts a stage. If it ends before the server is told to stop, the server stops.
    pub fn stage<F>(&mut self, name: impl Into<String>, body: F)
    where
        F: Future<Output = StageResult> + Send + 'static,
    {
        let id = self.stages.spawn(body).id();
        self.names.insert(id, name.into());
    }

    /// For doors only: fires when new work must stop. What is behind them ends because its input
    /// ends, never because of this token.
    #[must_use]
    pub fn stop_intake(&self) -> CancellationToken {
        self.stop_intake.clone()
    }

    /// Where connections are spawned.
    #[must_use]
    pub fn connections(&self) -> TaskTracker {
        self.connections.clone()
    }

    /// Where models' clocks are spawned; each ends with its model.
    #[must_use]
    pub fn clocks(&self) -> TaskTracker {
        self.clocks.clone()
    }

    /// Runs until `shutdown` resolves or a stage ends. Then the doors stop taking, connections
    /// finish, `close` closes what is behind the doors, and the stages end.
    ///
    /// # Errors
    ///
    /// When a stage ended by itself, or draining took longer than it may.
    pub async fn run(
        mut self,
        shutdown: impl Future<Output = ()>,
        close: impl FnOnce(),
    ) -> Result<(), RunError> {
        let culprit = tokio::select! {
            () = shutdown => None,
            name = self.next_exit() => name,
        };
        tracing::info!(culprit, timeout = ?self.drain_timeout, "draining");
        self.stop_intake.cancel();
        self.connections.close();
        let after = self.drain_timeout;
        let drained = timeout(after, async {
            self.connections.wait().await;
            close();
            self.clocks.close();
            self.clocks.wait().await;
            while self.next_exit().await.is_some() {}
        })
        .await;
        if drained.is_err() {
            let mut left: Vec<String> = self.names.values().cloned().collect();
            left.push(format!("{} connections", self.connections.len()));
            self.stages.shutdown().await;
            return Err(RunError::CutOff { after, left });
        }
        culprit.map_or(Ok(()), |name| Err(RunError::StageEnded(name)))
    }

    /// Waits for the next stage to end and says which; `None` once all have.
    async fn next_exit(&mut self) -> Option<String> {
        let exit = self.stages.join_next_with_id().await?;
        let (id, result) = match exit {
            Ok((id, result)) => (id, result),
            Err(panic) => (panic.id(), Err(panic.into())),
        };
        let name = self.names.remove(&id).unwrap_or_else(|| "unnamed".to_owned());
        match result {
            Ok(()) => tracing::debug!(stage = name, "ended"),
            Err(error) => tracing::error!(stage = name, error, "failed"),
        }
        Some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_stage_that_dies_stops_the_server() {
        let mut supervisor = Supervisor::new(Duration::from_secs(1));
        let stop = supervisor.stop_intake();
        supervisor.stage("door", async move {
            stop.cancelled().await;
            Ok(())
        });
        supervisor.stage("infer", async { Err("device lost".into()) });

        let result = supervisor.run(std::future::pending(), || ()).await;

        assert!(matches!(result, Err(RunError::StageEnded(name)) if name == "infer"));
    }

    #[tokio::test(start_paused = true)]
    async fn what_will_not_stop_is_named_and_cut_off() {
        let mut supervisor = Supervisor::new(Duration::from_secs(1));
        supervisor.stage("stuck", std::future::pending());

        let result = supervisor.run(async {}, || ()).await;

        assert!(matches!(result, Err(RunError::CutOff { left, .. }) if left[0] == "stuck"));
    }

    #[tokio::test(start_paused = true)]
    async fn connections_finish_before_what_is_behind_them_is_closed() {
        let mut supervisor = Supervisor::new(Duration::from_secs(10));
        let (close, closed) = tokio::sync::oneshot::channel::<()>();
        supervisor.stage("models", async move { Ok(closed.await?) });
        let finished = supervisor.connections().spawn(tokio::time::sleep(Duration::from_secs(5)));

        let result = supervisor
            .run(async {}, || {
                assert!(finished.is_finished());
                close.send(()).unwrap();
            })
            .await;

        assert!(result.is_ok());
    }
}
