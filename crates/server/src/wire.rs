//! Connects everything. Reads as the picture in ARCHITECTURE.md.

use std::{collections::HashMap, future::Future, net::SocketAddr, sync::Arc};

use paceline_api::{
    App, Readiness,
    grpc::{self, DescriptorError},
    http::{self, Bodies, Budget, Entrance, Listening, Places, ServeLimits},
    live::Live,
    speech::{vosk, wyoming},
    tls::Tls,
    ws::{SocketLimits, Streams},
};
use paceline_ingest::Cameras;
use paceline_pipeline::{
    CameraControl, Models, VoiceDetector, VoiceStartError, speech::Speech, synthesis::Synthesis,
};
use tokio::net::TcpListener;

use crate::{
    AccessError, LoadError, RunError, Supervisor,
    access::Gates,
    cameras::look_at,
    certificates::Certificates,
    config::{Config, ServerSection, TracingSection},
    control::Repository,
    metrics::Metrics,
    repository,
    spans::{EndpointError, Spans},
    speakers,
};

/// A server that is ready to run.
#[derive(Debug)]
pub struct Server {
    supervisor: Supervisor,
    models: Arc<Models>,
    voices: VoiceDetector,
    speech: Speech,
    synthesis: Synthesis,
    spans: Option<Arc<Spans>>,
    cameras: Option<Cameras>,
    readiness: Arc<Readiness>,
    address: SocketAddr,
    grpc_address: SocketAddr,
    admin_address: Option<SocketAddr>,
    vosk_address: Option<SocketAddr>,
    wyoming_address: Option<SocketAddr>,
}

