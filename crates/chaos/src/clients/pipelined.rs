//! Many requests on one connection, sent before the answers to earlier ones are there: the load that
//! reaches millions. Every request has numbers of its own, and its answer is known to the byte.

use std::{fmt::Write as _, io};

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{Instant, timeout},
};

use super::{PATIENCE, Stage, http};
use crate::ledger::Outcome;

const DOOR: &str = "pipelined";
/// Requests that are sent at once.
const WINDOW: usize = 32;

pub(crate) async fn ask_on_and_on(stage: Stage, seed: u64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut connection = None;
    while !stage.is_over() {
        let began = Instant::now();
        let open = match connection.take() {
            Some(open) => Ok(open),
            None => Connection::open(&stage).await,
        };
        let Ok(mut open) = open else {
            stage.settle(DOOR, async { Outcome::Cut("no connection".to_owned()) }).await;
            continue;
        };
        let asked: Vec<[i64; 2]> =
            (0..WINDOW).map(|_| [random.random(), random.random()]).collect();
        let answered = timeout(PATIENCE, open.ask(&asked)).await;
        let end = match &answered {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(Outcome::Cut(error.to_string())),
            Err(_) => Some(Outcome::Silent),
        };
        let others = std::mem::take(&mut open.others);
        let n_open = WINDOW - open.n_right - others.len();
        let open_ones = end.iter().flat_map(|end| std::iter::repeat_n(end, n_open));
        let now = Instant::now();
        stage.ledger.right(DOOR, open.n_right);
        for outcome in others.iter().chain(open_ones) {
            stage.ledger.settle(DOOR, began, now, outcome);
        }
        if others.is_empty() && end.is_none() {
            open.n_right = 0;
            connection = Some(open);
            stage.rest().await;
        } else {
            stage.back_off().await;
        }
    }
}

struct Connection {
    stream: TcpStream,
    sent: String,
    read: Vec<u8>,
    /// Of what was asked last.
    n_right: usize,
    /// What else there was.
    others: Vec<Outcome>,
}

impl Connection {
    async fn open(stage: &Stage) -> io::Result<Self> {
        let stream = TcpStream::connect(stage.server.http).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, sent: String::new(), read: Vec::new(), n_right: 0, others: Vec::new() })
    }

    async fn ask(&mut self, asked: &[[i64; 2]]) -> io::Result<()> {
        self.sent.clear();
        for [a, b] in asked {
            let body = format!("{{\"INPUT\":[{a},{b}]}}");
            // Writing to a string does not fail.
            write!(
                self.sent,
                "POST /v1/models/echo/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            )
            .ok();
        }
        self.stream.write_all(self.sent.as_bytes()).await?;
        for &[a, b] in asked {
            let (status, body) = self.answer().await?;
            if status == 200 && body == format!("{{\"OUTPUT\":[{a},{b}]}}").as_bytes() {
                self.n_right += 1;
            } else {
                self.others.push(http::judge(status, &body, |answer| &answer["OUTPUT"], &[a, b]));
            }
        }
        Ok(())
    }

    /// The next answer: its status and its body.
    async fn answer(&mut self) -> io::Result<(u16, Vec<u8>)> {
        loop {
            if let Some((status, head, length)) = head(&self.read)?
                && head + length <= self.read.len()
            {
                let body = self.read[head..head + length].to_vec();
                self.read.drain(..head + length);
                return Ok((status, body));
            }
            if self.stream.read_buf(&mut self.read).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

/// An answer's status, where its body begins and how long that is, once its head is there.
fn head(read: &[u8]) -> io::Result<Option<(u16, usize, usize)>> {
    let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(None) };
    let head = String::from_utf8_lossy(&read[..end]).to_ascii_lowercase();
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok());
    let length = lines.find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
    match (status, length) {
        (Some(status), Some(length)) => Ok(Some((status, end + 4, length))),
        _ => Err(io::Error::other(format!("this is no answer: {head}"))),
    }
}
