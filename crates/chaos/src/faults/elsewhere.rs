//! A server whose cameras are told of Redis in another way, for a while.

use std::{ffi::OsString, time::Duration};

use anyhow::ensure;
use rustix::process::Signal;
use tokio::time::{Instant, sleep};

use super::{Scene, redis::cameras};
use crate::{
    clients::{PATIENCE, http},
    process::LOOK,
    server::Surroundings,
};

/// Results that show that cameras go on.
pub(super) const FEW: u64 = 100;
/// How long one that cannot reach Redis serves everybody else, at least.
const WITHOUT: Duration = Duration::from_secs(1);

/// Starts the server anew with these variables, for as long as `during` takes.
pub(super) async fn told(
    scene: &Scene,
    variables: Vec<(&'static str, OsString)>,
    during: impl AsyncFnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    stop(scene).await?;
    scene.server.start_in(&Surroundings { variables, ..Surroundings::default() }).await?;
    let done = during().await;
    stop(scene).await?;
    scene.server.start_server().await?;
    done
}

async fn stop(scene: &Scene) -> anyhow::Result<()> {
    scene.server.process.signal(Signal::TERM)?;
    let status = scene.server.process.ended().await?;
    ensure!(status.success(), "the server ends with {status}");
    Ok(())
}

/// Waits for so many results.
pub(super) async fn results(scene: &Scene, n: u64, from: &str) -> anyhow::Result<()> {
    let (began, n_results) = (Instant::now(), scene.film.n_results());
    while scene.film.n_results() < n_results + n {
        ensure!(began.elapsed() < PATIENCE, "no results {from}");
        sleep(LOOK).await;
    }
    Ok(())
}

/// Waits until health says why Redis is not used; the server stays ready meanwhile.
pub(super) async fn says(scene: &Scene, why: &str) -> anyhow::Result<()> {
    let began = Instant::now();
    let mut is_known = false;
    while !is_known || began.elapsed() < WITHOUT {
        let health = cameras(scene).await?;
        is_known = health["problem"].as_str().is_some_and(|problem| problem.contains(why));
        ensure!(began.elapsed() < PATIENCE, "health should say {why}, and is {health}");
        let status = http::get(scene.server.http, "/v2/health/ready").await?;
        ensure!(status == 200, "without Redis the server says {status}");
        sleep(LOOK).await;
    }
    Ok(())
}
