//! What every backend must do, as a suite that any backend's tests run in a few lines:
//!
//! ```
//! # use paceline_backend::{Simulated, conformance, simulated::Settings};
//! let build = || Ok(Box::new(Simulated::build(Settings::default(), 0).unwrap()) as _);
//! conformance::check(build).unwrap();
//! ```
//!
//! It holds a backend to what the executor and the batcher rely on: outputs are as declared, rows
//! do not know their neighbours, nothing is remembered between calls but what is handed over as
//! state, instances are alike, bytes need no alignment, and what does not fit is an error.

mod sample;

use std::panic::{AssertUnwindSafe, catch_unwind};

use paceline_types::{Dim, Tensor, TensorSpec};

use self::sample::{sample, shape_of};
use crate::{
    Backend, BackendError, Call, Outputs,
    form::zeros_of_state,
    join_rows, split_rows,
    stack::{concat, slice},
};

/// What a backend does that it must not, in a sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Fault(String);

/// How to check.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// What free extents are taken as.
    pub length: usize,
    /// The largest batch that is tried.
    pub max_rows: usize,
    /// How far an `FP32` answer may differ with who shares its call, relative to the largest value
    /// in it. Other types must be equal.
    pub tolerance: f32,
}

impl Default for Options {
    fn default() -> Self {
        Self { length: 16, max_rows: 5, tolerance: 1e-4 }
    }
}

/// Checks the backend that `build` makes.
///
/// # Errors
///
/// Says what it does that it must not.
pub fn check(build: impl FnMut() -> Result<Box<dyn Backend>, BackendError>) -> Result<(), Fault> {
    check_with(&Options::default(), build)
}

/// As [`check`], with other sizes or another tolerance.
///
/// # Errors
///
/// Says what it does that it must not.
pub fn check_with(
    options: &Options,
    mut build: impl FnMut() -> Result<Box<dyn Backend>, BackendError>,
) -> Result<(), Fault> {
    let mut open = || build().map_err(|error| Fault(format!("it cannot be built: {error}")));
    let mut subject = Subject { backend: open()?, options: *options };
    subject.declares_what_it_takes()?;
    let rows = if subject.backend.signature().batched { options.max_rows.max(2) } else { 1 };
    let batch = subject.inputs(rows);
    let answers = subject.run(&batch, rows)?;
    subject.run_again(&batch, rows, &answers)?;
    subject.takes_unaligned_bytes(&batch, rows, &answers)?;
    subject.refuses_what_does_not_fit(&batch, rows, &answers)?;
    if subject.backend.signature().batched {
        subject.rows_do_not_know_each_other(&batch, rows, &answers)?;
    }
    subject.carries_state()?;
    let mut other = Subject { backend: open()?, options: *options };
    let theirs = other.run(&batch, rows)?;
    subject.agree("another instance", &theirs, &answers)
}

struct Subject {
    backend: Box<dyn Backend>,
    options: Options,
}

/// A call's inputs and the states behind them, or its outputs and theirs.
type Tensors = Vec<Tensor>;

impl Subject {
    fn declares_what_it_takes(&self) -> Result<(), Fault> {
        let signature = self.backend.signature();
        let states = self.backend.states();
        if signature.inputs.is_empty() || signature.outputs.is_empty() {
            return Err(Fault("it declares no input or no output".to_owned()));
        }
        let inputs = signature.inputs.iter().chain(states.iter().map(|state| &state.input));
        let outputs = signature.outputs.iter().map(|spec| &*spec.name);
        for mut names in [
            inputs.map(|spec| &*spec.name).collect::<Vec<&str>>(),
            outputs.chain(states.iter().map(|state| &*state.output)).collect(),
        ] {
            names.sort_unstable();
            if let Some([twice, ..]) = names.windows(2).find(|pair| pair[0] == pair[1]) {
                return Err(Fault(format!("it declares `{twice}` twice")));
            }
        }
        Ok(())
    }

    /// Inputs whose rows differ, and states as every lane begins with.
    fn inputs(&self, rows: usize) -> Tensors {
        let signature = self.backend.signature();
        let given = signature.inputs.iter().map(|spec| {
            let rows = signature.batched.then_some(rows);
            sample(spec.dtype, shape_of(spec, rows, self.options.length))
        });
        let states = self.backend.states().iter();
        given.chain(states.map(|state| zeros_of_state(state, rows))).collect()
    }

