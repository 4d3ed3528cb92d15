//! The configuration: what can be set, and its defaults.
//!
//! Four layers, each over the one before: defaults, a file, the environment, the command line.
//! [`load`](load::load) puts them together; nothing else reads the environment.

mod access;
pub mod load;
mod secret;
mod speech;
mod synthesis;
mod tracing;

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use paceline_backend::simulated;
use paceline_batch::Settings;
use paceline_pipeline::{Mode, VersionPolicy};
pub(crate) use paceline_types::duration;
use serde::{Deserialize, Serialize};

pub use self::{
    access::{RoleName, TlsSection, TokenSection},
    secret::Secret,
    speech::SpeechSection,
    synthesis::SynthesisSection,
    tracing::TracingSection,
};
pub use crate::{
    onnx::{Constant, Device, EngineName, LevelName, OnnxSection},
    python::PythonSection,
    remote::RemoteSection,
};

/// Everything that can be set.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Where and how clients are served.
    pub server: ServerSection,
    /// Streams of audio.
    pub speech: SpeechSection,
    /// Text that is to be spoken.
    pub synthesis: SynthesisSection,
    /// Traces for OpenTelemetry.
    pub tracing: TracingSection,
    /// Models beyond those of the repository, and changes to those, by name.
    pub models: BTreeMap<String, ModelSection>,
    /// Cameras on Redis Streams; none where it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cameras: Option<paceline_ingest::Config>,
}

/// Where and how clients are served.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServerSection {
    /// Where HTTP is listened for.
    pub listen: SocketAddr,
    /// Where gRPC is listened for.
    pub grpc_listen: SocketAddr,
    /// Where clients of vosk's WebSocket protocol are listened for; nowhere where it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vosk_listen: Option<SocketAddr>,
    /// Where clients of the Wyoming protocol are listened for; nowhere where it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wyoming_listen: Option<SocketAddr>,
    /// Where model control and metrics are listened for over HTTP; without it they are served with
    /// the rest, as far as only this machine, or only those with a token for it, can ask.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admin_listen: Option<SocketAddr>,
    /// The folder of models; one that is not there holds none.
    pub model_repository: PathBuf,
    /// Whether an ONNX model that is loaded while the server runs is tried in a process of its own
    /// first.
    pub try_models: bool,
    /// How long that may take.
    #[serde(with = "duration")]
    pub try_timeout: Duration,
    /// Most bytes of memory that it may use; half of what the machine has free where left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub try_memory: Option<u64>,
    /// The program that is started for it, which is this one; where nobody says which that is,
    /// nothing is tried.
    #[serde(skip)]
    pub program: Option<PathBuf>,
    /// Largest request in bytes: the body over HTTP, the message over gRPC.
    pub max_body: usize,
    /// Most bytes of requests that are held at once, over all connections; further requests are
    /// refused.
    pub max_body_memory: usize,
    /// Most connections at once, over HTTP and gRPC together; further ones wait.
    pub max_connections: usize,
    /// Most of them from one address (of IPv6: from one /64); further ones are closed. A quarter of
    /// `max_connections`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_connections_per_address: Option<usize>,
    /// Longest a client may take for the TLS handshake, for the first request's head, and for each
    /// further head once it has begun.
    #[serde(with = "duration")]
    pub header_timeout: Duration,
    /// How long a connection may be open with no request on it.
    #[serde(with = "duration")]
    pub idle_timeout: Duration,
    /// How long a client may neither send a body that is waited for nor read an answer.
    #[serde(with = "duration")]
    pub stall_timeout: Duration,
    /// Most bytes of a request's head.
    pub max_head: u32,
    /// Most requests at once on one HTTP/2 connection.
    pub http2_max_streams: u32,
    /// How often HTTP/2 clients are asked whether they are still there.
    #[serde(with = "duration")]
    pub http2_ping_interval: Duration,
    /// How long they may take to say so.
    #[serde(with = "duration")]
    pub http2_ping_timeout: Duration,
    /// How long open requests and streams may take to finish once the server is told to stop.
    #[serde(with = "duration")]
    pub drain_timeout: Duration,
    /// Whether those who show no token may ask models, also where others can connect.
    pub allow_anonymous: bool,
    /// The names that clients may reach the server by, beside `localhost` and addresses; any, where
    /// others can connect and this is empty.
    pub allowed_hosts: Vec<String>,
    /// The origins whose pages may use the server, beside its own; `*` for all.
    pub allowed_origins: Vec<String>,
    /// With what certificate the server shows itself, on every listener.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsSection>,
    /// Who may do what; everybody everything, where this is empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tokens: Vec<TokenSection>,
}

impl Default for Config {
    /// The simulated model is always there, so that everything can be tried with nothing else.
    fn default() -> Self {
        let simulated =
            ModelSection { backend: Some(BackendName::Simulated), ..ModelSection::default() };
        // The same for streams of audio: it says how many samples it got.
        let counts = simulated::Settings {
            output: "count".to_owned(),
            answer: simulated::Answer::Count,
            ..simulated::Settings::default()
        };
        let speech = ModelSection { simulated: Some(counts), ..simulated.clone() };
        Self {
            server: ServerSection::default(),
            speech: SpeechSection::default(),
            synthesis: SynthesisSection::default(),
            tracing: TracingSection::default(),
            models: BTreeMap::from([
                ("simulated".to_owned(), simulated),
                ("simulated-speech".to_owned(), speech),
            ]),
            cameras: None,
        }
    }
}