/// Most connections to the admin listener: its own, so that a crowd at the others keeps nobody out.
const ADMIN_CONNECTIONS: usize = 256;

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
    /// Who would get in.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// Signals.
    #[error("cannot wait for SIGHUP: {0}")]
    Signal(std::io::Error),
    /// A setting of the cameras.
    #[error(transparent)]
    Cameras(#[from] paceline_ingest::ConfigError),
    /// Where traces go.
    #[error(transparent)]
    Tracing(#[from] EndpointError),
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
    /// When strangers could get in, a model cannot be served or an address cannot be had.
    pub async fn build(config: Config) -> Result<Self, StartError> {
        let Config { server, speech, synthesis, tracing, models: configured, cameras } = config;
        let Gates { http: http_gate, grpc: grpc_gate, vosk: vosk_gate, admin: admin_gate, tls } =
            Gates::build(&server)?;
        let limits = limits(&server);
        let mut supervisor = Supervisor::new(server.drain_timeout);
        let models = Arc::new(Models::default());
        let speakers = repository::speakers(&server.model_repository, &configured)?;
        let spans = trace(&tracing, &models, &mut supervisor)?;
        let clocks = supervisor.clocks();
        let repository = Repository::new(&server, configured, Arc::clone(&models), clocks);
        repository.load_all().await?;
        let readiness = Arc::new(Readiness::default());
        let voices = VoiceDetector::start(speech.voices())?;
        let sockets = speech.sockets();
        let speech = Speech::new(Arc::clone(&models), voices.clone(), speech.settings(&models));
        let synthesis = Synthesis::new(Arc::clone(&models), synthesis.settings());
        let synthesis = speakers::added(synthesis, &server.model_repository, speakers)?;
        let streams = streams(&speech, &synthesis, sockets, &supervisor);
        let live = Arc::new(Live::default());
        let heard = (&speech, &voices, &synthesis);
        let metrics = Arc::new(Metrics::new(&readiness, &models, heard, spans.clone()));
        let (cameras, cameras_door) = open_cameras(cameras, &models, (&live, &metrics))?;
        let app = App {
            models: Arc::clone(&models),
            readiness: Arc::clone(&readiness),
            control: Arc::new(repository),
            cameras: cameras.clone().map(|cameras| Arc::new(cameras) as Arc<dyn CameraControl>),
            bodies: Bodies::new(server.max_body, server.max_body_memory),
            metrics: Some(Arc::clone(&metrics) as _),
            streams: streams.clone(),
            live: Arc::clone(&live),
        };
        let places = places(&server);
        let grpc_router = grpc::router(app.clone(), grpc_gate, supervisor.stop_intake())?;
        let mut doors = vec![
            ("grpc", server.grpc_listen, grpc_router.into(), Arc::clone(&places)),
            ("http", server.listen, http::entrance(app.clone(), http_gate), Arc::clone(&places)),
        ];
        if let Some((gate, address)) = vosk_gate.zip(server.vosk_listen) {
            let router = vosk::router(streams.clone(), gate);
            doors.push(("vosk", address, router.into(), Arc::clone(&places)));
        }
        if let Some((gate, address)) = admin_gate.zip(server.admin_listen) {
            let places = Places::new(ADMIN_CONNECTIONS, ADMIN_CONNECTIONS);
            doors.push(("admin", address, http::entrance(app, gate), places));
        }
        let listening = open(doors, tls.as_ref(), &Budget::new(server.max_body_memory)).await?;
        if let Some((tls, section)) = tls.zip(server.tls) {
            let certificates =
                Certificates::open(tls, section.check_interval).map_err(StartError::Signal)?;
            supervisor.stage("certificates", certificates.run(supervisor.stop_intake()));
        }
        let wyoming_address = match server.wyoming_listen {
            Some(address) => Some(hear_wyoming(address, streams, places, &mut supervisor).await?),
            None => None,
        };
        let addresses = serve(listening, limits, &mut supervisor);
        run_cameras(cameras_door, &mut supervisor);
        readiness.set(true);
        Ok(Self {
            supervisor,
            models,
            voices,
            speech,
            synthesis,
            spans,
            cameras,
            readiness,
            address: addresses["http"],
            grpc_address: addresses["grpc"],
            admin_address: addresses.get("admin").copied(),
            vosk_address: addresses.get("vosk").copied(),
            wyoming_address,
        })
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

    /// Where model control and metrics are listened for, where that is apart.
    #[must_use]
    pub const fn admin_address(&self) -> Option<SocketAddr> {
        self.admin_address
    }

    /// Where vosk's protocol is listened for, if it is.
    #[must_use]
    pub const fn vosk_address(&self) -> Option<SocketAddr> {
        self.vosk_address
    }

    /// Where Wyoming is listened for, if it is.
    #[must_use]
    pub const fn wyoming_address(&self) -> Option<SocketAddr> {
        self.wyoming_address
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

    /// Cameras, where they are configured.
    #[must_use]
    pub const fn cameras(&self) -> Option<&Cameras> {
        self.cameras.as_ref()
    }

    /// Text that is to be spoken.
    #[must_use]
    pub const fn synthesis(&self) -> &Synthesis {
        &self.synthesis
    }

    /// Serves until `shutdown` resolves, then drains: readiness turns false, the doors stop
    /// taking, open requests finish, and the models end because nothing comes any more.
    ///
    /// # Errors
    ///
    /// When a part ended by itself, or draining took longer than it may.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), RunError> {
        let Self { supervisor, models, voices, spans, readiness, .. } = self;
        let shutdown = async {
            shutdown.await;
            readiness.set(false);
        };
        let close = || {
            models.close();
            voices.close();
            if let Some(spans) = spans {
                spans.close();
            }
        };
        supervisor.run(shutdown, close).await
    }
}

fn streams(
    speech: &Speech,
    synthesis: &Synthesis,
    limits: SocketLimits,
    supervisor: &Supervisor,
) -> Streams {
    let (open, stop) = (supervisor.connections(), supervisor.stop_intake());
    Streams { speech: speech.clone(), synthesis: synthesis.clone(), limits, open, stop }
}

/// Lets cameras in, and those who watch see them.
fn open_cameras(
    config: Option<paceline_ingest::Config>,
    models: &Arc<Models>,
    (live, metrics): (&Live, &Metrics),
) -> Result<(Option<Cameras>, Option<paceline_ingest::Door>), StartError> {
    let Some(config) = config else { return Ok((None, None)) };
    let (cameras, door) = Cameras::pair(config, Arc::clone(models))?;
    metrics.watch(cameras.clone());
    let shown = cameras.clone();
    live.show_cameras(move || look_at(&shown));
    Ok((Some(cameras), Some(door)))
}

fn run_cameras(door: Option<paceline_ingest::Door>, supervisor: &mut Supervisor) {
    let Some(door) = door else { return };
    // As a connection, it is done before the models close; as a stage, it may not end early.
    let task = supervisor.connections().spawn(door.run(supervisor.stop_intake()));
    supervisor.stage("cameras", async move { Ok(task.await?) });
}

/// Has requests traced, where that is asked for.
fn trace(
    section: &TracingSection,
    models: &Models,
    supervisor: &mut Supervisor,
) -> Result<Option<Arc<Spans>>, StartError> {
    let Some((spans, sending)) = Spans::pair(section)? else { return Ok(None) };
    models.trace_with(Arc::clone(&spans) as _);
    supervisor.stage("tracing", sending.run());
    Ok(Some(spans))
}

fn limits(section: &ServerSection) -> ServeLimits {
    ServeLimits {
        header_timeout: section.header_timeout,
        idle_timeout: section.idle_timeout,
        stall_timeout: section.stall_timeout,
        // What is cut is cut after at most twice as long, so half of the time is left to the rest.
        drain_stall: section.drain_timeout / 4,
        max_streams: section.http2_max_streams,
        max_head: section.max_head,
        ping_interval: section.http2_ping_interval,
        ping_timeout: section.http2_ping_timeout,
    }
}

fn places(section: &ServerSection) -> Arc<Places> {
    let total = section.max_connections;
    let one = section.max_connections_per_address.unwrap_or(total.div_ceil(4));
    Places::new(total, one)
}

/// A door before it listens: its name, where it will, what answers there, and for how many.
type Door = (&'static str, SocketAddr, Entrance, Arc<Places>);

/// Lets every door listen, before any of them is served.
async fn open(
    doors: Vec<Door>,
    tls: Option<&Arc<Tls>>,
    budget: &Arc<Budget>,
) -> Result<Vec<(&'static str, SocketAddr, Listening)>, StartError> {
    let mut listening = Vec::new();
    for (name, address, entrance, places) in doors {
        let (listener, address) = listen(address).await?;
        let (tls, budget) = (tls.cloned(), Arc::clone(budget));
        let listener = listener.into();
        listening.push((name, address, Listening { listener, tls, entrance, places, budget }));
    }
    Ok(listening)
}

/// Serves what listens; where each of them does.
fn serve(
    listening: Vec<(&'static str, SocketAddr, Listening)>,
    limits: ServeLimits,
    supervisor: &mut Supervisor,
) -> HashMap<&'static str, SocketAddr> {
    let mut addresses = HashMap::new();
    for (name, address, listening) in listening {
        addresses.insert(name, address);
        let (connections, stop) = (supervisor.connections(), supervisor.stop_intake());
        supervisor.stage(name, async move {
            http::serve(listening, limits, connections, stop).await;
            Ok(())
        });
    }
    addresses
}

/// The one door that does not speak HTTP; where it is.
async fn hear_wyoming(
    address: SocketAddr,
    streams: Streams,
    places: Arc<Places>,
    supervisor: &mut Supervisor,
) -> Result<SocketAddr, StartError> {
    let (listener, address) = listen(address).await?;
    let (connections, stop) = (supervisor.connections(), supervisor.stop_intake());
    supervisor.stage("wyoming", async move {
        wyoming::serve(listener, streams, places, connections, stop).await;
        Ok(())
    });
    Ok(address)
}

async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), StartError> {
    let listener = TcpListener::bind(address).await;
    let own = |listener: TcpListener| Ok((listener.local_addr()?, listener));
    let (own, listener) =
        listener.and_then(own).map_err(|error| StartError::Listen { address, error })?;
    Ok((listener, own))
}