    /// One call that must go well, its answers checked against what is declared.
    fn run(&mut self, inputs: &[Tensor], rows: usize) -> Result<Tensors, Fault> {
        let Outputs { tensors, failed } = self
            .call(inputs, rows)?
            .map_err(|error| Fault(format!("a good call of {rows} rows fails: {error}")))?;
        if let Some((row, message)) = failed.first() {
            return Err(Fault(format!("row {row} of a good call fails: {message}")));
        }
        let (signature, states) = (self.backend.signature(), self.backend.states());
        let expected = signature.outputs.len() + states.len();
        if tensors.len() != expected {
            return Err(Fault(format!("it gives {} tensors of {expected}", tensors.len())));
        }
        for (spec, tensor) in signature.outputs.iter().zip(&tensors) {
            if !is_as_declared(spec, tensor, signature.batched.then_some(rows)) {
                return Err(Fault(format!(
                    "output `{}` is {} {:?} in a call of {rows} rows, which is not as declared",
                    spec.name,
                    tensor.dtype(),
                    tensor.shape()
                )));
            }
        }
        let (given, next) =
            (&inputs[signature.inputs.len()..], &tensors[signature.outputs.len()..]);
        for ((state, given), next) in states.iter().zip(given).zip(next) {
            if (given.dtype(), given.shape()) != (next.dtype(), next.shape()) {
                return Err(Fault(format!(
                    "state `{}` goes in as {:?} and comes out as {:?}",
                    state.input.name,
                    given.shape(),
                    next.shape()
                )));
            }
        }
        Ok(tensors)
    }

    /// One call that may go any way but a panic.
    fn call(
        &mut self,
        inputs: &[Tensor],
        rows: usize,
    ) -> Result<Result<Outputs, BackendError>, Fault> {
        let backend = &mut self.backend;
        let call = Call { inputs, rows };
        catch_unwind(AssertUnwindSafe(|| backend.run(&call)))
            .map_err(|_| Fault(format!("it panics on a call of {rows} rows")))
    }

    fn run_again(&mut self, batch: &[Tensor], rows: usize, good: &[Tensor]) -> Result<(), Fault> {
        let again = self.run(batch, rows)?;
        self.agree("the same call again", &again, good)
    }

    fn takes_unaligned_bytes(
        &mut self,
        batch: &[Tensor],
        rows: usize,
        good: &[Tensor],
    ) -> Result<(), Fault> {
        let moved: Tensors = batch.iter().map(unaligned).collect::<Result<_, _>>()?;
        let answers = self.run(&moved, rows)?;
        self.agree("the same call with bytes at odd addresses", &answers, good)
    }

    fn refuses_what_does_not_fit(
        &mut self,
        batch: &[Tensor],
        rows: usize,
        good: &[Tensor],
    ) -> Result<(), Fault> {
        if self.call(&batch[..batch.len() - 1], rows)?.is_ok() {
            return Err(Fault("it takes a call with an input missing".to_owned()));
        }
        // What is wrong with a tensor itself was found long before a backend sees it; it may
        // do what it likes, but not panic and not be the worse for it.
        let mut odd = batch.to_vec();
        odd[0] = sample(odd[0].dtype(), [1, 1, 1, 1, 1, 1, 1].as_slice().into());
        self.call(&odd, rows)?.ok();
        self.run_again(batch, rows, good)
            .map_err(|Fault(fault)| Fault(format!("after a bad call, {fault}")))
    }

    fn rows_do_not_know_each_other(
        &mut self,
        batch: &[Tensor],
        rows: usize,
        good: &[Tensor],
    ) -> Result<(), Fault> {
        let given = self.rows_of(batch, rows)?;
        let expected = self.rows_of_answers(good, rows)?;
        for (at, (given, expected)) in given.iter().zip(&expected).enumerate() {
            let alone = self.run(given, 1)?;
            self.agree(&format!("row {at} alone"), &alone, expected)?;
        }
        let backwards: Vec<&Tensors> = given.iter().rev().collect();
        let backwards = self.stack(&backwards)?;
        let answers = self.run(&backwards, rows)?;
        for (at, answer) in self.rows_of_answers(&answers, rows)?.iter().rev().enumerate() {
            self.agree(&format!("row {at} in another place"), answer, &expected[at])?;
        }
        Ok(())
    }

