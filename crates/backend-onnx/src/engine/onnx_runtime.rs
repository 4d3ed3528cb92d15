//! ONNX Runtime, from a library that the user has. CPU or CUDA.

use std::borrow::Cow;

use ort::{
    ep::{self, cuda::ConvAlgorithmSearch},
    session::{
        Session as OrtSession,
        builder::{GraphOptimizationLevel, SessionBuilder},
    },
};
use paceline_types::Tensor;

use super::{Session, environment::environment, guarded, onnx_value};
use crate::{
    error::LoadError,
    graph::{Graph, Port},
    library,
    options::{GraphLevel, OnnxOptions},
    plan::Plan,
};

pub(super) struct OnnxRuntimeSession {
    session: OrtSession,
    inputs: Vec<String>,
    outputs: Vec<Port>,
}

impl OnnxRuntimeSession {
    pub(super) fn open(
        graph: &Graph,
        plan: &Plan,
        options: &OnnxOptions,
    ) -> Result<Self, LoadError> {
        let environment = environment(&library::find(options)?)?;
        let refused = |cause| LoadError::Engine { engine: "ONNX Runtime", cause };
        let mut builder = guarded(|| {
            let builder =
                OrtSession::builder(&environment).and_then(|builder| configured(builder, options));
            builder.map_err(|cause| cause.to_string())
        })
        .map_err(refused)?;
        if let Some(device) = options.cuda_device {
            let words = |cause: ort::Error| cause.to_string().trim_end_matches('.').to_owned();
            builder = guarded(|| on_cuda(builder, device).map_err(words))
                .map_err(|cause| LoadError::NoCuda { device, cause })?;
        }
        let session = guarded(|| {
            let session = if graph.has_external_data {
                builder.commit_from_file(&options.path)
            } else {
                builder.commit_from_memory(&graph.bytes)
            };
            session.map_err(|cause| cause.to_string())
        })
        .map_err(refused)?;
        Ok(Self {
            session,
            inputs: plan.inputs.iter().map(|port| port.name.clone()).collect(),
            outputs: plan.outputs.clone(),
        })
    }
}

impl Session for OnnxRuntimeSession {
    fn engine(&self) -> &'static str {
        "onnxruntime"
    }

    fn run(&mut self, inputs: &[&Tensor]) -> Result<Vec<Tensor>, String> {
        let inputs = self
            .inputs
            .iter()
            .zip(inputs)
            .map(|(name, tensor)| {
                let value = onnx_value::from_tensor(tensor)
                    .map_err(|cause| format!("input `{name}` {cause}"))?;
                Ok((Cow::from(name), value))
            })
            .collect::<Result<Vec<_>, String>>()?;
        let session = &mut self.session;
        let ports = &self.outputs;
        guarded(|| {
            let values = session.run(inputs).map_err(|cause| cause.to_string())?;
            ports
                .iter()
                .map(|port| {
                    let value = values
                        .get(&port.name)
                        .ok_or_else(|| format!("output `{}` did not come back", port.name))?;
                    onnx_value::to_tensor(value, port.dtype)
                        .map_err(|cause| format!("output `{}` {cause}", port.name))
                })
                .collect()
        })
    }
}

fn configured(builder: SessionBuilder, options: &OnnxOptions) -> ort::Result<SessionBuilder> {
    let level = match options.graph_level {
        GraphLevel::Off => GraphOptimizationLevel::Disable,
        GraphLevel::Basic => GraphOptimizationLevel::Level1,
        GraphLevel::Extended => GraphOptimizationLevel::Level2,
        GraphLevel::All => GraphOptimizationLevel::All,
    };
    Ok(builder
        .with_optimization_level(level)?
        .with_intra_threads(options.threads.map_or(0, Into::into))?
        // Threads that spin between calls take the cores that other models need.
        .with_intra_op_spinning(false)?
        // Its plan is made for one shape, and a batch has another shape every time.
        .with_memory_pattern(false)?
        // A product with int8 weights is computed in float32, as the graph says. By default its
        // other side is rounded to 8 bits as well, and answers change in the third digit.
        .with_config_entry("session.qdq_matmulnbits_accuracy_level", "1")?)
}

/// Runs on a CUDA device, or fails: never on the processor instead.
fn on_cuda(builder: SessionBuilder, device: u32) -> ort::Result<SessionBuilder> {
    let device = i32::try_from(device)
        .map_err(|_| ort::Error::new(format!("there is no device {device}")))?;
    let cuda = ep::CUDA::default()
        .with_device_id(device)
        // A batch has another shape every time, and to try all ways to convolve for each of them
        // takes longer than thousands of calls.
        .with_conv_algorithm_search(ConvAlgorithmSearch::Heuristic)
        // Answers are those of the processor, to the last digits.
        .with_tf32(false);
    Ok(builder.with_execution_providers([cuda.build().error_on_failure()])?)
}
