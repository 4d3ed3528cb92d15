//! The file of weights: tensors by name, each of the kind and shape that is expected.

use safetensors::{Dtype, SafeTensors, tensor::TensorView};

use crate::LoadError;

/// A file of weights that was read.
pub(crate) struct File<'a>(pub(crate) SafeTensors<'a>);

/// A matrix of bytes: input after input, the weight of each output.
pub(crate) struct Bytes<'a> {
    pub(crate) weights: &'a [u8],
    pub(crate) zero: u8,
    pub(crate) scale: f32,
}

impl File<'_> {
    /// Numbers of this shape.
    pub(crate) fn numbers(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, LoadError> {
        let tensor = self.tensor(name, Dtype::F32, shape)?;
        let numbers: Vec<f32> =
            tensor.data().as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        if numbers.iter().all(|number| number.is_finite()) {
            Ok(numbers)
        } else {
            Err(LoadError::NotFinite { name: name.to_owned() })
        }
    }

    /// A matrix of bytes with its scale and zero point.
    pub(crate) fn bytes(&self, name: &str, shape: [usize; 2]) -> Result<Bytes<'_>, LoadError> {
        let weights = self.0.tensor(name).map_err(|_| LoadError::Missing { name: name.to_owned() });
        let weights = expect(name, weights?, Dtype::U8, &shape)?.data();
        let zero = self.tensor(&format!("{name}.zero"), Dtype::U8, &[1])?.data()[0];
        let scale = self.numbers(&format!("{name}.scale"), &[1])?[0];
        Ok(Bytes { weights, zero, scale })
    }

    fn tensor(
        &self,
        name: &str,
        kind: Dtype,
        shape: &[usize],
    ) -> Result<TensorView<'_>, LoadError> {
        let tensor = self.0.tensor(name).map_err(|_| LoadError::Missing { name: name.to_owned() });
        expect(name, tensor?, kind, shape)
    }
}

fn expect<'a>(
    name: &str,
    tensor: TensorView<'a>,
    kind: Dtype,
    shape: &[usize],
) -> Result<TensorView<'a>, LoadError> {
    if tensor.dtype() == kind && tensor.shape() == shape {
        return Ok(tensor);
    }
    Err(LoadError::WrongTensor {
        name: name.to_owned(),
        found: format!("{:?} {:?}", tensor.dtype(), tensor.shape()),
        expected: format!("{kind:?} {shape:?}"),
    })
}
