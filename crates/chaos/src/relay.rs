//! An address that passes connections on to another: to whom can change, and so can how late.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use rand::RngExt as _;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{mpsc, watch},
    task::JoinSet,
    time::{Instant, sleep_until},
};

use crate::process::free_port;

/// How late a piece is, in milliseconds, where pieces are late.
const LATE: std::ops::RangeInclusive<u64> = 50..=500;
/// Largest piece.
const PIECE: usize = 16 << 10;
/// Most pieces of a connection that are on their way in one direction.
const ON_THE_WAY: usize = 256;

/// Passes connections on for as long as this is there.
#[derive(Debug)]
pub(crate) struct Relay {
    pub(crate) at: SocketAddr,
    pub(crate) lateness: Arc<Lateness>,
    /// To whom; a change cuts connections that are open.
    target: watch::Sender<Option<SocketAddr>>,
    _forwarder: JoinSet<()>,
}

/// Whether what passes is late, each piece by another time.
#[derive(Debug, Default)]
pub(crate) struct Lateness {
    is_on: AtomicBool,
    n_late: AtomicU64,
}

impl Lateness {
    /// From now on pieces are late.
    pub(crate) fn begin(&self) {
        self.is_on.store(true, Ordering::Relaxed);
    }

    /// From now on none is.
    pub(crate) fn end(&self) {
        self.is_on.store(false, Ordering::Relaxed);
    }

    /// How many pieces were late.
    pub(crate) fn n_late(&self) -> u64 {
        self.n_late.load(Ordering::Relaxed)
    }

    /// How late the next piece is.
    fn draw(&self) -> Duration {
        if !self.is_on.load(Ordering::Relaxed) {
            return Duration::ZERO;
        }
        self.n_late.fetch_add(1, Ordering::Relaxed);
        Duration::from_millis(rand::rng().random_range(LATE))
    }
}

impl Relay {
    pub(crate) async fn start(to: SocketAddr) -> anyhow::Result<Self> {
        let at = free_port()?;
        let listener = TcpListener::bind(at).await?;
        let (target, targets) = watch::channel(Some(to));
        let lateness = Arc::<Lateness>::default();
        let forwarder = JoinSet::from_iter([forward(listener, targets, Arc::clone(&lateness))]);
        Ok(Self { at, lateness, target, _forwarder: forwarder })
    }

    /// From now on connections go there, or to nobody.
    pub(crate) fn point(&self, to: Option<SocketAddr>) {
        self.target.send_replace(to);
    }
}

/// Passes connections on to whoever it is that they go to, for as long as that is so.
async fn forward(
    listener: TcpListener,
    targets: watch::Receiver<Option<SocketAddr>>,
    lateness: Arc<Lateness>,
) {
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let Ok((near, _)) = listener.accept().await else { continue };
        let (mut targets, lateness) = (targets.clone(), Arc::clone(&lateness));
        connections.spawn(async move {
            let target = *targets.borrow_and_update();
            let Some(target) = target else { return };
            let Ok(far) = TcpStream::connect(target).await else { return };
            // Neither matters to whom is gone already.
            near.set_nodelay(true).ok();
            far.set_nodelay(true).ok();
            let (from_near, to_near) = near.into_split();
            let (from_far, to_far) = far.into_split();
            let both = async {
                tokio::try_join!(
                    pass(from_near, to_far, &lateness),
                    pass(from_far, to_near, &lateness)
                )
            };
            tokio::select! {
                _ = both => {}
                _ = targets.changed() => {}
            }
        });
    }
}

/// Passes bytes on until they end. They stay in order, and one that is late holds up no other
/// longer than itself: it is time that gets lost here, not bandwidth.
async fn pass(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    lateness: &Lateness,
) -> io::Result<()> {
    let (sender, mut pieces) = mpsc::channel::<(Instant, Bytes)>(ON_THE_WAY);
    let read = async move {
        let mut due = Instant::now();
        loop {
            let mut piece = BytesMut::with_capacity(PIECE);
            if from.read_buf(&mut piece).await? == 0 {
                return Ok(());
            }
            due = due.max(Instant::now() + lateness.draw());
            if sender.send((due, piece.freeze())).await.is_err() {
                return Ok(());
            }
        }
    };
    let write = async move {
        while let Some((due, piece)) = pieces.recv().await {
            if Instant::now() < due {
                sleep_until(due).await;
            }
            to.write_all(&piece).await?;
        }
        to.shutdown().await
    };
    tokio::try_join!(read, write)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_late_arrives_in_order_and_ends() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let relay = Relay::start(listener.local_addr().unwrap()).await.unwrap();
        relay.lateness.begin();
        let mut client = TcpStream::connect(relay.at).await.unwrap();
        let (mut served, _) = listener.accept().await.unwrap();

        for n in 0..100_u8 {
            client.write_all(&[n]).await.unwrap();
            tokio::task::yield_now().await;
        }
        client.shutdown().await.unwrap();
        let mut heard = Vec::new();
        served.read_to_end(&mut heard).await.unwrap();
        served.write_all(b"all").await.unwrap();
        drop(served);
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.unwrap();

        assert_eq!(heard, (0..100).collect::<Vec<u8>>());
        assert_eq!(answer, b"all");
        assert!(relay.lateness.n_late() >= 2);
    }
}
