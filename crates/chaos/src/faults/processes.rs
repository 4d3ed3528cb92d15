//! What can happen to the server's process, and to the machine it runs on.

use std::{
    fs,
    net::SocketAddr,
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use futures_util::future::join_all;
use rustix::process::{Pid, Resource, Rlimit, Signal};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use super::Scene;
use crate::{
    clients::{
        PATIENCE, http,
        speech::{self, Open},
    },
    clock::Clock,
    ledger::Outcome,
    memory::Group,
    server::Surroundings,
};

/// Longest that stopping may take; `drain_timeout` in the server's configuration.
const DRAIN: Duration = Duration::from_secs(20);
/// How long whoever does not finish a head may have: `header_timeout`, and what a busy machine adds.
const DAWDLES: std::ops::Range<Duration> = Duration::from_millis(1900)..Duration::from_secs(8);
/// Seconds.
const DAY: i64 = 24 * 60 * 60;
/// Bytes of a row of numbers that just fits into a body, as the server's configuration has it.
const LARGEST: usize = (1 << 20) - 4096;
/// Longest that one of them sends; less than `stall_timeout` in the server's configuration.
const SENDS: Duration = Duration::from_secs(1);
/// What the server may take beyond what it has, however few cores there are. The bodies that
/// `max_body_memory` lets in take up to twenty times that as JSON, 160 MiB. What it does for the
/// other clients is taken anew all the time, and counts from then on; so do, in groups of the second
/// version, bytes that wait in sockets.
const SPARE: u64 = 256 << 20;
/// And for each core. So many bodies are worked on at the same moment, of which two cores never have
/// eight, and each core has threads of its own, for which the allocator keeps what they have freed
/// for a while. On sixteen the first alone was too little once in fifteen times.
const SPARE_OF_CORE: u64 = 16 << 20;
/// Longest that workers may outlive their server.
const ORPHANS: Duration = Duration::from_secs(5);

pub(super) async fn starved(scene: &Scene) -> anyhow::Result<()> {
    let workers = well(scene)?;
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
    let ready = http::get(scene.server.http, "/v2/health/ready").await;
    over.store(true, Ordering::Relaxed);
    for done in join_all(loops).await {
        done?;
    }
    let ready = ready?;
    ensure!(ready == 200, "a server that has to share its cores says {ready}");
    let left = well(scene)?;
    let are_left = workers.iter().all(|worker| left.contains(worker));
    ensure!(are_left, "workers were killed that were only slow: of {workers:?} there are {left:?}");
    Ok(())
}

/// Workers that nobody has stopped or killed.
fn well(scene: &Scene) -> anyhow::Result<Vec<Pid>> {
    let is_well = |worker: &Pid| {
        let stat = format!("/proc/{}/stat", worker.as_raw_nonzero());
        let stat = fs::read_to_string(stat).unwrap_or_default();
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        !matches!(state, None | Some('T' | 'Z'))
    };
    Ok(scene.server.workers()?.into_iter().filter(is_well).collect())
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

/// Ends the server as an operator does, and starts it in other surroundings.
async fn start_anew(scene: &Scene, around: &Surroundings) -> anyhow::Result<()> {
    scene.server.process.signal(Signal::TERM)?;
    let status = scene.server.process.ended().await?;
    ensure!(status.success(), "after SIGTERM the server ended with {status}");
    scene.server.start_in(around).await
}

/// While a server is started anew, much is excused; this is not.
async fn serves(scene: &Scene) -> anyhow::Result<()> {
    let at = scene.server.http;
    let asked = (0..16_i64).map(|n| async move { http::plain(at, "slow", &[n, -n]).await });
    for outcome in join_all(asked).await {
        let outcome = outcome?;
        ensure!(outcome == Outcome::Right, "a request got {outcome:?}");
    }
    let stream = speech::simple(at, 7001).await;
    ensure!(stream == Outcome::Right, "a stream got {stream:?}");
    Ok(())
}

pub(super) async fn logs_full(scene: &Scene) -> anyhow::Result<()> {
    let full = Surroundings { log: Some("/dev/full".into()), ..Surroundings::default() };
    start_anew(scene, &full).await?;
    // What is wrong with these is logged, or tried to.
    super::clients::bad_requests(scene).await?;
    super::models::panics(scene).await?;
    serves(scene).await?;
    start_anew(scene, &Surroundings::default()).await
}

pub(super) async fn clock_jump(scene: &Scene) -> anyhow::Result<()> {
    let clock = Clock::of(&scene.server);
    start_anew(scene, &clock.surroundings()?).await?;
    // One whose time is running while the clock jumps.
    let dawdler = dawdle(scene.server.http);
    let jumps = async {
        for seconds in [3600_i32, -3600] {
            sleep(Duration::from_millis(100)).await;
            clock.jump(seconds)?;
            is_off_by(scene, seconds.into()).await?;
            super::models::deadlines(scene).await?;
            serves(scene).await?;
        }
        anyhow::Ok(())
    };
    let (took, jumped) = tokio::join!(dawdler, jumps);
    jumped?;
    let took = took?;
    ensure!(DAWDLES.contains(&took), "with a clock that jumps, a dawdler had {took:?}");
    start_anew(scene, &Surroundings::default()).await
}

/// Sends half a head, and says how long the server waits for the rest.
async fn dawdle(at: SocketAddr) -> anyhow::Result<Duration> {
    let mut stream = TcpStream::connect(at).await?;
    let began = Instant::now();
    stream.write_all(b"GET /v2/health/live HTTP/1.1\r\nHost: local").await?;
    let mut said = Vec::new();
    timeout(PATIENCE, stream.read_to_end(&mut said)).await.context("it waits on and on")??;
    Ok(began.elapsed())
}

/// Waits until the server's clock is so far from this one's, by when it says that it heard a file.
async fn is_off_by(scene: &Scene, seconds: i64) -> anyhow::Result<()> {
    let began = Instant::now();
    let path = "/v1/listen?encoding=linear16&sample_rate=16000";
    loop {
        let body = Bytes::from_static(speech::voice(8000));
        let (status, heard) = http::send(scene.server.http, path, None, "POST", body).await?;
        let heard: Value = serde_json::from_slice(&heard)?;
        let said = heard["metadata"]["created"].as_str().and_then(time_of_day);
        let said = said.with_context(|| format!("a file has no time: {status} {heard}"))?;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs();
        // A clock that is off may show another day.
        if (said - i64::try_from(now)? - seconds + 60).rem_euclid(DAY) < 120 {
            return Ok(());
        }
        ensure!(began.elapsed() < PATIENCE, "the clock is not {seconds} seconds off: {heard}");
        sleep(Duration::from_millis(10)).await;
    }
}

/// The seconds since midnight of a time such as `2026-11-17T00:36:42.419Z`.
fn time_of_day(time: &str) -> Option<i64> {
    let mut parts = time.get(11..19)?.split(':').map(|part| part.parse::<i64>().ok());
    Some(parts.next()?? * 3600 + parts.next()?? * 60 + parts.next()??)
}

pub(super) async fn memory_short(scene: &Scene) -> anyhow::Result<()> {
    let at = scene.server.http;
    let group = Group::new(&at.port().to_string())?;
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let spare = SPARE + SPARE_OF_CORE * u64::try_from(cores)?;
    group.hold(scene.server.process.pid()?, spare)?;
    // So many at once that there is no memory for their bytes alone, a quarter more.
    let crowd = usize::try_from(spare)? / LARGEST * 5 / 4;
    let numbers = vec!["1234567"; LARGEST / 8].join(",");
    let request = format!(
        "POST /v1/models/echo/infer HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Length: {}\r\n\r\n{{\"INPUT\":[{numbers}]}}",
        numbers.len() + r#"{"INPUT":[]}"#.len()
    );
    // Nobody sends the end before all have sent the rest, so that all of it is there at once.
    let (rest, end) = request.as_bytes().split_at(request.len() - 1);
    let sent = (0..crowd).map(|_| async move {
        let mut stream = TcpStream::connect(at).await?;
        // Who is refused need not send all of it.
        drop(timeout(SENDS, stream.write_all(rest)).await);
        anyhow::Ok(stream)
    });
    let answers = join_all(sent).await.into_iter().map(|stream| async move {
        let (mut stream, mut answer) = (stream?, Vec::new());
        stream.write_all(end).await.ok();
        timeout(PATIENCE, stream.read_to_end(&mut answer)).await?.ok();
        anyhow::Ok(String::from_utf8(answer)?)
    });
    // Who is refused before all is sent may find the connection closed, and nothing else.
    let (mut n_right, mut n_refused) = (0, 0);
    for answer in join_all(answers).await {
        let answer = answer?;
        if answer.starts_with("HTTP/1.1 200") && answer.contains(&numbers) {
            n_right += 1;
        } else if answer.starts_with("HTTP/1.1 503") {
            n_refused += 1;
        } else if !answer.is_empty() {
            let said: String = answer.chars().take(200).collect();
            anyhow::bail!("one of a crowd got {said:?}");
        }
    }
    ensure!(group.n_killed()? == 0, "the server was killed");
    ensure!(n_right != 0 && n_refused != 0, "{n_right} were answered and {n_refused} refused");
    Ok(())
}

/// Fails where a worker outlives its server.
pub(super) async fn orphans(workers: &[Pid]) -> anyhow::Result<()> {
    let began = Instant::now();
    for &worker in workers {
        while rustix::process::test_kill_process(worker).is_ok() {
            ensure!(began.elapsed() < ORPHANS, "worker {worker:?} outlived its server");
            sleep(Duration::from_millis(10)).await;
        }
    }
    Ok(())
}
