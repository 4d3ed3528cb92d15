//! What the server and its models say about themselves, as JSON and as gRPC.
//!
//! The structs here are the JSON; each turns into its gRPC twin by `From`. Shapes have a leading
//! -1 where the model is batched: clients drop the first extent of such a model before they
//! compare.

use paceline_types::{Dim, Signature, TensorSpec};
use serde::{Deserialize, Serialize};

use super::proto::{
    ModelMetadataResponse, RepositoryIndexResponse, ServerMetadataResponse,
    model_metadata_response, repository_index_response,
};

/// The extensions that this layer speaks. Clients look here before they use one.
pub const EXTENSIONS: [&str; 8] = [
    "binary_tensor_data",
    "model_configuration",
    "model_repository",
    "parameters",
    "schedule_policy",
    "sequence",
    "sequence(string_id)",
    "statistics",
];

/// The answer to `GET /v2`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerMetadata {
    /// The server's name.
    pub name: String,
    /// The server's version.
    pub version: String,
    /// What it can do beyond the core.
    pub extensions: Vec<String>,
}

/// The answer to `GET /v2/models/{model}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelMetadata {
    /// The model's name.
    pub name: String,
    /// The versions that can be asked for; digits, because clients read them as numbers.
    pub versions: Vec<String>,
    /// What runs it.
    pub platform: String,
    /// In the order of the signature.
    pub inputs: Vec<TensorMetadata>,
    /// In the order of the signature.
    pub outputs: Vec<TensorMetadata>,
}

/// One input or output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorMetadata {
    /// Its name.
    pub name: String,
    /// Its datatype, for example `FP32`.
    pub datatype: String,
    /// Its extents, the batch included; -1 is decided by each request.
    pub shape: Vec<i64>,
}

/// One line of the answer to `POST /v2/repository/index`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepositoryEntry {
    /// The model's name.
    pub name: String,
    /// The version, digits; empty where no version was ever loaded.
    #[serde(default)]
    pub version: String,
    /// Whether it takes requests.
    pub state: ModelState,
    /// Why not, where it does not.
    #[serde(default)]
    pub reason: String,
}

/// What a model in the repository is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum ModelState {
    /// Known, but not loaded.
    Unknown,
    /// Takes requests.
    Ready,
    /// Takes none, and will not by itself.
    Unavailable,
    /// Takes none yet.
    Loading,
    /// Takes none any more.
    Unloading,
}

/// The body of every error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// What went wrong. Clients read this key whatever the status.
    pub error: String,
}

impl ModelMetadata {
    /// What a model with this signature says about itself.
    #[must_use]
    pub fn describe(
        name: String,
        versions: Vec<String>,
        platform: String,
        signature: &Signature,
    ) -> Self {
        let tensors = |specs: &[TensorSpec]| {
            specs.iter().map(|spec| TensorMetadata::describe(spec, signature.batched)).collect()
        };
        Self {
            name,
            versions,
            platform,
            inputs: tensors(&signature.inputs),
            outputs: tensors(&signature.outputs),
        }
    }
}

impl TensorMetadata {
    fn describe(spec: &TensorSpec, batched: bool) -> Self {
        let batch = batched.then_some(-1);
        Self {
            name: spec.name.clone(),
            datatype: spec.dtype.as_str().to_owned(),
            shape: batch.into_iter().chain(dims(spec)).collect(),
        }
    }
}

/// Extents without the batch, -1 for any.
pub(super) fn dims(spec: &TensorSpec) -> impl Iterator<Item = i64> {
    spec.dims.iter().map(|dim| match dim {
        Dim::Fixed(extent) => i64::try_from(*extent).unwrap_or(i64::MAX),
        Dim::Any => -1,
    })
}

impl ModelState {
    /// As written on both wires.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "UNKNOWN",
            Self::Ready => "READY",
            Self::Unavailable => "UNAVAILABLE",
            Self::Loading => "LOADING",
            Self::Unloading => "UNLOADING",
        }
    }
}

impl From<ServerMetadata> for ServerMetadataResponse {
    fn from(metadata: ServerMetadata) -> Self {
        let ServerMetadata { name, version, extensions } = metadata;
        Self { name, version, extensions }
    }
}

impl From<ModelMetadata> for ModelMetadataResponse {
    fn from(metadata: ModelMetadata) -> Self {
        let tensors = |list: Vec<TensorMetadata>| list.into_iter().map(Into::into).collect();
        Self {
            name: metadata.name,
            versions: metadata.versions,
            platform: metadata.platform,
            inputs: tensors(metadata.inputs),
            outputs: tensors(metadata.outputs),
        }
    }
}

impl From<TensorMetadata> for model_metadata_response::TensorMetadata {
    fn from(metadata: TensorMetadata) -> Self {
        let TensorMetadata { name, datatype, shape } = metadata;
        Self { name, datatype, shape }
    }
}

impl FromIterator<RepositoryEntry> for RepositoryIndexResponse {
    fn from_iter<I: IntoIterator<Item = RepositoryEntry>>(entries: I) -> Self {
        let model = |entry: RepositoryEntry| repository_index_response::ModelIndex {
            name: entry.name,
            version: entry.version,
            state: entry.state.as_str().to_owned(),
            reason: entry.reason,
        };
        Self { models: entries.into_iter().map(model).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_types::DType;

    fn metadata(batched: bool) -> ModelMetadata {
        let spec = |name: &str, dtype| TensorSpec {
            name: name.to_owned(),
            dtype,
            dims: vec![Dim::Any, Dim::Fixed(80)],
        };
        let signature = Signature {
            inputs: vec![spec("x", DType::F32)],
            outputs: vec![spec("y", DType::Bytes)],
            batched,
        };
        ModelMetadata::describe("m".to_owned(), vec!["1".to_owned()], "onnx".to_owned(), &signature)
    }

    #[test]
    fn a_batched_model_shows_its_batch_as_any_extent() {
        assert_eq!(
            serde_json::to_string(&metadata(true)).unwrap(),
            r#"{"name":"m","versions":["1"],"platform":"onnx","inputs":[{"name":"x","datatype":"FP32","shape":[-1,-1,80]}],"outputs":[{"name":"y","datatype":"BYTES","shape":[-1,-1,80]}]}"#
        );
        assert_eq!(metadata(false).inputs[0].shape, [-1, 80]);
    }

    #[test]
    fn grpc_says_the_same() {
        let response = ModelMetadataResponse::from(metadata(true));

        assert_eq!(response.inputs[0].shape, [-1, -1, 80]);
        assert_eq!(response.outputs[0].datatype, "BYTES");
    }

    #[test]
    fn a_state_is_the_same_word_on_both_wires() {
        let states = [
            ModelState::Unknown,
            ModelState::Ready,
            ModelState::Unavailable,
            ModelState::Loading,
            ModelState::Unloading,
        ];
        for state in states {
            let json = serde_json::to_string(&state).unwrap();
            assert_eq!(json, format!("\"{}\"", state.as_str()));
        }
    }
}
