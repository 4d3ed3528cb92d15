//! What can happen to the server's process, and to the machine it runs on.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::ensure;
use futures_util::future::join_all;
use rustix::process::{Resource, Rlimit, Signal};
use tokio::{
    net::TcpStream,
    task::JoinSet,
    time::{Instant, sleep},
};

use super::Scene;
use crate::{
    clients::{http, speech::Open},
    ledger::Outcome,
};

/// Longest that stopping may take; `drain_timeout` in the server's configuration.
const DRAIN: Duration = Duration::from_secs(20);
/// Longest that workers may outlive their server.
const ORPHANS: Duration = Duration::from_secs(5);

pub(super) async fn starved(_: &Scene) -> anyhow::Result<()> {
    let over = Arc::new(AtomicBool::new(false));
    let loops: Vec<_> = (0..4)
        .map(|_| {
            let over = Arc::clone(&over);
            tokio::task::spawn_blocking(move || {
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        })
        .collect();
    sleep(Duration::from_secs(2)).await;
    over.store(true, Ordering::Relaxed);
    for done in join_all(loops).await {
        done?;
    }
    Ok(())
}

pub(super) async fn stop(scene: &Scene) -> anyhow::Result<()> {
    scene.server.process.signal(Signal::STOP)?;
    sleep(Duration::from_secs(1)).await;
    scene.server.process.signal(Signal::CONT)
}

pub(super) async fn few_descriptors(scene: &Scene) -> anyhow::Result<()> {
    let pid = scene.server.process.pid()?;
    let (_, n_open) = scene.server.weight()?;
    let few = Some(u64::try_from(n_open)? + 16);
    let before = rustix::process::getrlimit(Resource::Nofile);
    rustix::process::prlimit(Some(pid), Resource::Nofile, Rlimit { current: few, ..before })?;
    let mut held = Vec::new();
    for _ in 0..200 {
        held.extend(TcpStream::connect(scene.server.http).await);
    }
    sleep(Duration::from_millis(500)).await;
    drop(held);
    rustix::process::prlimit(Some(pid), Resource::Nofile, before)?;
    Ok(())
}

pub(super) async fn drain(scene: &Scene) -> anyhow::Result<()> {
    let at = scene.server.http;
    // Accepted well before the signal, and answered only after it.
    let accepted: JoinSet<_> =
        (0..16_i64).map(|n| async move { http::plain(at, "slow", &[n, -n]).await }).collect();
    // Heard before the signal, and in the middle of it when it comes.
    let mut streams = Vec::new();
    for n in 1..=4 {
        streams.push(Open::simple(at, n * 7001).await?);
        streams.push(Open::segmented(at, n * 40_000).await?);
    }
    sleep(Duration::from_millis(50)).await;
    let began = Instant::now();
    scene.server.process.signal(Signal::TERM)?;
    let answers = accepted.join_all().await;
    let heard = join_all(streams.into_iter().map(Open::end)).await;
    let status = scene.server.process.ended().await?;
    let took = began.elapsed();
    scene.server.start_server().await?;
    ensure!(took <= DRAIN, "it took {took:?} to stop, and {DRAIN:?} are allowed");
    for stream in heard {
        stream?;
    }
    for outcome in answers {
        let outcome = outcome?;
        ensure!(outcome == Outcome::Right, "what was accepted before SIGTERM got {outcome:?}");
    }
    ensure!(status.success(), "after SIGTERM the server ended with {status}");
    Ok(())
}

pub(super) async fn two_signals(scene: &Scene) -> anyhow::Result<()> {
    scene.server.process.signal(Signal::TERM)?;
    sleep(Duration::from_millis(20)).await;
    // It may be done already.
    scene.server.process.signal(Signal::TERM).ok();
    scene.server.process.ended().await?;
    scene.server.start_server().await
}

pub(super) async fn early_signal(scene: &Scene) -> anyhow::Result<()> {
    scene.server.process.signal(Signal::TERM)?;
    scene.server.process.ended().await?;
    for millis in [5, 20, 60, 150] {
        scene.server.launch_server()?;
        sleep(Duration::from_millis(millis)).await;
        let workers = scene.server.workers()?;
        scene.server.process.signal(Signal::TERM)?;
        scene.server.process.ended().await?;
        orphans(&workers).await?;
    }
    scene.server.start_server().await
}

pub(super) async fn kill(scene: &Scene) -> anyhow::Result<()> {
    let workers = scene.server.workers()?;
    scene.server.process.signal(Signal::KILL)?;
    scene.server.process.ended().await?;
    let ended = orphans(&workers).await;
    scene.server.start_server().await?;
    ended
}

/// Fails where a worker outlives its server.
async fn orphans(workers: &[rustix::process::Pid]) -> anyhow::Result<()> {
    let began = Instant::now();
    for &worker in workers {
        while rustix::process::test_kill_process(worker).is_ok() {
            ensure!(began.elapsed() < ORPHANS, "worker {worker:?} outlived its server");
            sleep(Duration::from_millis(10)).await;
        }
    }
    Ok(())
}
