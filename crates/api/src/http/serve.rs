//! Sockets: accepted, bounded, and drained. Nothing here knows what is served.
//!
//! No request sets a timer. Each connection counts what happens on it ([`Watch`]), and a judge
//! looks at the counters now and then ([`Judge`]), so a request costs a few additions and an idle
//! connection one sleeping timer.

mod budget;
mod connection;
mod exchange;
mod judge;
mod opening;
mod places;
mod seldom;
mod socket;
mod watch;

use std::{future::pending, io, net::Ipv4Addr, sync::Arc, time::Duration};

use socket2::{SockRef, TcpKeepalive};
use tokio::{
    io::DuplexStream,
    net::{TcpListener, TcpStream},
    sync::mpsc,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{
    connection::Protocols,
    exchange::Entry,
    judge::{Judge, Verdict},
    opening::Opening,
    places::Place,
    seldom::Seldom,
    socket::{Metered, Socket},
    watch::Watch,
};
use super::Entrance;
use crate::{client::Client, tls::Tls};

pub(crate) use self::budget::NoMemory;
pub use self::{budget::Budget, places::Places};

/// How long things may take, and how much of them there may be, on each connection.
///
/// What is cut is cut after at least the time that is named here, and at most twice that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServeLimits {
    /// The TLS handshake and the first bytes; then to the first request's head; then each further
    /// head once its first byte is there.
    pub header_timeout: Duration,
    /// How long a connection may be open with no request on it.
    pub idle_timeout: Duration,
    /// How long a client may neither send what is waited for nor read what is ready.
    pub stall_timeout: Duration,
    /// The same, and for idle connections too, once the server is told to stop.
    pub drain_stall: Duration,
    /// Most requests at once on an HTTP/2 connection.
    pub max_streams: u32,
    /// Most bytes of a request's head.
    pub max_head: u32,
    /// How often HTTP/2 clients are asked whether they are there.
    pub ping_interval: Duration,
    /// How long they may take to say so.
    pub ping_timeout: Duration,
}

impl Default for ServeLimits {
    fn default() -> Self {
        Self {
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(75),
            stall_timeout: Duration::from_secs(30),
            drain_stall: Duration::from_secs(7),
            max_streams: 1024,
            max_head: 32 << 10,
            ping_interval: Duration::from_secs(20),
            ping_timeout: Duration::from_secs(20),
        }
    }
}

/// Where clients come in.
#[derive(Debug)]
pub enum Listener {
    /// From the network.
    Tcp(TcpListener),
    /// From within the process and in the clear, as they do where network and time are a
    /// simulation's.
    Memory(mpsc::Receiver<DuplexStream>),
}

impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Self {
        Self::Tcp(listener)
    }
}

/// A client that has come in.
enum Arrival {
    Tcp(TcpStream),
    Memory(DuplexStream),
}

impl Listener {
    /// The next connection that has a place; `None` for one that could not be given any.
    async fn next(&mut self, places: &Arc<Places>) -> io::Result<Option<(Arrival, Place)>> {
        match self {
            Self::Tcp(listener) => {
                let accepted = accept(listener, places).await?;
                Ok(accepted.map(|(stream, place)| (Arrival::Tcp(stream), place)))
            }
            Self::Memory(clients) => {
                let Some(stream) = clients.recv().await else { return pending().await };
                let place = places.take(Ipv4Addr::LOCALHOST.into()).await;
                Ok(place.map(|place| (Arrival::Memory(stream), place)))
            }
        }
    }
}

/// One listener and what is behind it.
#[derive(Debug)]
pub struct Listening {
    /// Where clients come in.
    pub listener: Listener,
    /// What they must speak, where that is TLS.
    pub tls: Option<Arc<Tls>>,
    /// What answers them.
    pub entrance: Entrance,
    /// How many there may be.
    pub places: Arc<Places>,
    /// How much of their requests may be held.
    pub budget: Arc<Budget>,
}

