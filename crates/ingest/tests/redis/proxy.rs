//! A wire between the door and Redis that can be cut in the middle of a reply, or swallow everything.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicI64, Ordering},
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

pub(crate) struct Proxy {
    pub(crate) port: u16,
    faults: Arc<Faults>,
    accepting: JoinHandle<()>,
}

struct Faults {
    /// Bytes of replies that still pass before the connection that carries them is reset.
    left: AtomicI64,
    swallows: AtomicBool,
    /// The next commit reaches Redis, and the connection is reset before its reply.
    loses_commit: AtomicBool,
}

impl Proxy {
    pub(crate) async fn start(to: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let faults = Arc::new(Faults {
            left: AtomicI64::new(i64::MAX),
            swallows: AtomicBool::new(false),
            loses_commit: AtomicBool::new(false),
        });
        let shared = Arc::clone(&faults);
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(("127.0.0.1", to)).await;
                if let Ok(server) = server {
                    tokio::spawn(carry(client, server, Arc::clone(&shared)));
                }
            }
        });
        Self { port, faults, accepting }
    }

    /// Resets the connection that carries the reply in which this byte is.
    pub(crate) fn cut_after(&self, bytes: i64) {
        self.faults.left.store(bytes, Ordering::SeqCst);
    }

    /// Lets the next commit through and loses the reply to it.
    pub(crate) fn lose_next_commit(&self) {
        self.faults.loses_commit.store(true, Ordering::SeqCst);
    }

    /// Whether a commit whose reply is to be lost has yet to come.
    pub(crate) fn waits_for_commit(&self) -> bool {
        self.faults.loses_commit.load(Ordering::SeqCst)
    }

    pub(crate) fn never_cut(&self) {
        self.faults.left.store(i64::MAX, Ordering::SeqCst);
    }

    /// Whether what is sent either way is lost, with no connection closed.
    pub(crate) fn swallow(&self, swallows: bool) {
        self.faults.swallows.store(swallows, Ordering::SeqCst);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn carry(client: TcpStream, server: TcpStream, faults: Arc<Faults>) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let mut asked = vec![0; 65_536];
    let mut replied = vec![0; 65_536];
    // What was swallowed is gone, so the connection is good for nothing afterwards.
    let mut is_dead = false;
    let mut loses_reply = false;
    loop {
        let (n, is_reply) = tokio::select! {
            n = from_client.read(&mut asked) => (n.unwrap_or(0), false),
            n = from_server.read(&mut replied) => (n.unwrap_or(0), true),
        };
        if n == 0 {
            return;
        }
        is_dead |= faults.swallows.load(Ordering::SeqCst);
        if is_dead {
            continue;
        }
        if !is_reply {
            if to_server.write_all(&asked[..n]).await.is_err() {
                return;
            }
            // Only commits name result streams.
            let is_commit = asked[..n].windows(9).any(|part| part == b"}:results");
            loses_reply |= is_commit && faults.loses_commit.swap(false, Ordering::SeqCst);
            continue;
        }
        if loses_reply {
            return;
        }
        let length = i64::try_from(n).unwrap();
        let left = faults.left.fetch_sub(length, Ordering::SeqCst);
        if left < length {
            faults.left.store(i64::MAX, Ordering::SeqCst);
            let part = usize::try_from(left).unwrap_or(0);
            drop(to_client.write_all(&replied[..part]).await);
            return;
        }
        if to_client.write_all(&replied[..n]).await.is_err() {
            return;
        }
    }
}
