//! What can happen between the server and others: packets that never arrive, or late.

use std::{collections::BTreeSet, net::SocketAddr, time::Duration};

use anyhow::{Context as _, ensure};
use futures_util::future::join_all;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{Instant, sleep, timeout},
};

use super::{
    Scene,
    clients::{frame, http2, live, request},
    models::is_at_work,
    redis::cameras,
};
use crate::{
    clients::{
        PATIENCE, grpc, http,
        speech::{self, Open},
    },
    connections,
    ledger::Outcome,
    packets::Lossy,
    parts::Part,
    relay::Relay,
};

/// Longest that a server may take to say that it does not hear Redis any more.
const NOTICED: Duration = Duration::from_secs(8);
/// How often each kind of client asks while everything is late.
const ASKED: i64 = 4;
/// Results of cameras that must come while everything is late.
const SHOWN: u64 = 12;
/// A voice, in samples.
const VOICE: usize = 80_000;
/// Streams whose clients fall silent: more than all others have.
const SILENT: usize = 24;
/// What a silent client waits for, in milliseconds.
const WAITS: i64 = 2000;
/// Longest that places may be kept for the silent, by `idle_timeout` and the pings in the server's
/// configuration, and what a busy machine adds.
const KEPT: Duration = Duration::from_secs(20);

pub(super) async fn loss(scene: &Scene) -> anyhow::Result<()> {
    let (http, grpc) = (scene.server.http.port(), scene.server.grpc.port());
    let rules = ["sport", "dport"]
        .map(|end| format!("tcp {end} {{ {http}, {grpc} }} numgen random mod 100 < 10"));
    let lossy = Lossy::start(&rules).await?;
    sleep(Duration::from_secs(2)).await;
    lossy.end()
}

pub(super) async fn redis_cut(scene: &Scene) -> anyhow::Result<()> {
    let lossy = Lossy::start(&[format!("tcp sport {}", scene.server.redis()?.at.port())]).await?;
    let began = Instant::now();
    // Longer than `timeout` in the server's configuration, and until it has noticed.
    sleep(Duration::from_secs(3)).await;
    loop {
        let health = cameras(scene).await?;
        if health["source_up"] == false || !health["problem"].is_null() {
            break;
        }
        ensure!(began.elapsed() < NOTICED, "Redis is cut off, and health is {health}");
        sleep(Duration::from_millis(20)).await;
    }
    let status = http::get(scene.server.http, "/v2/health/ready").await?;
    lossy.end()?;
    ensure!(status == 200, "without its cameras the server says {status}");
    Ok(())
}

pub(super) async fn slow(scene: &Scene) -> anyhow::Result<()> {
    let doors = [Relay::start(scene.server.http).await?, Relay::start(scene.server.grpc).await?];
    let redis = scene.server.redis.as_ref().map(|pair| &pair.relay);
    let late: Vec<_> = doors.iter().chain(redis).map(|relay| &relay.lateness).collect();
    let before: Vec<u64> = late.iter().map(|lateness| lateness.n_late()).collect();
    for lateness in &late {
        lateness.begin();
    }
    let asked = tokio::try_join!(ask_late(scene, &doors), shown(scene));
    for lateness in &late {
        lateness.end();
    }
    asked?;
    let is_late = late.iter().zip(before).all(|(lateness, before)| before < lateness.n_late());
    ensure!(is_late, "nothing was late");
    Ok(())
}

/// Clients of every door, from whom and to whom everything is late.
async fn ask_late(scene: &Scene, [near, far]: &[Relay; 2]) -> anyhow::Result<()> {
    let at = near.at;
    let mut doors = vec![http::Door::Plain, http::Door::Tensors, http::Door::Binary];
    if scene.parts.has(Part::Python) {
        doors.push(http::Door::Worker);
    }
    let plain = join_all((0..ASKED).flat_map(|n| {
        doors.iter().map(move |&door| async move { http::ask(at, door, &[n, -n, 7 * n]).await })
    }));
    let streams = join_all((1..=4).map(|n| speech::simple(at, n * 7001)));
    let calls = async {
        let mut client = grpc::client(far.at)?;
        let mut outcomes = Vec::new();
        for n in 0..ASKED {
            outcomes.push(grpc::ask(&mut client, &[n, -n]).await);
        }
        anyhow::Ok(outcomes)
    };
    let voices = async {
        let (late, known) = tokio::try_join!(
            speech::utterances(at, VOICE),
            speech::utterances(scene.server.http, VOICE)
        )?;
        ensure!(late == known, "a voice that came late said {late:?}, and says {known:?}");
        Ok(())
    };
    let (plain, streams, calls, voices) = tokio::join!(plain, streams, calls, voices);
    voices?;
    let outcomes = [plain, streams, calls?].concat();
    let wrong = outcomes.iter().find(|outcome| **outcome != Outcome::Right);
    ensure!(wrong.is_none(), "one for whom all is late got {wrong:?}");
    Ok(())
}

