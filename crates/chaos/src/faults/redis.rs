//! What can happen to Redis. Frames wait meanwhile; none that was confirmed may be lost.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use paceline_ingest::Shards;
use rustix::process::Signal;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::Scene;
use crate::{
    clients::{
        PATIENCE,
        cameras::{connect, streams},
        http, speech,
    },
    ledger::Outcome,
};

/// Longest that dead letters may take to show.
const DEAD: Duration = Duration::from_secs(15);
/// Longest that a server may take to say that Redis is away.
const TOLD: Duration = Duration::from_secs(5);
/// Longest that lost frames may take to be counted.
const COUNTED: Duration = Duration::from_secs(15);
/// How often a server may ask for groups that are gone before it has made them again: a few times
/// for each of its streams.
const REFUSALS: u64 = 4 * 256;

pub(super) async fn ask<T: redis::FromRedisValue>(
    scene: &Scene,
    words: &[&str],
) -> anyhow::Result<T> {
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
    let n_resets = resets(scene).await?;
    let n_destroyed: i64 = ask(scene, &["XGROUP", "DESTROY", &frames, "paceline"]).await?;
    ensure!(n_destroyed == 1, "there was no group");
    let began = Instant::now();
    while resets(scene).await? == n_resets {
        ensure!(began.elapsed() < TOLD, "a group was destroyed, and the server does not say so");
        sleep(Duration::from_millis(10)).await;
    }
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

pub(super) async fn late(scene: &Scene) -> anyhow::Result<()> {
    let pair = scene.server.redis()?;
    scene.server.process.signal(Signal::TERM)?;
    scene.server.process.ended().await?;
    pair.kill().await?;
    let without = without_redis(scene).await;
    pair.start_again().await?;
    without
}

/// What a server must be like that has never seen Redis.
async fn without_redis(scene: &Scene) -> anyhow::Result<()> {
    let at = scene.server.http;
    scene.server.start_server().await?;
    for n in 1..=8 {
        let asked = [
            http::ask(at, http::Door::Plain, &[n, -n]).await,
            speech::simple(at, usize::try_from(n)? * 7001).await,
        ];
        ensure!(asked.iter().all(|outcome| *outcome == Outcome::Right), "it says {asked:?}");
    }
    let began = Instant::now();
    loop {
        let health = cameras(scene).await?;
        if health["source_up"] == false && !health["problem"].is_null() {
            return Ok(());
        }
        ensure!(began.elapsed() < TOLD, "there is no Redis, and health is {health}");
        sleep(Duration::from_millis(10)).await;
    }
}

/// What the server says of its cameras' health.
pub(super) async fn cameras(scene: &Scene) -> anyhow::Result<Value> {
    let (status, mut about) = http::read(scene.server.http, "/v1/cameras").await?;
    ensure!(status == 200, "cameras: {status} {about}");
    Ok(about["health"].take())
}

pub(super) async fn flush(scene: &Scene) -> anyhow::Result<()> {
    let n_resets = resets(scene).await?;
    let n_refused = refusals(scene).await?;
    ask::<()>(scene, &["FLUSHALL"]).await?;
    scene.film.lose_all();
    let n_results = scene.film.n_results();
    let began = Instant::now();
    // Of the frames that come now, some must have results before the leases would have run out.
    while scene.film.n_results() < n_results + 100 {
        ensure!(began.elapsed() < PATIENCE, "no results after everything was deleted");
        sleep(Duration::from_millis(10)).await;
    }
    let n_reset = resets(scene).await? - n_resets;
    ensure!(n_reset != 0, "everything was deleted, and the server does not say so");
    let n_refused = refusals(scene).await? - n_refused;
    ensure!(n_refused <= REFUSALS, "Redis was asked {n_refused} times for groups that are gone");
    Ok(())
}

/// How often the server has missed a group that was there.
async fn resets(scene: &Scene) -> anyhow::Result<u64> {
    cameras(scene).await?["resets"].as_u64().context("health has no resets")
}

/// How often somebody has asked for a group that there is not.
async fn refusals(scene: &Scene) -> anyhow::Result<u64> {
    let said: String = ask(scene, &["INFO", "errorstats"]).await?;
    let count = said.lines().find_map(|line| line.strip_prefix("errorstat_NOGROUP:count="));
    Ok(count.map_or(Ok(0), |count| count.trim().parse())?)
}

pub(super) async fn trim(scene: &Scene) -> anyhow::Result<()> {
    let shards = shards();
    let before = lost(scene, &shards).await?;
    let mut redis = connect(scene.server.redis()?.at, PATIENCE).await?;
    let streams = streams(&shards);
    let mut script = redis::cmd("EVAL");
    script.arg(include_str!("trim.lua")).arg(streams.len()).arg(streams);
    let (began, mut n_trimmed) = (Instant::now(), 0);
    while n_trimmed < 20 {
        let numbers: Vec<u64> = script.query_async(&mut redis).await?;
        scene.film.trimmed(&numbers);
        n_trimmed += u64::try_from(numbers.len())?;
        ensure!(began.elapsed() < PATIENCE, "only {n_trimmed} frames were there to be trimmed");
        sleep(Duration::from_millis(3)).await;
    }
    let began = Instant::now();
    loop {
        let n_lost = lost(scene, &shards).await? - before;
        if n_lost == n_trimmed {
            return Ok(());
        }
        ensure!(n_lost < n_trimmed, "{n_trimmed} were trimmed away, and {n_lost} count as lost");
        ensure!(began.elapsed() < COUNTED, "of {n_trimmed} trimmed, {n_lost} count as lost");
        sleep(Duration::from_millis(20)).await;
    }
}

/// How many frames Redis says were lost.
async fn lost(scene: &Scene, shards: &Shards) -> anyhow::Result<u64> {
    let mut redis = connect(scene.server.redis()?.at, PATIENCE).await?;
    let mut commands = redis::pipe();
    for shard in shards.all() {
        commands.cmd("HGET").arg(shards.ledger(shard)).arg("lost");
    }
    let counts: Vec<Option<u64>> = commands.query_async(&mut redis).await?;
    Ok(counts.into_iter().flatten().sum())
}

fn shards() -> Shards {
    Shards::new("paceline".to_owned(), crate::clients::cameras::SHARDS)
}
