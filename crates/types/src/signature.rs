//! What a model takes and gives, and whether given tensors fit it.

use std::fmt;

use crate::{DType, Tensor};

/// One extent of a declared shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dim {
    /// Always this many.
    Fixed(usize),
    /// Any number, decided by each item.
    Any,
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(extent) => write!(f, "{extent}"),
            Self::Any => f.write_str("-1"),
        }
    }
}

/// One input or output. The batch extent, where the model has one, is not listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorSpec {
    /// Its name in the model.
    pub name: String,
    /// Its element type.
    pub dtype: DType,
    /// Its extents without the batch.
    pub dims: Vec<Dim>,
}

/// What a model takes and gives.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Signature {
    /// In the order in which tensors are handed over.
    pub inputs: Vec<TensorSpec>,
    /// In the order in which tensors come back.
    pub outputs: Vec<TensorSpec>,
    /// Whether every tensor has a leading batch extent, so that items can share a call.
    pub batched: bool,
}

/// Tensors that a model cannot take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MismatchError {
    /// Too few or too many.
    #[error("the model takes {expected} inputs ({names}), but {actual} were given")]
    Count {
        /// How many it takes.
        expected: usize,
        /// Their names, for the reader.
        names: String,
        /// How many came.
        actual: usize,
    },
    /// The wrong element type.
    #[error("input `{name}` is {expected}, but {actual} was given")]
    DType {
        /// Which input.
        name: String,
        /// As declared.
        expected: DType,
        /// As given.
        actual: DType,
    },
    /// The wrong shape.
    #[error("input `{name}` has shape [{expected}], but {actual:?} was given")]
    Shape {
        /// Which input.
        name: String,
        /// As declared, `-1` for any extent.
        expected: String,
        /// As given.
        actual: Vec<usize>,
    },
    /// Inputs that disagree on how many rows the item has.
    #[error("input `{name}` has {actual} rows where the inputs before it have {expected}")]
    Rows {
        /// Which input.
        name: String,
        /// Of the first input.
        expected: usize,
        /// Of this one.
        actual: usize,
    },
    /// An item with no row at all.
    #[error("input `{name}` has no rows")]
    NoRows {
        /// Which input.
        name: String,
    },
}

impl Signature {
    /// Checks tensors, given in the signature's order, and says how many rows they hold: the
    /// leading extent where the model is batched, else one.
    ///
    /// # Errors
    ///
    /// Names the first input that does not fit, and how.
    pub fn rows_of(&self, inputs: &[Tensor]) -> Result<usize, MismatchError> {
        if inputs.len() != self.inputs.len() {
            return Err(MismatchError::Count {
                expected: self.inputs.len(),
                names: self.inputs.iter().map(|spec| &*spec.name).collect::<Vec<_>>().join(", "),
                actual: inputs.len(),
            });
        }
        let mut rows = None;
        for (spec, tensor) in self.inputs.iter().zip(inputs) {
            let name = || spec.name.clone();
            if tensor.dtype() != spec.dtype {
                return Err(MismatchError::DType {
                    name: name(),
                    expected: spec.dtype,
                    actual: tensor.dtype(),
                });
            }
            if !spec.fits(tensor.shape(), self.batched) {
                return Err(MismatchError::Shape {
                    name: name(),
                    expected: spec.shape_text(self.batched),
                    actual: tensor.shape().to_vec(),
                });
            }
            let own = if self.batched { tensor.shape()[0] } else { 1 };
            if own == 0 {
                return Err(MismatchError::NoRows { name: name() });
            }
            let expected = *rows.get_or_insert(own);
            if own != expected {
                return Err(MismatchError::Rows { name: name(), expected, actual: own });
            }
        }
        Ok(rows.unwrap_or(1))
    }
}

impl TensorSpec {
    /// Whether a shape is one that this input or output may have.
    #[must_use]
    pub fn fits(&self, shape: &[usize], batched: bool) -> bool {
        let own = if batched { shape.get(1..) } else { Some(shape) };
        own.is_some_and(|own| {
            own.len() == self.dims.len()
                && own.iter().zip(&self.dims).all(|(&extent, dim)| match dim {
                    Dim::Fixed(fixed) => *fixed == extent,
                    Dim::Any => true,
                })
        })
    }

    /// The declared shape for a reader, `-1` for any extent.
    #[must_use]
    pub fn shape_text(&self, batched: bool) -> String {
        let batch = batched.then_some(Dim::Any);
        batch.iter().chain(&self.dims).map(Dim::to_string).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signature(batched: bool) -> Signature {
        let spec = |name: &str, dims: &[Dim]| TensorSpec {
            name: name.to_owned(),
            dtype: DType::F32,
            dims: dims.to_vec(),
        };
        Signature {
            inputs: vec![spec("audio", &[Dim::Any]), spec("gain", &[Dim::Fixed(1)])],
            outputs: vec![],
            batched,
        }
    }

    fn zeros(shape: &[usize]) -> Tensor {
        Tensor::from_f32(shape, &vec![0.0; shape.iter().product()]).unwrap()
    }

    #[test]
    fn rows_are_the_leading_extent_where_the_model_is_batched() {
        assert_eq!(signature(true).rows_of(&[zeros(&[3, 80]), zeros(&[3, 1])]), Ok(3));
        assert_eq!(signature(false).rows_of(&[zeros(&[80]), zeros(&[1])]), Ok(1));
    }

    #[test]
    fn a_misfit_names_the_input_and_what_is_allowed() {
        let text = |inputs: &[Tensor]| signature(true).rows_of(inputs).unwrap_err().to_string();

        assert_eq!(
            text(&[zeros(&[2, 8]), zeros(&[2, 2])]),
            "input `gain` has shape [-1, 1], but [2, 2] was given"
        );
        assert_eq!(
            text(&[zeros(&[2, 8]), zeros(&[3, 1])]),
            "input `gain` has 3 rows where the inputs before it have 2"
        );
        assert_eq!(
            text(&[zeros(&[2, 8])]),
            "the model takes 2 inputs (audio, gain), but 1 were given"
        );
        assert_eq!(text(&[zeros(&[0, 8]), zeros(&[0, 1])]), "input `audio` has no rows");
        assert!(signature(true).rows_of(&[zeros(&[]), zeros(&[1, 1])]).is_err());
    }
}
