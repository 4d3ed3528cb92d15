//! Connects everything. Reads as the picture in ARCHITECTURE.md.

use std::{future::Future, net::SocketAddr, sync::Arc};

use paceline_api::{
    App, Readiness,
    grpc::{self, DescriptorError},
    http::{self, ServeLimits},
    ws::Streams,
};
use paceline_pipeline::{Models, VoiceDetector, VoiceStartError, speech::Speech};
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
    voices: VoiceDetector,
    speech: Speech,
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
    /// Voice detection.
    #[error(transparent)]
    Voice(#[from] VoiceStartError),
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
        let Config { server, speech, models: configured } = config;
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
        let voices = VoiceDetector::start(speech.voices())?;
        let limits = speech.sockets();
        let speech = Speech::new(Arc::clone(&models), voices.clone(), speech.settings());
        let streams = Streams {
            speech: speech.clone(),
            limits,
            open: supervisor.connections(),
            stop: supervisor.stop_intake(),
        };
        let app = App {
            models: Arc::clone(&models),
            readiness: Arc::clone(&readiness),
            control: Arc::new(repository),
            max_body,
            streams,
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
        readiness.set(true);
        Ok(Self { supervisor, models, voices, speech, readiness, address, grpc_address })
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

    /// Streams of audio.
    #[must_use]
    pub const fn speech(&self) -> &Speech {
        &self.speech
    }

    /// Serves until `shutdown` resolves, then drains: readiness turns false, the doors stop
    /// taking, open requests finish, and the models end because nothing comes any more.
    ///
    /// # Errors
    ///
    /// When a part ended by itself, or draining took longer than it may.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), RunError> {
        let Self { supervisor, models, voices, readiness, .. } = self;
        let shutdown = async {
            shutdown.await;
            readiness.set(false);
        };
        let close = || {
            models.close();
            voices.close();
        };
        supervisor.run(shutdown, close).await
    }
}

async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), StartError> {
    let listener = TcpListener::bind(address).await;
    let own = |listener: TcpListener| Ok((listener.local_addr()?, listener));
    let (own, listener) =
        listener.and_then(own).map_err(|error| StartError::Listen { address, error })?;
    Ok((listener, own))
}
