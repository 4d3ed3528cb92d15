//! A client's socket, in the clear or not, that counts what goes through it.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use pin_project_lite::pin_project;
use tokio::{
    io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::server::TlsStream;

use super::{opening::Opening, places::Place, watch::Watch};

pin_project! {
    /// What bytes go through.
    #[project = SocketProjected]
    pub(super) enum Socket {
        Plain { #[pin] stream: TcpStream },
        // Boxed: it is ten times as large, and most have none.
        Tls { #[pin] stream: Box<TlsStream<TcpStream>> },
        Memory { #[pin] stream: DuplexStream },
    }
}

/// Answers of so many bytes, their heads included, leave in one piece.
const SMALL: usize = 1024;

macro_rules! either {
    ($socket:expr, $stream:ident => $call:expr) => {
        match $socket.project() {
            SocketProjected::Plain { stream: $stream } => $call,
            SocketProjected::Tls { stream: $stream } => $call,
            SocketProjected::Memory { stream: $stream } => $call,
        }
    };
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        either!(self, stream => stream.poll_read(context, buffer))
    }
}

pin_project! {
    /// Counts what goes through, and holds the connection's place for as long as it is open, also
    /// where it went on to be something else than HTTP.
    pub(super) struct Metered {
        #[pin]
        socket: Socket,
        opening: Opening,
        watch: Arc<Watch>,
        place: Place,
    }
}

impl Metered {
    pub(super) const fn new(
        socket: Socket,
        opening: Opening,
        watch: Arc<Watch>,
        place: Place,
    ) -> Self {
        Self { socket, opening, watch, place }
    }
}

impl AsyncRead for Metered {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.project();
        let before = buffer.filled().len();
        this.opening.take(buffer);
        let polled = match this.socket.poll_read(context, buffer) {
            // The opening is something to go on with.
            Poll::Pending if buffer.filled().len() > before => Poll::Ready(Ok(())),
            polled => polled,
        };
        this.watch.read(buffer.filled().len() - before);
        polled
    }
}

impl AsyncWrite for Metered {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.project();
        let polled = either!(this.socket, stream => stream.poll_write(context, bytes));
        this.watch.wrote(&polled);
        polled
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // A head and a small body: to put them together takes less than to have the system take
        // them in parts.
        let n_bytes: usize = slices.iter().map(|slice| slice.len()).sum();
        if n_bytes <= SMALL {
            let mut bytes = [0; SMALL];
            let mut at = 0;
            for slice in slices {
                bytes[at..at + slice.len()].copy_from_slice(slice);
                at += slice.len();
            }
            return self.poll_write(context, &bytes[..at]);
        }
        let this = self.project();
        let polled = either!(this.socket, stream => stream.poll_write_vectored(context, slices));
        this.watch.wrote(&polled);
        polled
    }

    fn is_write_vectored(&self) -> bool {
        match &self.socket {
            Socket::Plain { stream } => stream.is_write_vectored(),
            Socket::Tls { stream } => stream.is_write_vectored(),
            Socket::Memory { stream } => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.project();
        let polled = either!(this.socket, stream => stream.poll_flush(context));
        this.watch.flushed(&polled);
        polled
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self.project().socket, stream => stream.poll_shutdown(context))
    }
}
