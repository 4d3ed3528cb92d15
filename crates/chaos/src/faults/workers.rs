//! What a Python model can do to its process.

use anyhow::{Context as _, ensure};
use futures_util::future::join_all;
use rustix::process::{Signal, kill_process};

use super::Scene;
use crate::{clients::http, ledger::Outcome};

pub(super) async fn kill(scene: &Scene) -> anyhow::Result<()> {
    signal(scene, Signal::KILL)
}

pub(super) async fn stop(scene: &Scene) -> anyhow::Result<()> {
    signal(scene, Signal::STOP)
}

fn signal(scene: &Scene, signal: Signal) -> anyhow::Result<()> {
    let workers = scene.server.workers()?;
    let worker = *workers.first().context("there is no worker")?;
    // It may have ended meanwhile; then there is nothing to do.
    kill_process(worker, signal).ok();
    Ok(())
}

pub(super) async fn exit(scene: &Scene) -> anyhow::Result<()> {
    harm(scene, 1).await
}

pub(super) async fn segv(scene: &Scene) -> anyhow::Result<()> {
    harm(scene, 2).await
}

pub(super) async fn hang(scene: &Scene) -> anyhow::Result<()> {
    harm(scene, 3).await
}

pub(super) async fn memory(scene: &Scene) -> anyhow::Result<()> {
    harm(scene, 4).await
}

/// One request that does harm: it is told so, in words of ours.
async fn harm(scene: &Scene, harm: i64) -> anyhow::Result<()> {
    let outcome = http::fragile(scene.server.http, 0, harm).await?;
    let is_told = matches!(outcome, Outcome::Failed(_) | Outcome::Refused(_));
    ensure!(is_told, "whoever asked for harm got {outcome:?}");
    Ok(())
}

pub(super) async fn noise(scene: &Scene) -> anyhow::Result<()> {
    let outcome = http::fragile(scene.server.http, 0, 5).await?;
    ensure!(outcome == Outcome::Right, "a noisy model answered {outcome:?}");
    Ok(())
}

pub(super) async fn raises(scene: &Scene) -> anyhow::Result<()> {
    one_of_many(scene, 6).await
}

pub(super) async fn item_error(scene: &Scene) -> anyhow::Result<()> {
    one_of_many(scene, 7).await
}

/// Many requests, one of which fails: the others do not.
async fn one_of_many(scene: &Scene, harm: i64) -> anyhow::Result<()> {
    let asked = (0..16).map(|n| http::fragile(scene.server.http, n, if n == 7 { harm } else { 0 }));
    for (n, outcome) in join_all(asked).await.into_iter().enumerate() {
        let outcome = outcome?;
        let is_as_it_must_be = match n {
            7 => matches!(outcome, Outcome::Failed(_)),
            _ => outcome == Outcome::Right,
        };
        ensure!(is_as_it_must_be, "request {n} of 16 got {outcome:?}");
    }
    Ok(())
}
