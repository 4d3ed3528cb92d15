//! Takes a new certificate when there is one: on SIGHUP, and when the files change.

use std::{sync::Arc, time::Duration};

use paceline_api::tls::{Reload, Tls};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    task::spawn_blocking,
    time::sleep,
};
use tokio_util::sync::CancellationToken;

use crate::StageResult;

/// Looks after a certificate.
#[derive(Debug)]
pub(crate) struct Certificates {
    tls: Arc<Tls>,
    interval: Duration,
    hangup: Signal,
}

impl Certificates {
    /// From here on SIGHUP no longer ends the process.
    pub(crate) fn open(tls: Arc<Tls>, interval: Duration) -> std::io::Result<Self> {
        Ok(Self { tls, interval, hangup: signal(SignalKind::hangup())? })
    }

    /// Looks until `stop`.
    pub(crate) async fn run(mut self, stop: CancellationToken) -> StageResult {
        loop {
            // CANCEL SAFETY: nothing is lost; a signal that came in between is kept.
            let is_asked = tokio::select! {
                () = stop.cancelled() => return Ok(()),
                _ = self.hangup.recv() => true,
                () = sleep(self.interval) => false,
            };
            let tls = Arc::clone(&self.tls);
            match spawn_blocking(move || tls.reload()).await? {
                Reload::Changed => tracing::info!("a new certificate is in use"),
                Reload::Kept(error) => {
                    tracing::error!(%error, "the new certificate is not used; the old one stays");
                }
                Reload::Same if is_asked => tracing::info!("the certificate is as it was"),
                Reload::Same => {}
            }
        }
    }
}