impl Default for ServerSection {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8000)),
            grpc_listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8001)),
            vosk_listen: None,
            wyoming_listen: None,
            admin_listen: None,
            model_repository: PathBuf::from("models"),
            try_models: true,
            try_timeout: Duration::from_mins(1),
            try_memory: None,
            program: None,
            max_body: 64 << 20,
            max_body_memory: 1 << 30,
            max_connections: 10_000,
            max_connections_per_address: None,
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(75),
            stall_timeout: Duration::from_secs(30),
            max_head: 32 << 10,
            http2_max_streams: 1024,
            http2_ping_interval: Duration::from_secs(20),
            http2_ping_timeout: Duration::from_secs(20),
            drain_timeout: Duration::from_secs(30),
            allow_anonymous: false,
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            tls: None,
            tokens: Vec::new(),
        }
    }
}

impl ServerSection {
    /// Refuses what would keep everybody out.
    pub(crate) fn validate(&self) -> Result<(), String> {
        let counts = [
            ("max_connections", Some(self.max_connections)),
            ("max_connections_per_address", self.max_connections_per_address),
            ("http2_max_streams", usize::try_from(self.http2_max_streams).ok()),
        ];
        if let Some((key, _)) = counts.iter().find(|(_, count)| *count == Some(0)) {
            return Err(format!("server.{key} is 0, so nobody could connect; leave it out"));
        }
        let times = [
            ("header_timeout", self.header_timeout),
            ("idle_timeout", self.idle_timeout),
            ("stall_timeout", self.stall_timeout),
            ("http2_ping_interval", self.http2_ping_interval),
            ("http2_ping_timeout", self.http2_ping_timeout),
        ];
        if let Some((key, _)) = times.iter().find(|(_, time)| time.is_zero()) {
            return Err(format!("server.{key} is no time at all; write \"10s\" or leave it out"));
        }
        if self.max_body_memory < self.max_body {
            return Err(format!(
                "server.max_body_memory is {}, less than one request of server.max_body ({}) may \
                 have; make it as large at least",
                self.max_body_memory, self.max_body
            ));
        }
        if self.max_head < 1 << 10 {
            return Err(
                "server.max_head is less than any client's head; 1024 is the least".to_owned()
            );
        }
        let origins = &mut self.allowed_origins.iter();
        if let Some(origin) = origins.find(|origin| !is_origin(origin)) {
            return Err(format!(
                "server.allowed_origins: `{origin}` is no origin; write \"https://example.org\", \
                 with a port where there is one and without a path"
            ));
        }
        Ok(())
    }
}

fn is_origin(text: &str) -> bool {
    let page = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    text == "*"
        || text == "null"
        || page.is_some_and(|page| !page.is_empty() && !page.contains('/'))
}

/// One model: a `model.toml`, or a table under `[models]`.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct ModelSection {
    /// What runs it; found from the files of a folder where it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<BackendName>,
    /// What turns plain bytes into its tensors and its tensors into plain JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adapter: Option<String>,
    /// How a picture becomes its input, where it takes one and has no adapter of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub picture: Option<paceline_pipeline::adapt::PictureSettings>,
    /// How its items reach its instances.
    pub mode: Mode,
    /// Which of its versions are served; the latest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version_policy: Option<VersionPolicy>,
    /// How many instances it has; 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instances: Option<std::num::NonZeroUsize>,
    /// Most sequences that are open at once, where it is stateful; 1024.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_sequences: Option<std::num::NonZeroUsize>,
    /// How long a sequence may stay silent before it is forgotten; one minute.
    #[serde(skip_serializing_if = "Option::is_none", with = "duration::option")]
    pub sequence_idle: Option<Duration>,
    /// What free extents are taken as when it is warmed up; 16.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warm_up_length: Option<usize>,
    /// Its batcher.
    pub batch: Settings,
    /// For `backend = "simulated"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub simulated: Option<simulated::Settings>,
    /// For `backend = "onnx"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub onnx: Option<OnnxSection>,
    /// For `backend = "python"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub python: Option<PythonSection>,
    /// For `backend = "remote"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote: Option<RemoteSection>,
    /// For models that give tokens for a text: which vocoder makes sound of them, and how.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub synthesis: Option<paceline_pipeline::synthesis::PairSettings>,
    /// Which axes are padded where items differ in length.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub padding: Option<PaddingSection>,
    /// What a Triton configuration says about its tensors; a `model.toml` leaves that to the model.
    #[serde(skip)]
    pub declared: crate::triton::Declared,
}

/// What can run a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BackendName {
    /// An ONNX file.
    Onnx,
    /// A Python class, in worker processes.
    Python,
    /// Moonshine, the speech recogniser.
    Moonshine,
    /// A model on another server.
    Remote,
    /// Nothing: it only takes its time.
    Simulated,
}

/// Which axes are padded. The batch is axis 0, so the first other axis is 1.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct PaddingSection {
    /// The inputs that are padded, and along which axis.
    pub inputs: BTreeMap<String, usize>,
    /// The outputs that are cut back to each item's length, and along which axis.
    pub outputs: BTreeMap<String, usize>,
    /// An input that gets each row's length; clients do not send it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lengths: Option<String>,
    /// An input that gets 1 where there is something and 0 where there is padding.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mask: Option<String>,
}
