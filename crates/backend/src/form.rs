//! What a model's tensors are like, and how a batch is put together and taken apart by it.

use std::sync::Arc;

use paceline_batch::Rider;
use paceline_types::{DType, Dim, Shape, Signature, Tensor};
use smallvec::SmallVec;

use crate::{
    Backend, BackendError, Item, Output, Ragged, Stacked, StateSpec,
    stack::{concat, crop, slice, split, stack},
};

/// What a model's tensors are like.
#[derive(Debug)]
pub(crate) struct Form {
    pub(crate) signature: Signature,
    pub(crate) states: Vec<StateSpec>,
    pub(crate) ragged: Arc<Ragged>,
    /// Whether it gives results before the last.
    pub(crate) streams: bool,
}

impl Form {
    pub(crate) fn of(backend: &dyn Backend, ragged: Arc<Ragged>) -> Self {
        Self {
            signature: backend.signature().clone(),
            states: backend.states().to_vec(),
            ragged,
            streams: backend.streams(),
        }
    }

    /// The call's inputs: each of the items' stacked, lengths and mask made, states joined.
    pub(crate) fn gather(
        &self,
        riders: &[Rider<'_, Item, Vec<Tensor>>],
        rows: usize,
    ) -> Result<Vec<Stacked>, BackendError> {
        let signature = &self.signature;
        let mut given = 0;
        let mut inputs = Vec::with_capacity(signature.inputs.len());
        for at in 0..signature.inputs.len() {
            if let Some((_, dtype)) = self.ragged.lengths.filter(|(input, _)| *input == at) {
                inputs.push(lengths(riders, rows, dtype).into());
            } else if let Some((_, dtype)) = self.ragged.mask.filter(|(input, _)| *input == at) {
                inputs.push(mask(riders, rows, dtype).into());
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
                    parts[0].clone().into()
                });
            }
        }
        for (at, state) in self.states.iter().enumerate() {
            let fresh = zeros_of_state(state, 1);
            let mut parts: Vec<&Tensor> = riders
                .iter()
                .map(|rider| rider.state.and_then(|states| states.get(at)).unwrap_or(&fresh))
                .collect();
            parts.resize(rows.max(parts.len()), &fresh);
            inputs.push(concat(&parts, state.batch_axis).map_err(failed)?.into());
        }
        Ok(inputs)
    }

    /// The call's outputs and next states, for each item.
    pub(crate) fn scatter(
        &self,
        mut tensors: Vec<Tensor>,
        riders: &[Rider<'_, Item, Vec<Tensor>>],
        item_rows: &[usize],
        rows: usize,
    ) -> Result<Vec<Scattered>, BackendError> {
        let signature = &self.signature;
        let (n_outputs, n_states) = (signature.outputs.len(), self.states.len());
        if self.streams && tensors.is_empty() {
            // All that there was came early.
            return Ok(std::iter::repeat_with(Scattered::default).take(riders.len()).collect());
        }
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
        for (spec, state) in self.states.iter().zip(&states) {
            for (row, item) in scattered.iter_mut().enumerate() {
                item.states.push(slice(state, spec.batch_axis, row).map_err(failed)?);
            }
        }
        Ok(scattered)
    }
}

/// One item's share of a call's tensors.
#[derive(Debug, Default)]
pub(crate) struct Scattered {
    pub(crate) outputs: Output,
    pub(crate) states: Vec<Tensor>,
}

#[expect(clippy::needless_pass_by_value, reason = "the form that `map_err` takes")]
pub(crate) fn failed(error: crate::StackError) -> BackendError {
    BackendError::Failed(error.to_string())
}

/// A row's worth of zeros for each of `rows` rows of a state.
pub(crate) fn zeros_of_state(state: &StateSpec, rows: usize) -> Tensor {
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

pub(crate) fn zeros(dtype: DType, shape: Shape) -> Tensor {
    let n_bytes = shape.iter().product::<usize>() * dtype.size().unwrap_or(4);
    Tensor::build(dtype, shape, vec![0; n_bytes].into()).expect("as many bytes as the shape says")
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
