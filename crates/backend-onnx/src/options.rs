//! How a model is loaded, as meant: no strings to parse, nothing read from the environment.

use std::{collections::BTreeMap, num::NonZeroUsize, path::PathBuf};

use paceline_types::{Dim, Tensor};

/// How one ONNX file is loaded. [`OnnxOptions::new`] has the defaults; change what differs.
#[derive(Debug, Clone)]
pub struct OnnxOptions {
    /// The `.onnx` file.
    pub path: PathBuf,
    /// What runs it.
    pub engine: Engine,
    /// Threads that share one call; the engine's own choice (the cores) when absent.
    pub threads: Option<NonZeroUsize>,
    /// How far the graph is rewritten for speed.
    pub graph_level: GraphLevel,
    /// The CUDA device to run on; the CPU when absent. Needs ONNX Runtime, and fails rather than
    /// falling back to the CPU.
    pub cuda_device: Option<u32>,
    /// Whether every tensor has a leading batch extent. When absent it is read from the file: a
    /// model whose inputs all lead with a dynamic extent is batched.
    pub batched: Option<bool>,
    /// Outputs that are fed back as inputs of the stream's next call.
    pub states: Vec<StateLink>,
    /// Inputs that always have the same value, so that clients do not send them.
    pub constants: Vec<(String, Tensor)>,
    /// What inputs are in trial calls, where the model does not take any number.
    pub trial_values: BTreeMap<String, f32>,
    /// Shapes, batch extent included, for tensors whose shape the file leaves out or tells wrong.
    pub shapes: Vec<(String, Vec<Dim>)>,
    /// Files with weights that may be read, by their names in the model's own folder.
    pub external_data: Vec<String>,
    /// The ONNX Runtime library file. Searched for in `library_dirs` when absent.
    pub library: Option<PathBuf>,
    /// Where to look for ONNX Runtime, in order: folders that hold the library, Python
    /// environments or `site-packages` folders with the package `onnxruntime`.
    pub library_dirs: Vec<PathBuf>,
    /// The Python that is asked where its package `onnxruntime` is, when it is nowhere else.
    pub python: Option<PathBuf>,
}

impl OnnxOptions {
    /// The defaults for one file.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            engine: Engine::default(),
            threads: None,
            graph_level: GraphLevel::default(),
            cuda_device: None,
            batched: None,
            states: Vec::new(),
            constants: Vec::new(),
            trial_values: BTreeMap::new(),
            shapes: Vec::new(),
            external_data: Vec::new(),
            library: None,
            library_dirs: Vec::new(),
            python: None,
        }
    }
}

/// What runs the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Engine {
    /// `rten` when it can load the graph, else ONNX Runtime where it is found.
    #[default]
    Auto,
    /// `rten`, pure Rust.
    Rten,
    /// ONNX Runtime, from a shared library.
    OnnxRuntime,
}

/// How far the graph is rewritten when it is loaded. `rten` knows only off and on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GraphLevel {
    /// As written.
    Off,
    /// Constants folded, dead nodes removed.
    Basic,
    /// And nodes fused.
    Extended,
    /// And layouts changed.
    #[default]
    All,
}

/// An output that becomes an input of the stream's next call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateLink {
    /// Its name among the inputs.
    pub input: String,
    /// Its name among the outputs.
    pub output: String,
    /// Where the batch extent stands, counted in the full shape.
    pub batch_axis: usize,
}
