//! The one owner of one instance of a model: stacks a batch, runs it, splits the answers.

use std::{sync::Arc, time::Duration};

use paceline_batch::{
    Call as BatchCall, Cause, Done, Executor, ItemId, Reply, Rider, Runner, Stepper, Stepping,
};
use paceline_types::{DType, Dim, Shape, Signature, Tensor, TraceContext};
use smallvec::SmallVec;
use tokio::time::Instant;

use crate::{
    Backend, BackendError, Call, EarlySender, Ended, Health, Outputs, Ragged, StackedCall,
    early::Listeners,
    form::{Form, Scattered, failed, zeros, zeros_of_state},
    stack::split,
};

/// What is submitted: the inputs in the signature's order, without those that are made here.
#[derive(Debug, Clone)]
pub struct Item {
    /// Each has a leading extent of the item's rows where the model is batched.
    pub inputs: SmallVec<[Tensor; 2]>,
    /// Where results go that come before the last; without it they are not wanted.
    pub early: Option<EarlySender>,
    /// Where a call stands in a trace that it is the first item of.
    pub trace: Option<TraceContext>,
}

impl Item {
    /// An item with one result.
    #[must_use]
    pub const fn new(inputs: SmallVec<[Tensor; 2]>) -> Self {
        Self { inputs, early: None, trace: None }
    }
}

/// What comes back: the outputs in the signature's order.
pub type Output = Vec<Tensor>;

/// Makes an instance again after a panic.
pub type Rebuild = Box<dyn FnMut() -> Result<Box<dyn Backend>, BackendError> + Send>;

/// One instance of a model, ready to be run by a batcher. A lane's state is its state tensors.
pub struct Instance {
    backend: Box<dyn Backend>,
    rebuild: Rebuild,
    form: Form,
    health: Health,
    /// Used again for every step.
    ended: Vec<Ended>,
}

/// What warming up found out.
#[derive(Debug, Clone, PartialEq)]
pub struct WarmUp {
    /// How long a call of so many rows took, in rising order of rows.
    pub times: Vec<(usize, Duration)>,
    /// The largest difference between an answer alone and the same answer in a batch, relative to
    /// the largest value; `None` where the outputs are not numbers to compare.
    pub batch_difference: Option<f32>,
}

impl Instance {
    /// An instance, how to make another, and which of its axes are padded.
    #[must_use]
    pub fn new(backend: Box<dyn Backend>, rebuild: Rebuild, ragged: Arc<Ragged>) -> Self {
        let form = Form::of(&*backend, ragged);
        let health = backend.health();
        Self { backend, rebuild, form, health, ended: Vec::new() }
    }

    /// What the model takes and gives.
    #[must_use]
    pub fn signature(&self) -> &Signature {
        self.backend.signature()
    }

    /// Whether it can run calls, to be asked from any thread.
    #[must_use]
    pub fn health(&self) -> Health {
        self.health.clone()
    }

    /// Whether its calls are short enough for the threads that serve clients.
    #[must_use]
    pub fn is_instant(&self) -> bool {
        self.backend.is_instant()
    }

    /// The state in which a lane of this model begins: zeros.
    #[must_use]
    pub fn initial_state(&self) -> Vec<Tensor> {
        self.backend.states().iter().map(|state| zeros_of_state(state, 1)).collect()
    }

    /// Runs the model at rising batch sizes, so that its first client does not pay for it and the
    /// batcher knows what calls take. Free extents are taken as `length`.
    ///
    /// # Errors
    ///
    /// When the model fails on zeros of its own declared shape.
    pub fn warm_up(&mut self, max_rows: usize, length: usize) -> Result<WarmUp, BackendError> {
        let max_rows = if self.signature().batched { max_rows } else { 1 };
        let sizes = std::iter::successors(Some(1), |rows| Some(rows * 2))
            .take_while(|rows| *rows < max_rows)
            .chain([max_rows]);
        let mut times = Vec::new();
        for rows in sizes {
            let inputs = self.samples(rows, length);
            let mut took = self.time(&inputs, rows)?;
            if !is_measure(rows, took, times.last().copied()) {
                took = took.min(self.time(&inputs, rows)?);
            }
            times.push((rows, took));
        }
        let batch_difference = if 1 < max_rows { self.batch_difference(length)? } else { None };
        Ok(WarmUp { times, batch_difference })
    }

    fn time(&mut self, inputs: &[Tensor], rows: usize) -> Result<Duration, BackendError> {
        let began = Instant::now();
        self.backend.run(&Call { inputs, rows })?;
        Ok(began.elapsed())
    }

