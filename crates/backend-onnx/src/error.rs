//! Why a model was not loaded. Each is a fact that names the file's own words, and what to do.

use std::{io, path::PathBuf};

use paceline_backend::BackendError;
use paceline_types::DType;

#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    #[error("{} cannot be read: {cause}", path.display())]
    Unreadable { path: PathBuf, cause: io::Error },
    #[error("{} is not an ONNX model, or is cut short: {cause}", path.display())]
    NotOnnx { path: PathBuf, cause: String },
    #[error("{side} `{name}` is {kind}, which cannot be served; tensors of {} can", carried())]
    Unservable { side: Side, name: String, kind: String },
    #[error(
        "the model's weights are in `{location}`, {problem}; weight files must lie in the model's own folder and be named in `onnx.external_data`"
    )]
    External { location: String, problem: String },
    #[error("`{option}` names {side} `{name}`, which the model does not have; it has {known}")]
    UnknownName { option: &'static str, side: Side, name: String, known: String },
    #[error("input `{name}` is given more than one role; it is a state, or a constant, or neither")]
    TwoRoles { name: String },
    #[error(
        "{side} `{name}` has no shape in the file; give it one in `shapes`, with -1 for what varies"
    )]
    NoShape { side: Side, name: String },
    #[error(
        "input `{name}` leads with {lead} where `{other}` leads with a dynamic extent; give `{name}` a fixed value in `constants`, make it a state, or set `batched = false`"
    )]
    MixedBatch { name: String, lead: String, other: String },
    #[error(
        "`batched` is set, but {side} `{name}` leads with {lead}; export the model with a dynamic first extent, or set `batched = false`"
    )]
    FixedBatch { side: Side, name: String, lead: String },
    #[error(
        "output `{name}` leads with {lead} where the inputs lead with a dynamic extent; correct it in `shapes`, or set `batched = false`"
    )]
    FixedOutput { name: String, lead: String },
    #[error("state `{input}` cannot be fed from output `{output}`: {problem}")]
    State { input: String, output: String, problem: String },
    #[error("constant `{name}` is {actual}, but the model takes {expected}")]
    Constant { name: String, expected: String, actual: String },
    #[error("{engine} cannot run this model: {cause}")]
    Engine { engine: &'static str, cause: String },
    #[error(
        "rten does not have {dtype}, the type of {side} `{name}`; set `engine = \"onnxruntime\"`"
    )]
    RtenType { side: Side, name: String, dtype: DType },
    #[error(
        "ONNX Runtime is not installed: {searched}; run `pip install onnxruntime` (`onnxruntime-gpu` for CUDA) into the Python that `python` names, or name its folder in `library_dirs`, or the library file in `library`"
    )]
    NoLibrary { searched: String },
    #[error("ONNX Runtime cannot be loaded: {cause}")]
    BadLibrary { cause: String },
    #[error(
        "ONNX Runtime is already loaded from {}, so {} cannot be loaded beside it; name the same `library` for every model",
        loaded.display(), wanted.display()
    )]
    OtherLibrary { loaded: PathBuf, wanted: PathBuf },
    #[error(
        "a CUDA `device` needs ONNX Runtime; set `engine = \"onnxruntime\"` or leave it \"auto\""
    )]
    CudaOnRten,
    #[error(
        "CUDA device {device} cannot be had: {cause}; install `onnxruntime-gpu` and the CUDA libraries that it names, or set `device = \"cpu\"`"
    )]
    NoCuda { device: u32, cause: String },
    #[error("rten cannot run it ({rten}), and neither can ONNX Runtime ({onnx_runtime})")]
    Neither { rten: Box<LoadError>, onnx_runtime: Box<LoadError> },
}

/// Which end of the model a name is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Input,
    Output,
}

impl std::fmt::Display for Side {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Input => "input",
            Self::Output => "output",
        })
    }
}

impl LoadError {
    /// The same fact for the outside, led by the file it is about.
    pub(crate) fn about(self, path: &std::path::Path) -> BackendError {
        BackendError::Load(match &self {
            Self::Unreadable { .. } | Self::NotOnnx { .. } => self.to_string(),
            _ => format!("{}: {self}", path.display()),
        })
    }
}

/// The element types that can be served, for a reader.
fn carried() -> String {
    DType::ALL.map(DType::as_str).join(", ")
}
