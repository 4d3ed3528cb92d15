//! HTTP/1.1 and HTTP/2, with what each of them is allowed.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use pin_project_lite::pin_project;

use super::{ServeLimits, exchange::Entry, socket::Metered};

/// Most bytes of an HTTP/1.1 body that are read at once. Every piece of a large tensor costs its
/// way through the connection's task; a connection has so much memory only once it was sent that
/// much.
const PIECE: usize = 256 << 10;

/// How connections are served, whichever HTTP they speak.
pub(super) struct Protocols {
    http1: http1::Builder,
    http2: http2::Builder<TokioExecutor>,
}

impl Protocols {
    pub(super) fn new(limits: &ServeLimits) -> Self {
        let max_head = limits.max_head as usize;
        let mut http1 = http1::Builder::new();
        http1
            // The judge does this, also for those who send nothing at all, and without a timer
            // for every request.
            .header_read_timeout(None)
            .max_header_size(max_head)
            .max_buf_size(max_head.max(PIECE));
        let mut http2 = http2::Builder::new(TokioExecutor::new());
        http2
            .timer(TokioTimer::new())
            // Tensors are large: with the default of 64 KiB a client stalls for an answer each
            // time.
            .initial_stream_window_size(1 << 20)
            .initial_connection_window_size(16 << 20)
            .max_send_buf_size(256 << 10)
            .keep_alive_interval(limits.ping_interval)
            .keep_alive_timeout(limits.ping_timeout)
            .max_concurrent_streams(limits.max_streams)
            .max_header_list_size(limits.max_head)
            // Streams that are opened to be reset, and frames that only make work.
            .max_pending_accept_reset_streams(20)
            .max_local_error_reset_streams(256);
        Self { http1, http2 }
    }

    pub(super) fn speak(&self, is_http2: bool, socket: Metered, entry: Entry) -> Connection {
        let socket = TokioIo::new(socket);
        if is_http2 {
            Connection::Http2 { connection: self.http2.serve_connection(socket, entry) }
        } else {
            let connection = self.http1.serve_connection(socket, entry).with_upgrades();
            Connection::Http1 { connection }
        }
    }
}

pin_project! {
    /// One connection, to be polled until it is over.
    #[project = ConnectionProjected]
    pub(super) enum Connection {
        Http1 { #[pin] connection: http1::UpgradeableConnection<TokioIo<Metered>, Entry> },
        Http2 { #[pin] connection: http2::Connection<TokioIo<Metered>, Entry, TokioExecutor> },
    }
}

impl Connection {
    /// No more requests after those that are here.
    pub(super) fn graceful_shutdown(self: Pin<&mut Self>) {
        match self.project() {
            ConnectionProjected::Http1 { connection } => connection.graceful_shutdown(),
            ConnectionProjected::Http2 { connection } => connection.graceful_shutdown(),
        }
    }
}

impl Future for Connection {
    type Output = hyper::Result<()>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<hyper::Result<()>> {
        match self.project() {
            ConnectionProjected::Http1 { connection } => connection.poll(context),
            ConnectionProjected::Http2 { connection } => connection.poll(context),
        }
    }
}
