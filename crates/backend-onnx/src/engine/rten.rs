//! `rten`: pure Rust, nothing to install.

use std::sync::Arc;

use paceline_types::{DType, Tensor};
use rten::{Model, ModelOptions, NodeId, RunOptions, ThreadPool, ValueOrView};

use super::{Session, guarded, rten_value};
use crate::{
    error::{LoadError, Side},
    graph::{Graph, Port},
    options::{GraphLevel, OnnxOptions},
    plan::Plan,
};

pub(super) struct RtenSession {
    model: Model,
    inputs: Vec<(NodeId, String)>,
    outputs: Vec<(NodeId, Port)>,
    run_options: RunOptions,
}

impl RtenSession {
    pub(super) fn open(
        graph: &Graph,
        plan: &Plan,
        options: &OnnxOptions,
    ) -> Result<Self, LoadError> {
        refuse_types(Side::Input, &plan.inputs)?;
        refuse_types(Side::Output, &plan.outputs)?;

        let mut model_options = ModelOptions::with_all_ops();
        model_options
            .enable_optimization(options.graph_level != GraphLevel::Off)
            .prepack_weights(true);
        let failed = |cause| LoadError::Engine { engine: "rten", cause };
        let model = guarded(|| {
            let model = if graph.has_external_data {
                model_options.load_file(&options.path)
            } else {
                model_options.load(graph.bytes.clone())
            };
            model.map_err(|cause| cause.to_string())
        })
        .map_err(failed)?;

        let node = |port: &Port| {
            model.node_id(&port.name).map_err(|cause| failed(format!("`{}`: {cause}", port.name)))
        };
        let inputs = plan
            .inputs
            .iter()
            .map(|port| Ok((node(port)?, port.name.clone())))
            .collect::<Result<_, LoadError>>()?;
        let outputs = plan
            .outputs
            .iter()
            .map(|port| Ok((node(port)?, port.clone())))
            .collect::<Result<_, LoadError>>()?;
        let pool = options.threads.map(|n| Arc::new(ThreadPool::with_num_threads(n.get())));
        let run_options = RunOptions::default().with_thread_pool(pool);
        Ok(Self { model, inputs, outputs, run_options })
    }
}

impl Session for RtenSession {
    fn engine(&self) -> &'static str {
        "rten"
    }

    fn run(&mut self, inputs: &[&Tensor]) -> Result<Vec<Tensor>, String> {
        let inputs = self
            .inputs
            .iter()
            .zip(inputs)
            .map(|((node, name), tensor)| {
                let value = rten_value::from_tensor(tensor)
                    .map_err(|cause| format!("input `{name}` {cause}"))?;
                Ok((*node, ValueOrView::from(value)))
            })
            .collect::<Result<Vec<_>, String>>()?;
        let nodes: Vec<NodeId> = self.outputs.iter().map(|&(node, _)| node).collect();
        let values = guarded(|| {
            self.model
                .run(inputs, &nodes, Some(self.run_options.clone()))
                .map_err(|cause| cause.to_string())
        })?;
        values
            .into_iter()
            .zip(&self.outputs)
            .map(|(value, (_, port))| {
                rten_value::into_tensor(value, port.dtype)
                    .map_err(|cause| format!("output `{}` {cause}", port.name))
            })
            .collect()
    }
}

/// rten computes in `f32`, `i32`, `i8` and `u8`; `i64` and `bool` are `i32` inside it. Wider and
/// narrower floats it would silently compute in `f32`, so those go to the other engine.
fn refuse_types(side: Side, ports: &[Port]) -> Result<(), LoadError> {
    let known = [DType::F32, DType::I32, DType::I8, DType::U8, DType::I64, DType::Bool];
    match ports.iter().find(|port| !known.contains(&port.dtype)) {
        Some(port) => Err(LoadError::RtenType { side, name: port.name.clone(), dtype: port.dtype }),
        None => Ok(()),
    }
}