/// Serves until `stop`, then lets every connection finish what it is doing. `connections` is where
/// they run, and is not empty before the last of them is taken in.
pub async fn serve(
    listening: Listening,
    limits: ServeLimits,
    connections: TaskTracker,
    stop: CancellationToken,
) {
    // ORDER: whoever waits for connections to end would not know of one that is accepted just now.
    let _open = connections.token();
    let Listening { mut listener, tls, entrance, places, budget } = listening;
    let door =
        Arc::new(Door { protocols: Protocols::new(&limits), entrance, tls, limits, budget, stop });
    loop {
        // CANCEL SAFETY: a connection that is accepted and has no place yet is closed.
        let (arrival, place) = tokio::select! {
            () = door.stop.cancelled() => return,
            accepted = listener.next(&places) => match accepted {
                Ok(Some(accepted)) => accepted,
                Ok(None) => continue,
                Err(error) => {
                    // Out of descriptors, most likely; others will close theirs.
                    tracing::warn!(%error, "cannot accept a connection");
                    sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
        };
        connections.spawn(Arc::clone(&door).converse(arrival, place));
    }
}

/// The next connection that has a place; `None` for one that could not be given any.
pub(crate) async fn accept(
    listener: &TcpListener,
    places: &Arc<Places>,
) -> io::Result<Option<(TcpStream, Place)>> {
    let (stream, peer) = match listener.accept().await {
        // It was gone before it was here; the next one need not wait for that.
        Err(error) if is_about_one(&error) => return Ok(None),
        accepted => accepted?,
    };
    let Some(place) = places.take(peer.ip()).await else {
        tracing::debug!(%peer, "too many connections from this address");
        return Ok(None);
    };
    // Neither matters to whom is gone already.
    drop(stream.set_nodelay(true));
    drop(SockRef::from(&stream).set_tcp_keepalive(&keepalive()));
    Ok(Some((stream, place)))
}

fn is_about_one(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// For peers that vanished while they had nothing to send, in whatever protocol.
fn keepalive() -> TcpKeepalive {
    TcpKeepalive::new().with_time(Duration::from_mins(1)).with_interval(Duration::from_secs(15))
}

/// What happens on a connection beside requests.
enum Rare {
    /// The server is told to stop.
    Stop,
    /// It is time to look at the connection's counters.
    Look,
}

/// What all connections of a listener share.
struct Door {
    protocols: Protocols,
    entrance: Entrance,
    tls: Option<Arc<Tls>>,
    limits: ServeLimits,
    budget: Arc<Budget>,
    stop: CancellationToken,
}

impl Door {
    /// One connection, from its first byte to its last.
    async fn converse(self: Arc<Self>, arrival: Arrival, place: Place) {
        // CANCEL SAFETY: what is cut off here is a connection on which nothing was asked.
        let (socket, opening) = tokio::select! {
            () = self.stop.cancelled() => return,
            greeted = timeout(self.limits.header_timeout, self.greet(arrival)) => match greeted {
                Ok(Ok(greeted)) => greeted,
                Ok(Err(error)) => return tracing::debug!(%error, "a connection did not begin"),
                Err(_) => return tracing::debug!("a connection took too long to begin"),
            },
        };
        let is_http2 = opening.is_http2();
        let watch = Arc::new(Watch::new(is_http2));
        let client = Client::at(place.address());
        let socket = Metered::new(socket, opening, Arc::clone(&watch), place);
        let (entrance, budget) = (self.entrance.clone(), Arc::clone(&self.budget));
        let entry = Entry::new(entrance, client, Arc::clone(&watch), budget);
        let mut connection = std::pin::pin!(self.protocols.speak(is_http2, socket, entry));
        let mut judge = Judge::new(self.limits);
        let mut is_stopping = false;
        loop {
            let rare = Seldom::new(async {
                // CANCEL SAFETY: neither holds anything.
                tokio::select! {
                    () = self.stop.cancelled(), if !is_stopping => Rare::Stop,
                    () = sleep(judge.interval()) => Rare::Look,
                }
            });
            // CANCEL SAFETY: the connection is only borrowed, and what is rare begins anew.
            let happened = tokio::select! {
                biased;
                ended = connection.as_mut() => {
                    if let Err(error) = ended {
                        tracing::debug!(%error, "a connection ended badly");
                    }
                    return;
                }
                happened = rare => happened,
            };
            match happened {
                Rare::Stop => {
                    is_stopping = true;
                    judge.hurry();
                    connection.as_mut().graceful_shutdown();
                }
                Rare::Look => match judge.look(watch.sight()) {
                    Verdict::Stay => {}
                    Verdict::Close => connection.as_mut().graceful_shutdown(),
                    Verdict::Cut(why) => return tracing::debug!(why, "a connection was cut"),
                },
            }
        }
    }

    async fn greet(&self, arrival: Arrival) -> io::Result<(Socket, Opening)> {
        let mut socket = match (arrival, &self.tls) {
            (Arrival::Memory(stream), _) => Socket::Memory { stream },
            (Arrival::Tcp(stream), None) => Socket::Plain { stream },
            (Arrival::Tcp(stream), Some(tls)) => {
                Socket::Tls { stream: Box::new(tls.acceptor().accept(stream).await?) }
            }
        };
        let opening = Opening::of(&mut socket).await?;
        Ok((socket, opening))
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use tokio_test::{assert_pending, assert_ready, task};

    use super::*;

    #[tokio::test]
    async fn an_open_door_counts_among_the_connections() {
        let (_door, clients) = mpsc::channel(1);
        let listening = Listening {
            listener: Listener::Memory(clients),
            tls: None,
            entrance: Router::new().into(),
            places: Places::new(1, 1),
            budget: Budget::new(1),
        };
        let (connections, stop) = (TaskTracker::new(), CancellationToken::new());
        let limits = ServeLimits::default();
        let mut serving = task::spawn(serve(listening, limits, connections.clone(), stop.clone()));
        assert_pending!(serving.poll());
        connections.close();
        let mut ended = task::spawn(connections.wait());

        stop.cancel();
        assert_pending!(ended.poll());
        assert_ready!(serving.poll());
        drop(serving);
        assert_ready!(ended.poll());
    }
}
