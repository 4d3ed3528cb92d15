//! What a model must do, and the executor that runs it.
//!
//! A [`Backend`] is one instance of a model. It is small and synchronous: it takes tensors that
//! are already stacked over the rows of a batch and gives tensors stacked the same way. Who
//! stacks, pads, keeps lane state and splits the answers is the executor, once for all backends.

#[cfg(feature = "conformance")]
pub mod conformance;
mod early;
mod error;
mod executor;
mod form;
mod health;
pub mod simulated;
mod stack;
mod steps;

pub use early::{Early, EarlyOutputs, EarlySender};
pub use error::BackendError;
pub use executor::{Instance, Item, Output, Rebuild, WarmUp, run_on_thread, step_on_thread};
pub use health::Health;
pub use simulated::Simulated;
pub use stack::{Piece, Ragged, StackError, Stacked, join_rows, split_rows};
pub use steps::{Ended, Steps};

pub use paceline_batch::ItemId;
use paceline_types::{Signature, Tensor, TensorSpec, TraceContext};
use smallvec::SmallVec;

/// One instance of a model. Owned by one executor; never shared, never behind a lock.
pub trait Backend: Send {
    /// What the model takes from clients and gives to them.
    fn signature(&self) -> &Signature;

    /// The tensors that a stream carries from one call to the next; none for most models.
    fn states(&self) -> &[StateSpec] {
        &[]
    }

    /// Most rows that it takes in one call, where the model itself says so.
    fn max_rows(&self) -> Option<usize> {
        None
    }

    /// Whether it can run calls, to be asked from any thread.
    fn health(&self) -> Health {
        Health::default()
    }

    /// Whether a call takes microseconds at most and never waits. It is then run by the threads that
    /// serve its clients: to wake a thread of its own would take longer than the call.
    fn is_instant(&self) -> bool {
        false
    }

    /// What an input is in trial calls, for models that do not take any number there.
    fn trial_value(&self, _input: &str) -> Option<f32> {
        None
    }

    /// Waits until it can run a call, or until waiting longer is of no use.
    fn ready(&mut self) {}

    /// Runs one call.
    ///
    /// # Errors
    ///
    /// When the call as a whole failed. An item that failed alone goes into
    /// [`Outputs::failed`] instead.
    fn run(&mut self, call: &Call<'_>) -> Result<Outputs, BackendError>;

    /// Whether a call gives results before the last one. Its items' last result is empty then.
    fn streams(&self) -> bool {
        false
    }

    /// How it works on items at their own pace, where it does. Then this is how it is run, and
    /// [`run`](Self::run) only tries it out.
    fn steps(&mut self) -> Option<&mut dyn Steps> {
        None
    }

    /// Runs one call as the executor has it: its inputs not copied together yet, and with a place
    /// for results that come before the last. Most backends need neither.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    fn run_stacked(
        &mut self,
        call: &StackedCall<'_>,
        _early: &mut Early<'_>,
    ) -> Result<Outputs, BackendError> {
        let inputs: SmallVec<[Tensor; 2]> = call.inputs.iter().map(Stacked::to_tensor).collect();
        self.run(&Call { inputs: &inputs, rows: call.rows })
    }
}

/// A tensor that a stream carries from one call to the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateSpec {
    /// Its name among the model's inputs, its type, and its extents without the batch.
    pub input: TensorSpec,
    /// Its name among the model's outputs.
    pub output: String,
    /// Where the batch extent stands, counted in the full shape.
    pub batch_axis: usize,
}

/// What one call works on.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// The inputs in the signature's order, then the states in their order. Where the model is
    /// batched, each has a leading extent of `rows`, or for a state one at its batch axis.
    pub inputs: &'a [Tensor],
    /// Rows in this call, padding rows included.
    pub rows: usize,
}

/// What one call works on, before its inputs are copied together.
#[derive(Debug, Clone, Copy)]
pub struct StackedCall<'a> {
    /// As those of a [`Call`].
    pub inputs: &'a [Stacked],
    /// Rows in this call, padding rows included.
    pub rows: usize,
    /// Where the call stands in a trace, for backends that can pass it on.
    pub trace: Option<TraceContext>,
}

/// What one call gives.
#[derive(Debug, Clone, Default)]
pub struct Outputs {
    /// The outputs in the signature's order, then the next states in their order, stacked as
    /// the inputs were. None will do where every row failed.
    pub tensors: Vec<Tensor>,
    /// Rows that failed alone, each with the model's own words. The others are good.
    pub failed: Vec<(usize, String)>,
}
