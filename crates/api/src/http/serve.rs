//! Sockets: accepted, bounded, and drained. Nothing here knows what is served.

use std::{sync::Arc, time::Duration};

use axum::Router;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
    service::TowerToHyperService,
};
use tokio::{net::TcpListener, sync::Semaphore, time::sleep};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Bounds on connections.
#[derive(Debug, Clone, Copy)]
pub struct ServeLimits {
    /// Most connections at once; further ones wait to be accepted.
    pub max_connections: usize,
    /// Longest a client may take to send a request's head, or to send the next one.
    pub header_timeout: Duration,
}

/// Serves until `stop`, then lets every connection finish what it is doing. `spawn` is where
/// connections run.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    limits: ServeLimits,
    connections: TaskTracker,
    stop: CancellationToken,
) {
    let places = Arc::new(Semaphore::new(limits.max_connections));
    let service = TowerToHyperService::new(router);
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_buf_size(64 << 10)
        .http2()
        .timer(TokioTimer::new())
        // Tensors are large: with the default of 64 KiB a client stalls for an answer each time.
        .initial_stream_window_size(1 << 20)
        .initial_connection_window_size(16 << 20)
        .keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(Duration::from_secs(20))
        .max_concurrent_streams(1024)
        .max_header_list_size(32 << 10);
    loop {
        // CANCEL SAFETY: acquiring and accepting lose nothing when dropped.
        let (stream, place) = tokio::select! {
            () = stop.cancelled() => return,
            accepted = accept(&listener, &places) => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of descriptors, most likely; others will close theirs.
                    tracing::warn!(%error, "cannot accept a connection");
                    sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
        };
        let connection =
            builder.serve_connection_with_upgrades(TokioIo::new(stream), service.clone());
        let connection = connection.into_owned();
        connections.spawn(drive(connection, stop.clone(), place));
    }
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> std::io::Result<(tokio::net::TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let place = Arc::clone(places).acquire_owned().await.map_err(std::io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    stream.set_nodelay(true)?;
    Ok((stream, place))
}

/// Drives one connection; when told to stop, it finishes the request it is at and closes.
async fn drive<P>(
    connection: auto::UpgradeableConnection<
        'static,
        TokioIo<tokio::net::TcpStream>,
        TowerToHyperService<Router>,
        TokioExecutor,
    >,
    stop: CancellationToken,
    _place: P,
) {
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended badly");
    }
}