    /// How much an answer changes with who shares its batch.
    fn batch_difference(&mut self, length: usize) -> Result<Option<f32>, BackendError> {
        const ROWS: usize = 2;
        let together = self.samples(ROWS, length);
        let mut alone = Vec::new();
        for input in self.backend.signature().inputs.iter().zip(&together).map(|(_, tensor)| tensor)
        {
            let rows = split(0, input, &[1, 1], ROWS).map_err(failed)?;
            alone.extend(rows.into_iter().next());
        }
        for (state, _) in self.backend.states().iter().zip(&together) {
            alone.push(zeros_of_state(state, 1));
        }
        let together = self.backend.run(&Call { inputs: &together, rows: ROWS })?;
        let alone = self.backend.run(&Call { inputs: &alone, rows: 1 })?;
        let n_outputs = self.backend.signature().outputs.len();
        let mut worst: Option<f32> = None;
        for (at, (one, both)) in
            alone.tensors.iter().zip(&together.tensors).take(n_outputs).enumerate()
        {
            let rows = split(at, both, &[1, 1], ROWS).map_err(failed)?;
            let (Some(one), Some(both)) = (one.to_f32(), rows[0].to_f32()) else { continue };
            let scale = one.iter().fold(1e-6_f32, |most, value| most.max(value.abs()));
            let largest = one.iter().zip(&both).map(|(a, b)| (a - b).abs() / scale);
            worst =
                largest.fold(worst, |worst, difference| Some(worst.unwrap_or(0.0).max(difference)));
        }
        Ok(worst)
    }

    /// Inputs and states for a trial run: small numbers that differ from place to place and from
    /// row to row, so that rows of one batch do not look alike.
    fn samples(&self, rows: usize, length: usize) -> Vec<Tensor> {
        let signature = self.backend.signature();
        let inputs = signature.inputs.iter().map(|spec| {
            let own = spec.dims.iter().map(|dim| match dim {
                Dim::Fixed(extent) => *extent,
                Dim::Any => length,
            });
            let shape: Shape = signature.batched.then_some(rows).into_iter().chain(own).collect();
            match self.backend.trial_value(&spec.name) {
                Some(value) => filled(spec.dtype, shape, value),
                None => sample(spec.dtype, shape),
            }
        });
        let states = self.backend.states().iter().map(|state| zeros_of_state(state, rows));
        inputs.chain(states).collect()
    }

    fn run(
        &mut self,
        call: &BatchCall<'_, Item, Output, Vec<Tensor>>,
        replies: &mut Vec<Reply<Output, Vec<Tensor>>>,
    ) -> Result<(), BackendError> {
        let riders: SmallVec<[Rider<'_, Item, Vec<Tensor>>; 2]> = call.riders().collect();
        let item_rows: SmallVec<[usize; 8]> = riders.iter().map(|rider| rider.rows).collect();
        let Self { backend, form, .. } = self;
        let rows = if form.signature.batched { call.padded_rows } else { 1 };
        let inputs = form.gather(&riders, rows)?;
        let mut listeners = Listeners::new(form, &riders, &item_rows, rows);
        // The first that is sampled speaks for all; whoever keeps spans knows the call by that.
        let mut traces = riders.iter().filter_map(|rider| rider.item.trace);
        let trace = traces.clone().find(TraceContext::is_sampled).or_else(|| traces.next());
        let call = StackedCall { inputs: &inputs, rows, trace };
        let ran = backend.run_stacked(&call, &mut |early| listeners.deliver(early));
        let Outputs { tensors, failed: bad_rows } = match ran {
            // Who has had a result must not get it again, so the call is not run again in parts.
            Err(error) if listeners.has_delivered => {
                let cause = Arc::new(error) as Cause;
                let reply = |rider: &Rider<'_, _, _>| Reply::error(rider.id, Arc::clone(&cause));
                replies.extend(riders.iter().map(reply));
                return Ok(());
            }
            ran => ran?,
        };
        let mut first_row = 0;
        let bad: SmallVec<[Option<BackendError>; 2]> = riders
            .iter()
            .enumerate()
            .map(|(at, rider)| {
                let own = first_row..first_row + rider.rows;
                first_row = own.end;
                let found = bad_rows.iter().find(|(row, _)| own.contains(row));
                let found = found.map(|(_, message)| BackendError::Failed(message.clone()));
                found.or_else(|| listeners.trouble(at))
            })
            .collect();
        // Where nobody is left to give outputs to, a model need not have any.
        let shares = if bad.iter().all(Option::is_some) {
            Vec::new()
        } else {
            form.scatter(tensors, &riders, &item_rows, rows)?
        };
        let mut shares = shares.into_iter();
        for (rider, bad) in riders.iter().zip(bad) {
            let Scattered { outputs, states } = shares.next().unwrap_or_default();
            replies.push(match bad {
                Some(error) => Reply::error(rider.id, Arc::new(error)),
                None => {
                    Reply { id: rider.id, outcome: Ok(outputs), state: rider.state.map(|_| states) }
                }
            });
        }
        Ok(())
    }
}

impl Executor<Item, Output, Vec<Tensor>> for Instance {
    async fn execute(
        &mut self,
        call: &BatchCall<'_, Item, Output, Vec<Tensor>>,
        replies: &mut Vec<Reply<Output, Vec<Tensor>>>,
    ) -> Result<(), Cause> {
        let outcome = self.run(call, replies);
        outcome.or_else(|error| {
            let may_be_input = error.may_be_input();
            let cause = Arc::new(error) as Cause;
            if may_be_input {
                return Err(cause);
            }
            // The instance was lost. Smaller calls would find nobody to blame, only lose it again.
            replies.clear();
            replies.extend(call.riders().map(|rider| Reply::error(rider.id, Arc::clone(&cause))));
            Ok(())
        })
    }

