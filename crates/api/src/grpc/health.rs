//! `grpc.health.v1`: the server's readiness, as load balancers ask for it.

use std::{pin::Pin, time::Duration};

use futures_util::{Stream, stream};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};
use tonic_health::pb::{
    self, HealthCheckRequest, HealthCheckResponse, health_check_response::ServingStatus,
};

use crate::{App, oip::proto::grpc_inference_service_server::SERVICE_NAME};

/// How long a watcher may be behind.
const PERIOD: Duration = Duration::from_millis(250);

/// Reads the readiness whenever it is asked, so that there is nothing to keep up to date.
#[derive(Debug)]
pub(super) struct Health {
    app: App,
    stop: CancellationToken,
}

impl Health {
    pub(super) const fn new(app: App, stop: CancellationToken) -> Self {
        Self { app, stop }
    }
}

/// The empty name is the server as a whole.
fn status(app: &App, service: &str) -> ServingStatus {
    match service {
        "" | SERVICE_NAME if app.is_ready() => ServingStatus::Serving,
        "" | SERVICE_NAME => ServingStatus::NotServing,
        _ => ServingStatus::ServiceUnknown,
    }
}

#[tonic::async_trait]
impl pb::health_server::Health for Health {
    type WatchStream =
        Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send + 'static>>;

    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        match status(&self.app, &request.get_ref().service) {
            ServingStatus::ServiceUnknown => {
                Err(Status::not_found(format!("only the server and {SERVICE_NAME} have a health")))
            }
            status => Ok(Response::new(HealthCheckResponse { status: status.into() })),
        }
    }

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let (app, stop) = (self.app.clone(), self.stop.clone());
        let service = request.into_inner().service;
        let changes = stream::unfold(None, move |mut last| {
            let (app, stop, service) = (app.clone(), stop.clone(), service.clone());
            async move {
                loop {
                    let now = status(&app, &service);
                    if last.replace(now) != Some(now) {
                        return Some((Ok(HealthCheckResponse { status: now.into() }), last));
                    }
                    if stop.is_cancelled() {
                        return None;
                    }
                    // CANCEL SAFETY: neither holds anything.
                    tokio::select! {
                        () = stop.cancelled() => {}
                        () = sleep(PERIOD) => {}
                    }
                }
            }
        });
        Ok(Response::new(Box::pin(changes)))
    }
}
