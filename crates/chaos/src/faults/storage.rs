//! What can happen to what Redis writes down and reads back. Frames wait meanwhile, and what Redis
//! does not take is not confirmed.

use std::{path::Path, time::Duration};

use anyhow::{Context as _, ensure};
use tokio::time::{Instant, sleep};

use super::{
    Scene,
    elsewhere::results,
    redis::{ask, cameras},
};
use crate::{
    clients::{PATIENCE, cameras, http},
    disk::Disk,
    process::free_port,
};

/// More than Redis has to write down, whatever happened before.
const DISK: u64 = 64 << 20;
/// How long Redis reads its files.
const LOADING: Duration = Duration::from_secs(3);
/// What is missing at the end of a file: about a tenth of a second of frames and results, so both are
/// among it. Where it ends, a command is cut in two.
const CUT: u64 = (32 << 10) + 7;
/// How often that is tried.
const CUTS: usize = 5;
/// Results that show that frames are worked on: more than may have been there already.
const FLOW: u64 = 400;
/// How long Redis takes no writes, at least.
const READ_ONLY: Duration = Duration::from_secs(2);
/// How often somebody may try to write meanwhile, each second: a few times for each connection.
const TRIES: u128 = 200;
const LOOK: Duration = Duration::from_millis(20);

pub(super) async fn disk_full(scene: &Scene) -> anyhow::Result<()> {
    let disk = Disk::new(DISK)?;
    let home = scene.server.redis()?.folder().to_owned();
    // A Redis that must write before it answers ends itself where it cannot.
    ask::<()>(scene, &["CONFIG", "SET", "appendfsync", "everysec"]).await?;
    write_to(scene, &disk.path()).await?;
    disk.fill()?;
    let refused = is_refused(scene, "MISCONF").await;
    disk.clear()?;
    // Redis tries again once in a while.
    let began = Instant::now();
    while ask::<String>(scene, &["PING"]).await.is_err() {
        ensure!(began.elapsed() < PATIENCE, "there is room again, and Redis does not use it");
        sleep(LOOK).await;
    }
    write_to(scene, &home).await?;
    ask::<()>(scene, &["CONFIG", "SET", "appendfsync", "always"]).await?;
    refused
}

/// From now on Redis writes everything it has, and all that comes, to files in this folder.
async fn write_to(scene: &Scene, folder: &Path) -> anyhow::Result<()> {
    let folder = folder.to_str().context("a folder whose name is no text")?;
    ask::<()>(scene, &["CONFIG", "SET", "appendonly", "no"]).await?;
    ask::<()>(scene, &["CONFIG", "SET", "dir", folder]).await?;
    ask::<()>(scene, &["CONFIG", "SET", "appendonly", "yes"]).await?;
    written(scene).await
}

/// Waits until all that Redis has is in a file of its own.
async fn written(scene: &Scene) -> anyhow::Result<()> {
    let began = Instant::now();
    loop {
        let said: String = ask(scene, &["INFO", "persistence"]).await?;
        let says = |word: &str| said.lines().any(|line| line == word);
        if says("aof_rewrite_in_progress:0") && says("aof_rewrite_scheduled:0") {
            ensure!(says("aof_last_bgrewrite_status:ok"), "Redis cannot write its files: {said}");
            return Ok(());
        }
        ensure!(began.elapsed() < PATIENCE, "Redis does not finish its files: {said}");
        sleep(LOOK).await;
    }
}

/// Waits until Redis has refused frames and the server knows why; everything else is answered.
async fn is_refused(scene: &Scene, why: &str) -> anyhow::Result<()> {
    let n_refused = scene.film.n_refused();
    let began = Instant::now();
    loop {
        let health = cameras(scene).await?;
        let is_known = health["problem"].as_str().is_some_and(|problem| problem.contains(why));
        if is_known && n_refused < scene.film.n_refused() {
            break;
        }
        ensure!(began.elapsed() < PATIENCE, "Redis should say {why}, and health is {health}");
        sleep(LOOK).await;
    }
    let status = http::get(scene.server.http, "/v2/health/ready").await?;
    ensure!(status == 200, "while Redis says {why} the server says {status}");
    Ok(())
}

pub(super) async fn loading(scene: &Scene) -> anyhow::Result<()> {
    let pair = scene.server.redis()?;
    // With nothing in its files but its keys, each of which takes as long, the time is known.
    ask::<()>(scene, &["CLIENT", "PAUSE", "10000", "WRITE"]).await?;
    ask::<String>(scene, &["BGREWRITEAOF"]).await?;
    written(scene).await?;
    let n_keys: u128 = ask(scene, &["DBSIZE"]).await?;
    pair.kill().await?;
    let each = (LOADING.as_micros() / n_keys.max(1)).to_string();
    let slowly = ["--key-load-delay", &each, "--loading-process-events-interval-bytes", "1024"];
    pair.start_with(&slowly).await?;
    let refused = is_refused(scene, "LOADING").await;
    let began = Instant::now();
    while ask::<String>(scene, &["PING"]).await.is_err() {
        ensure!(began.elapsed() < PATIENCE, "Redis reads its files on and on");
        sleep(LOOK).await;
    }
    ask::<()>(scene, &["CONFIG", "SET", "key-load-delay", "0"]).await?;
    refused
}

pub(super) async fn cut(scene: &Scene) -> anyhow::Result<()> {
    let looked = async |at| Ok(scene.film.rewind(&cameras::stored(at).await?));
    // Where a cut leaves no frame without the result that it had, it showed little.
    for _ in 0..CUTS {
        results(scene, FLOW, "before the cut").await?;
        let n_again = scene.server.redis()?.cut_and_start(CUT, looked).await?;
        if n_again != 0 {
            return Ok(());
        }
    }
    anyhow::bail!("{CUTS} times no frame was without a result that it had had")
}

pub(super) async fn read_only(scene: &Scene) -> anyhow::Result<()> {
    let nobody = free_port()?.port().to_string();
    let before = n_tries(scene).await?;
    let began = Instant::now();
    ask::<()>(scene, &["REPLICAOF", "127.0.0.1", &nobody]).await?;
    let refused = is_refused(scene, "READONLY").await;
    sleep(READ_ONLY.saturating_sub(began.elapsed())).await;
    let tries = n_tries(scene).await;
    let took = began.elapsed();
    ask::<()>(scene, &["REPLICAOF", "NO", "ONE"]).await?;
    refused?;
    let tries = tries? - before;
    let allowed = TRIES * took.as_millis() / 1000;
    ensure!(u128::from(tries) <= allowed, "{tries} writes were tried in {took:?}");
    Ok(())
}

/// How often somebody has tried to write to a Redis that takes none.
async fn n_tries(scene: &Scene) -> anyhow::Result<u64> {
    let said: String = ask(scene, &["INFO", "errorstats"]).await?;
    let count = said.lines().find_map(|line| line.strip_prefix("errorstat_READONLY:count="));
    Ok(count.map_or(Ok(0), |count| count.trim().parse())?)
}