    async fn ready(&mut self) {
        self.backend.ready();
    }

    async fn recover(&mut self) -> Result<(), Cause> {
        self.ended.clear();
        self.health.restarted();
        self.backend = (self.rebuild)().map_err(|error| Arc::new(error) as Cause)?;
        Ok(())
    }
}

impl Stepping<Item, Output> for Instance {
    fn board(&mut self, id: ItemId, item: &Item) -> Result<(), Cause> {
        let none = || BackendError::Failed("the model does not work in steps".to_owned());
        let boarded = match self.backend.steps() {
            Some(steps) => steps.board(id, &item.inputs),
            None => Err(none()),
        };
        boarded.map_err(|error| Arc::new(error) as Cause)
    }

    async fn step(&mut self, done: &mut Vec<Done<Output>>) {
        if let Some(steps) = self.backend.steps() {
            steps.step(&mut self.ended);
        }
        let cause = |error| Arc::new(error) as Cause;
        done.extend(self.ended.drain(..).map(|(id, outcome)| (id, outcome.map_err(cause))));
    }

    fn leave(&mut self, id: ItemId) {
        if let Some(steps) = self.backend.steps() {
            steps.leave(id);
        }
    }

    async fn ready(&mut self) {
        self.backend.ready();
    }

    async fn recover(&mut self) -> Result<(), Cause> {
        Executor::recover(self).await
    }
}

impl std::fmt::Debug for Instance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Instance").field("signature", self.signature()).finish_non_exhaustive()
    }
}

/// Runs an executor on a thread of its own until its batcher is closed and empty. Whether it ended
/// well is told to `ended`.
///
/// # Errors
///
/// When the system has no thread to give.
pub fn run_on_thread<E, T, R, S>(
    name: String,
    runner: Runner<E, T, R, S>,
    ended: impl FnOnce(Result<(), Cause>) + Send + 'static,
) -> std::io::Result<()>
where
    E: Executor<T, R, S> + 'static,
    T: Send + Sync + 'static,
    R: Send + 'static,
    S: Send + Sync + 'static,
{
    let thread = std::thread::Builder::new().name(name);
    thread.spawn(move || ended(runner.run_blocking())).map(drop)
}

/// As [`run_on_thread`], for an executor that works in steps.
///
/// # Errors
///
/// When the system has no thread to give.
pub fn step_on_thread<E, T, R, S>(
    name: String,
    stepper: Stepper<E, T, R, S>,
    ended: impl FnOnce(Result<(), Cause>) + Send + 'static,
) -> std::io::Result<()>
where
    E: Stepping<T, R> + 'static,
    T: Send + Sync + 'static,
    R: Send + 'static,
    S: Send + Sync + 'static,
{
    let thread = std::thread::Builder::new().name(name);
    thread.spawn(move || ended(stepper.run_blocking())).map(drop)
}

/// Whether a trial call says what a batch of its size takes. A row costs no more in a larger batch;
/// where it seems to, the call has paid for memory and kernels of its size, as the first of all does,
/// and another one is the measure.
fn is_measure(rows: usize, took: Duration, smaller: Option<(usize, Duration)>) -> bool {
    smaller.is_some_and(|(fewer, less)| {
        took.as_nanos() * (fewer as u128) < less.as_nanos() * (rows as u128)
    })
}

/// The same number everywhere.
#[expect(clippy::cast_possible_truncation, reason = "float casts saturate")]
fn filled(dtype: DType, shape: Shape, value: f32) -> Tensor {
    let n_elements: usize = shape.iter().product();
    let one: &[u8] = match dtype {
        DType::F32 => &value.to_le_bytes(),
        DType::F64 => &f64::from(value).to_le_bytes(),
        _ => &(value as i64).to_le_bytes()[..dtype.size().unwrap_or(4)],
    };
    Tensor::build(dtype, shape, one.repeat(n_elements).into()).expect("as many as the shape says")
}

/// Numbers that differ from place to place; zeros of types in which that says little.
fn sample(dtype: DType, shape: Shape) -> Tensor {
    let n_elements: usize = shape.iter().product();
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let value = |at: usize| (at.wrapping_mul(7919) % 101) as f32 / 101.0;
    match dtype {
        DType::F32 => {
            let values: Vec<f32> = (0..n_elements).map(value).collect();
            Tensor::from_f32(&shape, &values).expect("as many values as the shape says")
        }
        _ => zeros(dtype, shape),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_call_that_paid_for_its_size_is_no_measure() {
        let ms = Duration::from_millis;

        assert!(!is_measure(1, ms(300), None));
        assert!(!is_measure(2, ms(107), Some((1, ms(5)))));
        assert!(is_measure(2, ms(7), Some((1, ms(5)))));
        assert!(!is_measure(64, ms(130), Some((32, ms(14)))));
    }
}
