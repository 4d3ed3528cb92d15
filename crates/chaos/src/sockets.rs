//! What an idle WebSocket costs the server: thousands are opened, bare, so that only the server
//! holds anything, and it is weighed before and after.

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, ensure};
use futures_util::{StreamExt as _, stream};
use rustix::process::{Resource, Rlimit};
use serde::Serialize;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{sleep, timeout},
};

use crate::{bar::Bar, clients::PATIENCE, parts::Parts, server::Server};

const UPGRADE: &[u8] = b"GET /api/v1/segmented HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\n\
    upgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n";
/// A ping with nothing in it, masked with zeros, and its answer.
const PING: [u8; 6] = [0x89, 0x80, 0, 0, 0, 0];
const PONG: [u8; 2] = [0x8a, 0];
/// Sockets that are opened at a time.
const AT_A_TIME: usize = 64;
/// What comes once, with the first sockets, is no socket's own.
const FIRST: usize = 100;
/// Most that one may cost.
const BOUND_KIB: f64 = 20.0;

#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) parts: Parts,
    pub(crate) n: usize,
}

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) n: usize,
    pub(crate) rss_kib_before: u64,
    pub(crate) rss_kib: u64,
    pub(crate) kib_each: f64,
    /// All of them answered a ping at the end.
    pub(crate) n_alive: usize,
}

pub(crate) async fn run(plan: Plan, bar: &mut Bar) -> anyhow::Result<Report> {
    // Descriptors for both ends; the server inherits the limit.
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let all = Rlimit { current: limit.maximum, ..limit };
    rustix::process::setrlimit(Resource::Nofile, all)?;
    let most = plan.n + FIRST + 100;
    let settings = [
        format!("server.max_connections={most}"),
        format!("server.max_connections_per_address={most}"),
        format!("speech.max_streams={most}"),
        "speech.idle_timeout=1h".to_owned(),
        "speech.ping_interval=1h".to_owned(),
    ];
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let server = Arc::new(Server::start(&plan.parts, &settings).await?);
    let _first = open(&server, FIRST, bar).await?;
    let before = calm(&server).await?;
    let mut sockets = open(&server, plan.n, bar).await?;
    let kib = calm(&server).await?;
    let mut n_alive = 0;
    for socket in &mut sockets {
        n_alive += usize::from(is_alive(socket).await);
    }
    #[expect(clippy::cast_precision_loss, reason = "gigabytes in KiB")]
    let each = kib.saturating_sub(before) as f64 / plan.n as f64;
    Ok(Report { n: plan.n, rss_kib_before: before, rss_kib: kib, kib_each: each, n_alive })
}

/// Opens so many, some at a time.
async fn open(server: &Server, n: usize, bar: &mut Bar) -> anyhow::Result<Vec<TcpStream>> {
    let mut sockets = Vec::with_capacity(n);
    let mut opening = stream::iter(0..n).map(|_| upgrade(server)).buffer_unordered(AT_A_TIME);
    while let Some(socket) = opening.next().await {
        sockets.push(socket?);
        bar.show(format_args!("{:>6} of {n} sockets are open", sockets.len()));
    }
    Ok(sockets)
}

async fn upgrade(server: &Server) -> anyhow::Result<TcpStream> {
    let mut socket = TcpStream::connect(server.http).await?;
    socket.write_all(UPGRADE).await?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let byte = timeout(PATIENCE, socket.read_u8()).await.context("no answer")??;
        head.push(byte);
    }
    ensure!(head.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&head));
    Ok(socket)
}

async fn is_alive(socket: &mut TcpStream) -> bool {
    let mut pong = [0; 2];
    let asked = async {
        socket.write_all(&PING).await?;
        socket.read_exact(&mut pong).await
    };
    matches!(timeout(PATIENCE, asked).await, Ok(Ok(_))) && pong == PONG
}

/// The server's memory in KiB once it does not change any more.
async fn calm(server: &Server) -> anyhow::Result<u64> {
    let (mut last, _) = server.weight()?;
    loop {
        sleep(Duration::from_secs(1)).await;
        let (now, _) = server.weight()?;
        if now.abs_diff(last) < 64 {
            return Ok(now);
        }
        last = now;
    }
}

impl Report {
    pub(crate) fn holds(&self) -> bool {
        self.kib_each <= BOUND_KIB && self.n_alive == self.n
    }

    pub(crate) fn table(&self) -> String {
        format!(
            "{} idle WebSockets: {:.1} KiB each, {BOUND_KIB} allowed ({} KiB before, {} KiB with them); {} answered a ping\n",
            self.n, self.kib_each, self.rss_kib_before, self.rss_kib, self.n_alive
        )
    }
}
