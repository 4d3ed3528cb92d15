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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error_with_its_words() {
        let index = [1, 2, 3].len();

        let formatted = guarded(|| Ok([1, 2, 3][index]));
        let plain: Result<(), _> = guarded(|| panic!("no such shape"));

        assert!(formatted.unwrap_err().starts_with("it panicked: index out of bounds"));
        assert_eq!(plain.unwrap_err(), "it panicked: no such shape");
        assert_eq!(guarded(|| Ok(1)), Ok(1));
    }
}