    /// Two lanes in one call, step by step, are as each alone.
    fn carries_state(&mut self) -> Result<(), Fault> {
        const STEPS: usize = 3;
        let n_inputs = self.backend.signature().inputs.len();
        let n_outputs = self.backend.signature().outputs.len();
        if self.backend.states().is_empty() || !self.backend.signature().batched {
            return Ok(());
        }
        let mut together = self.inputs(2);
        let mut alone = self.rows_of(&together, 2)?;
        for step in 0..STEPS {
            let answers = self.run(&together, 2)?;
            together.splice(n_inputs.., answers[n_outputs..].iter().cloned());
            let answers = self.rows_of_answers(&answers, 2)?;
            for (lane, own) in alone.iter_mut().enumerate() {
                let own_answers = self.run(own, 1)?;
                own.splice(n_inputs.., own_answers[n_outputs..].iter().cloned());
                let what = format!("step {step} of lane {lane} alone");
                self.agree(&what, &own_answers, &answers[lane])?;
            }
        }
        Ok(())
    }

    /// Each row's inputs and states.
    fn rows_of(&self, batch: &[Tensor], rows: usize) -> Result<Vec<Tensors>, Fault> {
        self.split(batch, self.backend.signature().inputs.len(), rows)
    }

    /// Each row's outputs and next states.
    fn rows_of_answers(&self, batch: &[Tensor], rows: usize) -> Result<Vec<Tensors>, Fault> {
        self.split(batch, self.backend.signature().outputs.len(), rows)
    }

    fn split(&self, batch: &[Tensor], n_own: usize, rows: usize) -> Result<Vec<Tensors>, Fault> {
        let mut split = vec![Tensors::new(); rows];
        for tensor in &batch[..n_own] {
            let parts = split_rows(tensor, &vec![1; rows]).map_err(|error| wrong(&error))?;
            split.iter_mut().zip(parts).for_each(|(row, part)| row.push(part));
        }
        for (state, tensor) in self.backend.states().iter().zip(&batch[n_own..]) {
            for (at, row) in split.iter_mut().enumerate() {
                row.push(slice(tensor, state.batch_axis, at).map_err(|error| wrong(&error))?);
            }
        }
        Ok(split)
    }

    /// Rows' inputs and states as one call's.
    fn stack(&self, rows: &[&Tensors]) -> Result<Tensors, Fault> {
        let n_inputs = self.backend.signature().inputs.len();
        let column = |at: usize| rows.iter().map(|row| &row[at]).collect::<Vec<_>>();
        let inputs = (0..n_inputs).map(|at| join_rows(&column(at)));
        let states = self.backend.states().iter().enumerate();
        let states = states.map(|(at, state)| concat(&column(n_inputs + at), state.batch_axis));
        inputs.chain(states).map(|tensor| tensor.map_err(|error| wrong(&error))).collect()
    }

    fn agree(&self, what: &str, found: &[Tensor], expected: &[Tensor]) -> Result<(), Fault> {
        for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
            let is_close = match (found.to_f32(), expected.to_f32()) {
                (Some(found), Some(expected)) => self.is_close(&found, &expected),
                _ => found.data() == expected.data(),
            };
            if found.shape() != expected.shape() || !is_close {
                return Err(Fault(format!("{what} has another answer in its tensor {at}")));
            }
        }
        Ok(())
    }

    fn is_close(&self, found: &[f32], expected: &[f32]) -> bool {
        let largest = expected.iter().fold(1e-6_f32, |most, value| most.max(value.abs()));
        let most = largest * self.options.tolerance;
        // A NaN is equal to none, so that it must stand in the same place.
        let is_close = |(a, b): (&f32, &f32)| (a - b).abs() <= most || a.to_bits() == b.to_bits();
        found.len() == expected.len() && found.iter().zip(expected).all(is_close)
    }
}

fn is_as_declared(spec: &TensorSpec, tensor: &Tensor, rows: Option<usize>) -> bool {
    let batch = usize::from(rows.is_some());
    let shape = tensor.shape();
    let fits = |(dim, extent): (&Dim, &usize)| *dim == Dim::Any || *dim == Dim::Fixed(*extent);
    tensor.dtype() == spec.dtype
        && shape.len() == batch + spec.dims.len()
        && shape[..batch].first().copied() == rows
        && spec.dims.iter().zip(&shape[batch..]).all(fits)
}

/// The same tensor, its bytes at an odd address.
fn unaligned(tensor: &Tensor) -> Result<Tensor, Fault> {
    let mut bytes = vec![0; tensor.data().len() + 2];
    let start = 1 + bytes.as_ptr().addr() % 2;
    bytes[start..start + tensor.data().len()].copy_from_slice(tensor.data());
    let data = bytes::Bytes::from(bytes).slice(start..start + tensor.data().len());
    Tensor::build(tensor.dtype(), tensor.shape().into(), data)
        .map_err(|error| Fault(error.to_string()))
}

fn wrong(error: &crate::StackError) -> Fault {
    Fault(format!("its tensors cannot be taken apart: {error}"))
}
