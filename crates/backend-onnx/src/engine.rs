//! What runs the graph, behind one small trait, and which of the two it is.

mod environment;
mod onnx_runtime;
mod onnx_value;
mod rten;
mod rten_value;

use std::{
    any::Any,
    panic::{self, AssertUnwindSafe},
};

use paceline_types::Tensor;

use crate::{
    error::LoadError,
    graph::Graph,
    options::{Engine, OnnxOptions},
    plan::Plan,
};

/// A loaded graph.
pub(crate) trait Session: Send {
    /// The engine's name, for logs.
    fn engine(&self) -> &'static str;

    /// Runs the plan's inputs, in its order, and gives its outputs, in its order.
    fn run(&mut self, inputs: &[&Tensor]) -> Result<Vec<Tensor>, String>;
}

/// Loads the graph on the engine that the options ask for.
pub(crate) fn open(
    graph: &Graph,
    plan: &Plan,
    options: &OnnxOptions,
) -> Result<Box<dyn Session>, LoadError> {
    let rten = || -> Result<Box<dyn Session>, LoadError> {
        Ok(Box::new(rten::RtenSession::open(graph, plan, options)?))
    };
    let onnx_runtime = || -> Result<Box<dyn Session>, LoadError> {
        Ok(Box::new(onnx_runtime::OnnxRuntimeSession::open(graph, plan, options)?))
    };
    match (options.engine, options.cuda_device) {
        (Engine::Rten, Some(_)) => Err(LoadError::CudaOnRten),
        (Engine::Rten, None) => rten(),
        (Engine::OnnxRuntime, _) | (Engine::Auto, Some(_)) => onnx_runtime(),
        (Engine::Auto, None) => rten().or_else(|rten| {
            tracing::info!(reason = %rten, "rten cannot run the model, trying onnx runtime");
            onnx_runtime().map_err(|onnx_runtime| LoadError::Neither {
                rten: Box::new(rten),
                onnx_runtime: Box::new(onnx_runtime),
            })
        }),
    }
}

/// Runs what may panic on a file or a tensor that it did not expect, and makes that an error.
pub(crate) fn guarded<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    // A session that panicked is either dropped (at load) or holds no state between calls (rten).
    panic::catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|payload| Err(format!("it panicked: {}", panic_text(&*payload))))
}

fn panic_text(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
