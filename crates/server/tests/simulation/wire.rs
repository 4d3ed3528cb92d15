//! HTTP/1.1 over a connection that is none: written in pieces, read in pieces, as the seed says.

use std::{io, time::Duration};

use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, ReadHalf, WriteHalf},
    time::sleep,
};

/// A request for inference.
pub(crate) fn post(path: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nHost: simulated\r\nContent-Length: {length}\r\n\r\n{body}")
        .into_bytes()
}

/// Writes in pieces, some of which come a little later.
pub(crate) async fn write(
    to: &mut WriteHalf<DuplexStream>,
    mut bytes: &[u8],
    random: &mut ChaCha8Rng,
) -> io::Result<()> {
    while !bytes.is_empty() {
        let length = match random.random_range(0..4) {
            0 => random.random_range(1..=bytes.len()),
            _ => bytes.len(),
        };
        to.write_all(&bytes[..length]).await?;
        bytes = &bytes[length..];
        pause(random, 5).await;
    }
    Ok(())
}

/// Waits a while, or not at all.
pub(crate) async fn pause(random: &mut ChaCha8Rng, most_ms: u64) {
    if random.random_bool(0.3) {
        sleep(Duration::from_millis(random.random_range(0..=most_ms))).await;
    }
}

/// What comes back, one answer after the other.
pub(crate) struct Answers {
    from: ReadHalf<DuplexStream>,
    read: Vec<u8>,
    /// How much is read at a time, and how long it then rests.
    piece: usize,
    rest: Duration,
}

impl Answers {
    pub(crate) fn new(from: ReadHalf<DuplexStream>, random: &mut ChaCha8Rng) -> Self {
        let is_slow = random.random_bool(0.1);
        let (piece, rest) = if is_slow { (random.random_range(1..64), 3) } else { (4096, 0) };
        Self { from, read: Vec::new(), piece, rest: Duration::from_millis(rest) }
    }

    pub(crate) fn is_slow(&self) -> bool {
        !self.rest.is_zero()
    }

    /// The next answer; `None` once the server has closed between two.
    pub(crate) async fn next(&mut self) -> io::Result<Option<(u16, Value)>> {
        loop {
            if let Some((status, head, length)) = head(&self.read)
                && head + length <= self.read.len()
            {
                let body = serde_json::from_slice(&self.read[head..head + length])?;
                self.read.drain(..head + length);
                return Ok(Some((status, body)));
            }
            if self.more().await? == 0 {
                return if self.read.is_empty() {
                    Ok(None)
                } else {
                    Err(io::Error::other("half an answer"))
                };
            }
        }
    }

    /// Reads to the end; how many bytes there still were.
    pub(crate) async fn rest(mut self) -> io::Result<usize> {
        while self.more().await? != 0 {}
        Ok(self.read.len())
    }

    async fn more(&mut self) -> io::Result<usize> {
        if !self.rest.is_zero() {
            sleep(self.rest).await;
        }
        let mut piece = vec![0; self.piece];
        let n_read = self.from.read(&mut piece).await?;
        self.read.extend(&piece[..n_read]);
        Ok(n_read)
    }
}

fn head(read: &[u8]) -> Option<(u16, usize, usize)> {
    let end = read.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&read[..end]).to_ascii_lowercase();
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let length =
        lines.find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok())?;
    Some((status, end + 4, length))
}
