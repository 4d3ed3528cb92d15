//! The configuration: what can be set, and its defaults.
//!
//! Four layers, each over the one before: defaults, a file, the environment, the command line.
//! [`load`](load::load) puts them together; nothing else reads the environment.

pub mod load;
mod speech;

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use paceline_backend::simulated;
use paceline_batch::Settings;
use paceline_pipeline::Mode;
use serde::{Deserialize, Serialize};

pub use speech::SpeechSection;

/// Everything that can be set.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Where and how clients are served.
    pub server: ServerSection,
    /// Streams of audio.
    pub speech: SpeechSection,
    /// Models beyond those of the repository, and changes to those, by name.
    pub models: BTreeMap<String, ModelSection>,
}

/// Where and how clients are served.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServerSection {
    /// Where HTTP is listened for.
    pub listen: SocketAddr,
    /// Where gRPC is listened for.
    pub grpc_listen: SocketAddr,
    /// The folder of models; one that is not there holds none.
    pub model_repository: PathBuf,
    /// Largest request in bytes: the body over HTTP, the message over gRPC.
    pub max_body: usize,
    /// Most connections at once, over HTTP and over gRPC each.
    pub max_connections: usize,
    /// Longest a client may take to send a request's head, or the next one on an open connection.
    #[serde(with = "duration")]
    pub header_timeout: Duration,
    /// How long open requests and streams may take to finish once the server is told to stop.
    #[serde(with = "duration")]
    pub drain_timeout: Duration,
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
            models: BTreeMap::from([
                ("simulated".to_owned(), simulated),
                ("simulated-speech".to_owned(), speech),
            ]),
        }
    }
}

impl Default for ServerSection {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8000)),
            grpc_listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8001)),
            model_repository: PathBuf::from("models"),
            max_body: 64 << 20,
            max_connections: 10_000,
            header_timeout: Duration::from_secs(30),
            drain_timeout: Duration::from_secs(30),
        }
    }
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
    /// How its items reach its instances.
    pub mode: Mode,
    /// How many instances it has; 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instances: Option<usize>,
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
    /// Which axes are padded where items differ in length.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub padding: Option<PaddingSection>,
}

/// What can run a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BackendName {
    /// An ONNX file.
    Onnx,
    /// Nothing: it only takes its time.
    Simulated,
}

/// How an ONNX file is run.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct OnnxSection {
    /// `auto`, `rten` or `onnxruntime`.
    pub engine: EngineName,
    /// Threads that one call may use; the engine's own choice where it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<std::num::NonZeroUsize>,
    /// Where `libonnxruntime` is; looked for in Python packages where it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub library: Option<PathBuf>,
    /// Tensors that a stream carries from call to call, as `input = "output"`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub states: BTreeMap<String, String>,
    /// Where the batch stands in state tensors.
    pub state_batch_axis: usize,
    /// Whether the first extent of every tensor is the batch; found from the file where left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batched: Option<bool>,
}

/// Which engine runs an ONNX file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EngineName {
    /// `rten` where it can, else ONNX Runtime.
    #[default]
    Auto,
    /// Built in.
    Rten,
    /// Loaded from an installed library.
    OnnxRuntime,
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

/// Durations as people write them.
mod duration {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(
        value: &Duration,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&humantime::format_duration(*value))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Duration, D::Error> {
        let text = String::deserialize(deserializer)?;
        humantime::parse_duration(&text).map_err(|error| {
            D::Error::custom(format_args!(
                "`{text}` is no duration ({error}); write \"5ms\" or \"2s\""
            ))
        })
    }
}
