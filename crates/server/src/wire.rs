//! Connects everything. Reads as the picture in ARCHITECTURE.md.

use std::{future::Future, net::SocketAddr, sync::Arc};

use paceline_api::http::{self, App, Readiness, ServeLimits};
use paceline_pipeline::{Blueprint, Model, Models};
use tokio::net::TcpListener;

use crate::{
    LoadError, RunError, Supervisor,
    config::{Config, ServerSection},
    repository,
};

/// A server that is ready to run.
#[derive(Debug)]
pub struct Server {
    supervisor: Supervisor,
    models: Arc<Models>,
    readiness: Arc<Readiness>,
    address: SocketAddr,
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
}

impl Server {
    /// Loads and warms every model, and listens. Nothing is served before all of that is done.
    ///
    /// # Errors
    ///
    /// When a model cannot be served or the address cannot be had.
    pub async fn build(config: Config) -> Result<Self, StartError> {
        let Config { server, models: configured } = config;
        let mut supervisor = Supervisor::new(server.drain_timeout);
        let models = Arc::new(Models::default());
        for blueprint in repository::load(&server.model_repository, &configured)? {
            open(blueprint, &models, &mut supervisor).await?;
        }
        let listener = TcpListener::bind(server.listen).await;
        let listen_error = |error| StartError::Listen { address: server.listen, error };
        let listener = listener.map_err(listen_error)?;
        let address = listener.local_addr().map_err(listen_error)?;
        let readiness = Arc::new(Readiness::default());
        let ServerSection { max_body, max_connections, header_timeout, .. } = server;
        let app = App { models: Arc::clone(&models), readiness: Arc::clone(&readiness), max_body };
        let limits = ServeLimits { max_connections, header_timeout };
        let (connections, stop) = (supervisor.connections(), supervisor.stop_intake());
        supervisor.stage("http", async move {
            http::serve(listener, http::router(app), limits, connections, stop).await;
            Ok(())
        });
        readiness.set(true);
        Ok(Self { supervisor, models, readiness, address })
    }

    /// Where HTTP is listened for.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
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

/// Loads one model off the async threads and puts it into service.
async fn open(
    blueprint: Blueprint,
    models: &Models,
    supervisor: &mut Supervisor,
) -> Result<(), LoadError> {
    let (name, version) = (blueprint.name.clone(), blueprint.version);
    let opened = tokio::task::spawn_blocking(move || Model::open(blueprint)).await;
    let opened = opened
        .map_err(|panic| LoadError::Files { name: name.clone(), message: panic.to_string() })?;
    let (model, clock) =
        opened.map_err(|error| LoadError::Open { name: name.clone(), version, error })?;
    let facts = model.facts();
    if let Some(difference) = facts.warm_up.batch_difference.filter(|difference| 1e-3 < *difference)
    {
        tracing::warn!(
            model = name,
            version,
            difference,
            "answers depend on who shares the batch; is it dynamically quantised?"
        );
    }
    tracing::info!(
        model = name,
        version,
        platform = facts.platform,
        instances = facts.instances,
        "ready"
    );
    models.replace(&name, vec![model]);
    supervisor.stage(format!("clock of {name}"), async move {
        clock.run().await;
        Ok(())
    });
    Ok(())
}
