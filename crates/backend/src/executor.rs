//! The one owner of one instance of a model: stacks a batch, runs it, splits the answers.

use std::{sync::Arc, time::Duration};

use paceline_batch::{Call as BatchCall, Cause, Executor, Reply, Rider, Runner};
use paceline_types::{DType, Dim, Shape, Signature, Tensor};
use smallvec::SmallVec;
use tokio::time::Instant;

use crate::{
    Backend, BackendError, Call, Outputs, Ragged, StateSpec,
    stack::{concat, crop, slice, split, stack},
};

/// What is submitted: the inputs in the signature's order, without those that are made here.
#[derive(Debug, Clone)]
pub struct Item {
    /// Each has a leading extent of the item's rows where the model is batched.
    pub inputs: SmallVec<[Tensor; 2]>,
}

/// What comes back: the outputs in the signature's order.
pub type Output = Vec<Tensor>;

/// Makes an instance again after a panic.
pub type Rebuild = Box<dyn FnMut() -> Result<Box<dyn Backend>, BackendError> + Send>;

/// One instance of a model, ready to be run by a batcher. A lane's state is its state tensors.
pub struct Instance {
    backend: Box<dyn Backend>,
    rebuild: Rebuild,
    ragged: Arc<Ragged>,
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
        Self { backend, rebuild, ragged }
    }

    /// What the model takes and gives.
    #[must_use]
    pub fn signature(&self) -> &Signature {
        self.backend.signature()
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
            if times.is_empty() {
                // The first call of all pays for pages, caches and kernels; it is no measure.
                self.backend.run(&Call { inputs: &self.samples(rows, length), rows })?;
            }
            let inputs = self.samples(rows, length);
            let began = Instant::now();
            self.backend.run(&Call { inputs: &inputs, rows })?;
            times.push((rows, began.elapsed()));
        }
        let batch_difference = if 1 < max_rows { self.batch_difference(length)? } else { None };
        Ok(WarmUp { times, batch_difference })
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
            sample(spec.dtype, shape)
        });
        let states = self.backend.states().iter().map(|state| zeros_of_state(state, rows));
        inputs.chain(states).collect()
    }

    fn run(
        &mut self,
        call: &BatchCall<'_, Item, Output, Vec<Tensor>>,
        replies: &mut Vec<Reply<Output, Vec<Tensor>>>,
    ) -> Result<(), BackendError> {
        let riders: SmallVec<[Rider<'_, Item, Vec<Tensor>>; 8]> = call.riders().collect();
        let item_rows: SmallVec<[usize; 8]> = riders.iter().map(|rider| rider.rows).collect();
        let rows = if self.signature().batched { call.padded_rows } else { 1 };
        let inputs = self.gather(&riders, rows)?;
        let Outputs { tensors, failed: bad_rows } =
            self.backend.run(&Call { inputs: &inputs, rows })?;
        let mut split_outputs = self.scatter(tensors, &riders, &item_rows, rows)?;
        let mut first_row = 0;
        for (at, rider) in riders.iter().enumerate() {
            let own = first_row..first_row + rider.rows;
            first_row = own.end;
            let bad = bad_rows.iter().find(|(row, _)| own.contains(row));
            let Scattered { outputs, states } = std::mem::take(&mut split_outputs[at]);
            replies.push(match bad {
                Some((_, message)) => {
                    Reply::error(rider.id, Arc::new(BackendError::Failed(message.clone())))
                }
                None => {
                    Reply { id: rider.id, outcome: Ok(outputs), state: rider.state.map(|_| states) }
                }
            });
        }
        Ok(())
    }

    /// The call's inputs: each of the items' stacked, lengths and mask made, states joined.
    fn gather(
        &self,
        riders: &[Rider<'_, Item, Vec<Tensor>>],
        rows: usize,
    ) -> Result<Vec<Tensor>, BackendError> {
        let signature = self.backend.signature();
        let mut given = 0;
        let mut inputs = Vec::with_capacity(signature.inputs.len());
        for at in 0..signature.inputs.len() {
            if let Some((_, dtype)) = self.ragged.lengths.filter(|(input, _)| *input == at) {
                inputs.push(lengths(riders, rows, dtype));
            } else if let Some((_, dtype)) = self.ragged.mask.filter(|(input, _)| *input == at) {
                inputs.push(mask(riders, rows, dtype));
            } else {
                let axis = self
                    .ragged
                    .inputs
                    .iter()
                    .find(|(input, _)| *input == at)
                    .map(|&(_, axis)| axis);
                let parts: SmallVec<[&Tensor; 8]> =
                    riders.iter().filter_map(|rider| rider.item.inputs.get(given)).collect();
                given += 1;
                if parts.len() != riders.len() {
                    return Err(BackendError::Failed(format!(
                        "input `{}` is missing",
                        signature.inputs[at].name
                    )));
                }
                inputs.push(if signature.batched {
                    stack(&parts, rows, axis).map_err(failed)?
                } else {
                    parts[0].clone()
                });
            }
        }
        for (at, state) in self.backend.states().iter().enumerate() {
            let fresh = zeros_of_state(state, 1);
            let mut parts: Vec<&Tensor> = riders
                .iter()
                .map(|rider| rider.state.and_then(|states| states.get(at)).unwrap_or(&fresh))
                .collect();
            parts.resize(rows.max(parts.len()), &fresh);
            inputs.push(concat(&parts, state.batch_axis).map_err(failed)?);
        }
        Ok(inputs)
    }

    /// The call's outputs and next states, for each item.
    fn scatter(
        &self,
        mut tensors: Vec<Tensor>,
        riders: &[Rider<'_, Item, Vec<Tensor>>],
        item_rows: &[usize],
        rows: usize,
    ) -> Result<Vec<Scattered>, BackendError> {
        let signature = self.backend.signature();
        let (n_outputs, n_states) = (signature.outputs.len(), self.backend.states().len());
        if tensors.len() != n_outputs + n_states {
            return Err(BackendError::Failed(format!(
                "the model gave {} tensors, {} are declared",
                tensors.len(),
                n_outputs + n_states
            )));
        }
        let mut scattered: Vec<Scattered> = Vec::new();
        scattered.resize_with(riders.len(), Scattered::default);
        let states = tensors.split_off(n_outputs);
        if !signature.batched || (item_rows.len() == 1 && item_rows[0] == rows) {
            scattered[0].outputs = tensors;
        } else {
            for (at, tensor) in tensors.iter().enumerate() {
                let axis = self.ragged.outputs.iter().find(|(output, _)| *output == at);
                let parts = split(at, tensor, item_rows, rows).map_err(failed)?;
                for ((item, part), rider) in scattered.iter_mut().zip(parts).zip(riders) {
                    item.outputs.push(match axis {
                        Some(&(_, axis)) => crop(&part, axis, rider.length as usize),
                        None => part,
                    });
                }
            }
        }
        for (spec, state) in self.backend.states().iter().zip(&states) {
            for (row, item) in scattered.iter_mut().enumerate() {
                item.states.push(slice(state, spec.batch_axis, row).map_err(failed)?);
            }
        }
        Ok(scattered)
    }
}

/// One item's share of a call's tensors.
#[derive(Debug, Default)]
struct Scattered {
    outputs: Output,
    states: Vec<Tensor>,
}

impl Executor<Item, Output, Vec<Tensor>> for Instance {
    async fn execute(
        &mut self,
        call: &BatchCall<'_, Item, Output, Vec<Tensor>>,
        replies: &mut Vec<Reply<Output, Vec<Tensor>>>,
    ) -> Result<(), Cause> {
        self.run(call, replies).map_err(|error| Arc::new(error) as Cause)
    }

    async fn recover(&mut self) -> Result<(), Cause> {
        self.backend = (self.rebuild)().map_err(|error| Arc::new(error) as Cause)?;
        Ok(())
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

#[expect(clippy::needless_pass_by_value, reason = "the form that `map_err` takes")]
fn failed(error: crate::StackError) -> BackendError {
    BackendError::Failed(error.to_string())
}

/// A row's worth of zeros for each of `rows` rows of a state.
fn zeros_of_state(state: &StateSpec, rows: usize) -> Tensor {
    let mut shape: Shape = state
        .input
        .dims
        .iter()
        .map(|dim| match dim {
            Dim::Fixed(extent) => *extent,
            Dim::Any => 0,
        })
        .collect();
    shape.insert(state.batch_axis.min(shape.len()), rows);
    zeros(state.input.dtype, shape)
}

fn zeros(dtype: DType, shape: Shape) -> Tensor {
    let n_bytes = shape.iter().product::<usize>() * dtype.size().unwrap_or(4);
    Tensor::build(dtype, shape, vec![0; n_bytes].into()).expect("as many bytes as the shape says")
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

/// For each row, its item's length.
fn lengths(riders: &[Rider<'_, Item, Vec<Tensor>>], rows: usize, dtype: DType) -> Tensor {
    let lengths = riders.iter().flat_map(|rider| std::iter::repeat_n(rider.length, rider.rows));
    integers(lengths, [rows].as_slice().into(), dtype)
}

/// For each row and place, 1 where its item has something.
fn mask(riders: &[Rider<'_, Item, Vec<Tensor>>], rows: usize, dtype: DType) -> Tensor {
    let longest = riders.iter().map(|rider| rider.length).max().unwrap_or(0);
    let lengths = riders.iter().flat_map(|rider| std::iter::repeat_n(rider.length, rider.rows));
    let places = lengths.flat_map(|length| (0..longest).map(move |at| u32::from(at < length)));
    integers(places, [rows, longest as usize].as_slice().into(), dtype)
}

/// Whole numbers in the given type, followed by zeros for padding rows.
fn integers(values: impl Iterator<Item = u32>, shape: Shape, dtype: DType) -> Tensor {
    let size = dtype.size().unwrap_or(1);
    let mut data = Vec::with_capacity(shape.iter().product::<usize>() * size);
    for value in values {
        match dtype {
            #[expect(clippy::cast_precision_loss, reason = "lengths are below 2^24")]
            DType::F32 => data.extend((value as f32).to_le_bytes()),
            _ => data.extend(&u64::from(value).to_le_bytes()[..size]),
        }
    }
    data.resize(shape.iter().product::<usize>() * size, 0);
    Tensor::build(dtype, shape, data.into()).expect("as many bytes as the shape says")
}
