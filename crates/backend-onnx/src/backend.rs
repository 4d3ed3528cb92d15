//! The backend: checks what goes in and what comes out, and leaves the rest to the engine.

use std::{collections::BTreeMap, fmt, iter};

use paceline_backend::{Backend, BackendError, Call, Outputs, StateSpec};
use paceline_types::{Signature, Tensor};

use crate::{
    engine::{self, Session},
    graph::Graph,
    options::OnnxOptions,
    plan::Plan,
};

/// One loaded ONNX model.
pub struct OnnxBackend {
    plan: Plan,
    session: Box<dyn Session>,
    trial_values: BTreeMap<String, f32>,
}

impl OnnxBackend {
    /// Reads the file, finds its signature and loads it on an engine.
    ///
    /// # Errors
    ///
    /// [`BackendError::Load`], saying which file, which of its tensors or which option, and what
    /// to do. A corrupt file is an error like any other, never a panic.
    pub fn load(options: &OnnxOptions) -> Result<Self, BackendError> {
        let open = || {
            let graph = Graph::open(&options.path, &options.external_data)?;
            let plan = Plan::build(&graph, options)?;
            let session = engine::open(&graph, &plan, options)?;
            Ok(Self { plan, session, trial_values: options.trial_values.clone() })
        };
        let backend =
            open().map_err(|error: crate::error::LoadError| error.about(&options.path))?;
        let engine = backend.engine();
        tracing::info!(path = %options.path.display(), engine, "model loaded");
        Ok(backend)
    }

    /// The engine that runs it: `rten` or `onnxruntime`.
    #[must_use]
    pub fn engine(&self) -> &'static str {
        self.session.engine()
    }
}

impl Backend for OnnxBackend {
    fn signature(&self) -> &Signature {
        &self.plan.signature
    }

    fn states(&self) -> &[StateSpec] {
        &self.plan.states
    }

    fn trial_value(&self, input: &str) -> Option<f32> {
        self.trial_values.get(input).copied()
    }

    fn run(&mut self, call: &Call<'_>) -> Result<Outputs, BackendError> {
        let inputs: Vec<&Tensor> = call.inputs.iter().chain(&self.plan.constants).collect();
        self.check_inputs(&inputs)?;
        let tensors = self.session.run(&inputs).map_err(BackendError::Failed)?;
        self.check_rows(&tensors, call.rows)?;
        Ok(Outputs { tensors, failed: Vec::new() })
    }
}

impl OnnxBackend {
    fn check_inputs(&self, inputs: &[&Tensor]) -> Result<(), BackendError> {
        let ports = &self.plan.inputs;
        if ports.len() != inputs.len() {
            let n_constants = self.plan.constants.len();
            return Err(BackendError::Failed(format!(
                "the model takes {} tensors, but {} were given",
                ports.len() - n_constants,
                inputs.len() - n_constants,
            )));
        }
        let wrong = iter::zip(ports, inputs).find(|(port, tensor)| port.dtype != tensor.dtype());
        wrong.map_or(Ok(()), |(port, tensor)| {
            let (name, expected, actual) = (&port.name, port.dtype, tensor.dtype());
            Err(BackendError::Failed(format!(
                "input `{name}` is {expected}, but {actual} was given"
            )))
        })
    }

    /// INVARIANT: row `n` of every output belongs to row `n` of the inputs. A graph that drops or
    /// adds rows would otherwise hand one client's answer to another.
    fn check_rows(&self, tensors: &[Tensor], rows: usize) -> Result<(), BackendError> {
        if !self.plan.signature.batched {
            return Ok(());
        }
        let n_outputs = self.plan.signature.outputs.len();
        let axes = iter::repeat_n(0, n_outputs)
            .chain(self.plan.states.iter().map(|state| state.batch_axis));
        for ((port, tensor), axis) in self.plan.outputs.iter().zip(tensors).zip(axes) {
            if tensor.shape().get(axis) != Some(&rows) {
                return Err(BackendError::Failed(format!(
                    "output `{}` came back with the shape {:?} for {rows} rows",
                    port.name,
                    tensor.shape(),
                )));
            }
        }
        Ok(())
    }
}

impl fmt::Debug for OnnxBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnnxBackend")
            .field("engine", &self.engine())
            .field("signature", &self.plan.signature)
            .field("states", &self.plan.states)
            .finish_non_exhaustive()
    }
}