/// Waits until cameras have had results, through a Redis that is late.
async fn shown(scene: &Scene) -> anyhow::Result<()> {
    let (n_results, began) = (scene.film.n_results(), Instant::now());
    while scene.parts.has(Part::Redis) && scene.film.n_results() < n_results + SHOWN {
        ensure!(began.elapsed() < PATIENCE, "Redis is late, and cameras have no results");
        sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

pub(super) async fn silent(scene: &Scene) -> anyhow::Result<()> {
    let at = scene.server.http;
    let mut streams = vec![Open::segmented(at, VOICE).await?];
    for n in 1..SILENT {
        streams.push(Open::simple(at, n * 701).await?);
    }
    let mut idle = vec![answered(at).await?, answered(scene.server.grpc).await?];
    let numbers = json!({ "INPUT": (0..WAITS).collect::<Vec<_>>() }).to_string();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(at).await?;
        stream.write_all(&request("/v1/models/hanging/infer", "", &numbers)).await?;
        idle.push(stream);
    }
    let began = Instant::now();
    while !is_at_work(scene, "hanging").await? {
        ensure!(began.elapsed() < PATIENCE, "the model is not asked");
        sleep(Duration::from_millis(5)).await;
    }
    // A port alone may be that of a client of somebody else as well.
    let mut pairs = BTreeSet::new();
    for stream in &streams {
        pairs.insert((stream.port()?, at.port()));
    }
    for stream in &idle {
        pairs.insert((stream.local_addr()?.port(), stream.peer_addr()?.port()));
    }
    let list: Vec<_> = pairs.iter().map(|(own, servers)| format!("{own} . {servers}")).collect();
    let list = list.join(", ");
    let rules =
        ["sport . tcp dport", "dport . tcp sport"].map(|ends| format!("tcp {ends} {{ {list} }}"));
    let ports: BTreeSet<u16> = pairs.into_iter().map(|(own, _)| own).collect();
    let lossy = Lossy::start(&rules).await?;
    let freed = freed(scene, &ports).await;
    // Until now the silent were there, and could have said so.
    drop((streams, idle));
    lossy.end()?;
    freed
}

/// An HTTP/2 connection on which something was asked and answered.
async fn answered(at: SocketAddr) -> anyhow::Result<TcpStream> {
    let (mut stream, mut sent) = (TcpStream::connect(at).await?, http2());
    frame(&mut sent, 1, 0x5, 1, &live());
    stream.write_all(&sent).await?;
    let headers = async {
        loop {
            let mut head = [0; 9];
            stream.read_exact(&mut head).await?;
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let mut payload = vec![0; usize::try_from(length)?];
            stream.read_exact(&mut payload).await?;
            if head[3] == 1 {
                return anyhow::Ok(());
            }
        }
    };
    timeout(PATIENCE, headers).await.context("no answer over HTTP/2")??;
    Ok(stream)
}

/// Waits until the server has given up all of these clients, and their places with them.
async fn freed(scene: &Scene, ports: &BTreeSet<u16>) -> anyhow::Result<()> {
    let (silent, began) = (u64::try_from(SILENT)?, Instant::now());
    let kept = || {
        let [http, grpc] =
            [scene.server.http, scene.server.grpc].map(|at| connections::clients_of(at.port()));
        let all = &http? | &grpc?;
        anyhow::Ok(&all & ports)
    };
    ensure!(kept()?.len() == ports.len(), "some were gone before they fell silent");
    let n_open = scene.server.metric("paceline_streams_open").await?;
    ensure!(silent <= n_open, "{silent} streams are open, and the server says {n_open}");
    loop {
        let kept = kept()?;
        let n_open = scene.server.metric("paceline_streams_open").await?;
        if kept.is_empty() && n_open < silent {
            return Ok(());
        }
        ensure!(
            began.elapsed() < KEPT,
            "of {} silent clients {} are kept, and {n_open} streams are open",
            ports.len(),
            kept.len()
        );
        sleep(Duration::from_millis(50)).await;
    }
}
