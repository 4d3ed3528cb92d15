//! Connects everything. Reads as the picture in ARCHITECTURE.md.

use std::{future::Future, net::SocketAddr, sync::Arc};

use paceline_api::{
    App, Readiness,
    grpc::{self, DescriptorError},
    http::{self, ServeLimits},
};
use paceline_ingest::{Cameras, RawTensors};
use paceline_pipeline::Models;
use tokio::net::TcpListener;

use crate::{
    LoadError, RunError, Supervisor,
    config::{Config, ServerSection},
    control::Repository,
};

/// A server that is ready to run.
#[derive(Debug)]
pub struct Server {
    supervisor: Supervisor,
    models: Arc<Models>,
    readiness: Arc<Readiness>,
    address: SocketAddr,
    grpc_address: SocketAddr,
}

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A model.
    #[error(transparent)]
    Model(#[from] LoadError),
    /// The address.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// What the system said.
        error: std::io::Error,
    },
    /// A setting of the cameras.
    #[error(transparent)]
    Cameras(#[from] paceline_ingest::ConfigError),
    /// This program.
    #[error(transparent)]
    Descriptors(#[from] DescriptorError),
}

impl Server {
    /// Loads and warms every model, and listens. Nothing is served before all of that is done.
    ///
    /// # Errors
    ///
    /// When a model cannot be served or the address cannot be had.
    pub async fn build(config: Config) -> Result<Self, StartError> {
        let Config { server, models: configured, cameras } = config;
        let mut supervisor = Supervisor::new(server.drain_timeout);
        let models = Arc::new(Models::default());
        let repository = Repository::new(
            server.model_repository,
            configured,
            Arc::clone(&models),
            supervisor.clocks(),
        );
        repository.load_all().await?;
        let (http_listener, address) = listen(server.listen).await?;
        let (grpc_listener, grpc_address) = listen(server.grpc_listen).await?;
        let readiness = Arc::new(Readiness::default());
        let ServerSection { max_body, max_connections, header_timeout, .. } = server;
        let app = App {
            models: Arc::clone(&models),
            readiness: Arc::clone(&readiness),
            control: Arc::new(repository),
            max_body,
        };
        let limits = ServeLimits { max_connections, header_timeout };
        let doors = [
            ("grpc", grpc_listener, grpc::router(app.clone(), supervisor.stop_intake())?),
            ("http", http_listener, http::router(app)),
        ];
        for (name, listener, router) in doors {
            let (connections, stop) = (supervisor.connections(), supervisor.stop_intake());
            supervisor.stage(name, async move {
                http::serve(listener, router, limits, connections, stop).await;
                Ok(())
            });
        }
        if let Some(cameras) = cameras {
            let (_, door) = Cameras::pair(cameras, Arc::clone(&models), Arc::new(RawTensors))?;
            // As a connection, it is done before the models close; as a stage, it may not end early.
            let task = supervisor.connections().spawn(door.run(supervisor.stop_intake()));
            supervisor.stage("cameras", async move { Ok(task.await?) });
        }
        readiness.set(true);
        Ok(Self { supervisor, models, readiness, address, grpc_address })
    }

    /// Where HTTP is listened for.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where gRPC is listened for.
    #[must_use]
    pub const fn grpc_address(&self) -> SocketAddr {
        self.grpc_address
    }

    /// What is served.
    #[must_use]
    pub const fn models(&self) -> &Arc<Models> {
        &self.models
    }

    /// Serves until `shutdown` resolves, then drains: readiness turns false, the doors stop
    /// taking, open requests finish, and the models end because nothing comes any more.
    ///
    /// # Errors
    ///
    /// When a part ended by itself, or draining took longer than it may.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), RunError> {
        let Self { supervisor, models, readiness, .. } = self;
        let shutdown = async {
            shutdown.await;
            readiness.set(false);
        };
        supervisor.run(shutdown, || models.close()).await
    }
}

async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), StartError> {
    let listener = TcpListener::bind(address).await;
    let own = |listener: TcpListener| Ok((listener.local_addr()?, listener));
    let (own, listener) =
        listener.and_then(own).map_err(|error| StartError::Listen { address, error })?;
    Ok((listener, own))
}
