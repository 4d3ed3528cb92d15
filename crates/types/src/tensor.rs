//! Tensors: a dtype, a shape and bytes that are shared, never copied.

use bytes::Bytes;
use smallvec::SmallVec;

use crate::DType;

/// Extents, outermost first. Four fit without an allocation.
pub type Shape = SmallVec<[usize; 4]>;

/// A dense little-endian, row-major tensor. Its length always agrees with its shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    dtype: DType,
    shape: Shape,
    data: Bytes,
}

/// Bytes that do not make the tensor they were said to make.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TensorError {
    /// The product of the extents does not fit in memory.
    #[error("shape {0:?} has more elements than can be addressed")]
    TooLarge(Vec<usize>),
    /// The data's length contradicts dtype and shape.
    #[error("{dtype} tensor of shape {shape:?} takes {expected} bytes, but {actual} were given")]
    WrongLength {
        /// As declared.
        dtype: DType,
        /// As declared.
        shape: Vec<usize>,
        /// What these two ask for.
        expected: usize,
        /// What there was.
        actual: usize,
    },
    /// A BYTES tensor's length prefixes do not walk to its end, or count wrong.
    #[error("BYTES tensor holds {actual} well-formed elements where its shape says {expected}")]
    WrongElements {
        /// The product of the extents.
        expected: usize,
        /// How many length-prefixed elements there are.
        actual: usize,
    },
}

impl Tensor {
    /// A tensor, once its length is known to agree with its shape.
    ///
    /// # Errors
    ///
    /// When it does not.
    pub fn build(dtype: DType, shape: Shape, data: Bytes) -> Result<Self, TensorError> {
        let elements = elements(&shape)?;
        if let Some(size) = dtype.size() {
            let expected =
                elements.checked_mul(size).ok_or_else(|| TensorError::TooLarge(shape.to_vec()))?;
            if expected != data.len() {
                return Err(TensorError::WrongLength {
                    dtype,
                    shape: shape.to_vec(),
                    expected,
                    actual: data.len(),
                });
            }
        } else {
            let mut walk = ByteElements(&data);
            let actual = walk.by_ref().take(elements).count();
            if actual != elements || !walk.0.is_empty() {
                return Err(TensorError::WrongElements {
                    expected: elements,
                    actual: actual + walk.count(),
                });
            }
        }
        Ok(Self { dtype, shape, data })
    }

    /// A tensor of single-precision numbers.
    ///
    /// # Errors
    ///
    /// When `values` are not as many as `shape` says.
    pub fn from_f32(shape: &[usize], values: &[f32]) -> Result<Self, TensorError> {
        let data: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Self::build(DType::F32, shape.into(), data.into())
    }

    /// The type of its elements.
    #[must_use]
    pub const fn dtype(&self) -> DType {
        self.dtype
    }

    /// Its extents, outermost first.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Its bytes, shared.
    #[must_use]
    pub const fn data(&self) -> &Bytes {
        &self.data
    }

    /// How many elements it has.
    #[must_use]
    pub fn n_elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// The numbers of an `FP32` tensor; `None` for any other type.
    #[must_use]
    pub fn to_f32(&self) -> Option<Vec<f32>> {
        (self.dtype == DType::F32).then(|| {
            let (chunks, _) = self.data.as_chunks::<4>();
            chunks.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
        })
    }

    /// The elements of a `BYTES` tensor, in order; none for any other type.
    pub fn byte_elements(&self) -> impl Iterator<Item = &[u8]> {
        ByteElements(if self.dtype == DType::Bytes { &self.data } else { &[] })
    }
}

/// The product of the extents, refused where it overflows.
fn elements(shape: &[usize]) -> Result<usize, TensorError> {
    shape
        .iter()
        .try_fold(1_usize, |product, &extent| product.checked_mul(extent))
        .ok_or_else(|| TensorError::TooLarge(shape.to_vec()))
}

/// Walks length-prefixed elements; stops at the first that is cut short.
struct ByteElements<'a>(&'a [u8]);

impl<'a> Iterator for ByteElements<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (length, rest) = self.0.split_first_chunk::<4>()?;
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        let (element, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some(element)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use smallvec::smallvec;

    #[test]
    fn a_length_that_contradicts_the_shape_is_refused() {
        let error = Tensor::build(DType::I32, smallvec![2, 3], Bytes::from_static(&[0; 20]));

        assert_eq!(
            error.unwrap_err().to_string(),
            "INT32 tensor of shape [2, 3] takes 24 bytes, but 20 were given"
        );
    }

    #[test]
    fn an_overflowing_shape_is_refused_before_anything_is_allocated() {
        let huge = Tensor::build(DType::U8, smallvec![usize::MAX, 2], Bytes::new());

        assert!(matches!(huge, Err(TensorError::TooLarge(_))));
        assert!(Tensor::build(DType::F64, smallvec![usize::MAX / 4], Bytes::new()).is_err());
    }

    #[test]
    fn byte_elements_are_walked_and_counted() {
        let data = Bytes::from_static(b"\x02\0\0\0hi\0\0\0\0\x01\0\0\0!");
        let tensor = Tensor::build(DType::Bytes, smallvec![3], data.clone()).unwrap();

        assert_eq!(tensor.byte_elements().collect::<Vec<_>>(), [&b"hi"[..], b"", b"!"]);
        let too_many = Tensor::build(DType::Bytes, smallvec![4], data.clone()).unwrap_err();
        assert_eq!(too_many, TensorError::WrongElements { expected: 4, actual: 3 });
        assert!(Tensor::build(DType::Bytes, smallvec![2], data.clone()).is_err());
        assert!(Tensor::build(DType::Bytes, smallvec![3], data.slice(..14)).is_err());
    }

    #[test]
    fn a_tensor_without_extents_is_one_element() {
        let scalar = Tensor::from_f32(&[], &[0.5]).unwrap();

        assert_eq!(scalar.n_elements(), 1);
        assert_eq!(scalar.to_f32(), Some(vec![0.5]));
    }
}
