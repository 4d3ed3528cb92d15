//! What can happen to Redis. Frames wait meanwhile; none that was confirmed may be lost.

use std::time::Duration;

use anyhow::ensure;
use paceline_ingest::Shards;
use rustix::process::Signal;
use tokio::time::{Instant, sleep};

use super::Scene;
use crate::clients::{PATIENCE, cameras::connect};

/// Longest that dead letters may take to show.
const DEAD: Duration = Duration::from_secs(15);

async fn ask<T: redis::FromRedisValue>(scene: &Scene, words: &[&str]) -> anyhow::Result<T> {
    let mut redis = connect(scene.server.redis()?.at, PATIENCE).await?;
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]);
    Ok(command.query_async(&mut redis).await?)
}

pub(super) async fn kill(scene: &Scene) -> anyhow::Result<()> {
    scene.server.redis()?.kill_and_start(Duration::from_millis(300)).await
}

pub(super) async fn failover(scene: &Scene) -> anyhow::Result<()> {
    scene.server.redis()?.fail_over(|| scene.film.lose_uncopied()).await
}

pub(super) async fn stop(scene: &Scene) -> anyhow::Result<()> {
    let serving = scene.server.redis()?.serving();
    serving.signal(Signal::STOP)?;
    sleep(Duration::from_secs(3)).await;
    serving.signal(Signal::CONT)
}

pub(super) async fn clients(scene: &Scene) -> anyhow::Result<()> {
    ask::<i64>(scene, &["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await?;
    Ok(())
}

pub(super) async fn pause(scene: &Scene) -> anyhow::Result<()> {
    ask::<()>(scene, &["CLIENT", "PAUSE", "2000", "ALL"]).await?;
    sleep(Duration::from_secs(2)).await;
    Ok(())
}

pub(super) async fn slow(scene: &Scene) -> anyhow::Result<()> {
    ask::<()>(scene, &["DEBUG", "SLEEP", "1"]).await
}

pub(super) async fn full(scene: &Scene) -> anyhow::Result<()> {
    ask::<()>(scene, &["CONFIG", "SET", "maxmemory", "1mb"]).await?;
    sleep(Duration::from_secs(1)).await;
    ask::<()>(scene, &["CONFIG", "SET", "maxmemory", "0"]).await
}

pub(super) async fn group(scene: &Scene) -> anyhow::Result<()> {
    let shards = shards();
    let frames = shards.frames(shards.of("cam-0"));
    ask::<i64>(scene, &["XGROUP", "DESTROY", &frames, "paceline"]).await?;
    Ok(())
}

pub(super) async fn scripts(scene: &Scene) -> anyhow::Result<()> {
    ask::<()>(scene, &["SCRIPT", "FLUSH"]).await
}

pub(super) async fn poison(scene: &Scene) -> anyhow::Result<()> {
    let shards = shards();
    let shard = shards.of("cam-0");
    let (frames, dead) = (shards.frames(shard), shards.dead(shard));
    let before: u64 = ask(scene, &["XLEN", &dead]).await?;
    for (field, value) in [("nothing", "here"), ("d", "7 bytes"), ("s", "-1"), ("h", "no handle")] {
        ask::<String>(scene, &["XADD", &frames, "*", "c", "poison", field, value]).await?;
    }
    let began = Instant::now();
    while ask::<u64>(scene, &["XLEN", &dead]).await? < before + 3 {
        ensure!(began.elapsed() < DEAD, "frames that are none are not with the dead letters");
        sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

fn shards() -> Shards {
    Shards::new("paceline".to_owned(), crate::clients::cameras::SHARDS)
}
