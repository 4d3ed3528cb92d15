//! Tensors to rten's values and back.

use paceline_types::{DType, Shape, Tensor};
use rten::Value;
use rten_tensor::{AsView as _, Layout as _};

/// A value of the type that rten computes in. Errors read on from the input's name.
pub(super) fn from_tensor(tensor: &Tensor) -> Result<Value, String> {
    let data = tensor.data();
    let shape = tensor.shape();
    let words = data.as_chunks::<4>().0;
    match tensor.dtype() {
        DType::F32 => shaped(shape, words.iter().map(|b| f32::from_le_bytes(*b)).collect()),
        DType::I32 => shaped(shape, words.iter().map(|b| i32::from_le_bytes(*b)).collect()),
        DType::I64 => {
            let longs = data.as_chunks::<8>().0.iter().map(|b| i64::from_le_bytes(*b));
            shaped(shape, longs.map(narrow).collect::<Result<Vec<i32>, _>>()?)
        }
        DType::Bool => shaped(shape, data.iter().map(|&b| i32::from(b != 0)).collect()),
        DType::I8 => shaped(shape, data.iter().map(|b| b.cast_signed()).collect::<Vec<i8>>()),
        DType::U8 => shaped(shape, data.to_vec()),
        other => Err(format!("is {other}, which rten does not have")),
    }
}

/// The tensor that the file declares, from what rten computed. Errors read on from the output's
/// name.
pub(super) fn into_tensor(value: Value, declared: DType) -> Result<Tensor, String> {
    let shape: Shape = value.shape().as_ref().into();
    let data = match (declared, value) {
        (DType::F32, Value::FloatTensor(tensor)) => le_bytes(&tensor.to_vec(), f32::to_le_bytes),
        (DType::I32, Value::Int32Tensor(tensor)) => le_bytes(&tensor.to_vec(), i32::to_le_bytes),
        (DType::I64, Value::Int32Tensor(tensor)) => {
            le_bytes(&tensor.to_vec(), |integer| i64::from(integer).to_le_bytes())
        }
        (DType::Bool, Value::Int32Tensor(tensor)) => {
            tensor.to_vec().into_iter().map(|integer| u8::from(integer != 0)).collect()
        }
        (DType::I8, Value::Int8Tensor(tensor)) => {
            tensor.to_vec().into_iter().map(i8::cast_unsigned).collect()
        }
        (DType::U8, Value::UInt8Tensor(tensor)) => tensor.to_vec(),
        (declared, other) => {
            return Err(format!("came back as {} where the file says {declared}", other.dtype()));
        }
    };
    Tensor::build(declared, shape, data.into()).map_err(|cause| format!("came back wrong: {cause}"))
}

fn shaped<T>(shape: &[usize], data: Vec<T>) -> Result<Value, String>
where
    Value: From<rten_tensor::Tensor<T>>,
{
    Value::from_shape(shape, data).map_err(|cause| format!("does not fit its shape ({cause})"))
}

/// Refused rather than wrapped: a token id or an index that wraps is another one.
fn narrow(long: i64) -> Result<i32, String> {
    i32::try_from(long).map_err(|_| {
        format!("holds {long}, and rten takes 32 bits; set `engine = \"onnxruntime\"`")
    })
}

fn le_bytes<T: Copy, const N: usize>(values: &[T], encode: impl Fn(T) -> [u8; N]) -> Vec<u8> {
    values.iter().flat_map(|&value| encode(value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use smallvec::smallvec;

    fn tensor(dtype: DType, data: &[u8]) -> Tensor {
        let n = data.len() / dtype.size().unwrap();
        Tensor::build(dtype, smallvec![n, 1], data.to_vec().into()).unwrap()
    }

    #[test]
    fn every_type_that_rten_takes_comes_back_as_itself() {
        let minus_two = (-2_i64).to_le_bytes();
        for tensor in [
            tensor(DType::F32, &[0, 0, 128, 63, 0, 0, 0, 64]),
            tensor(DType::I32, &[254, 255, 255, 255]),
            tensor(DType::I64, &minus_two),
            tensor(DType::Bool, &[0, 1, 1]),
            tensor(DType::I8, &[255, 1]),
            tensor(DType::U8, &[255, 1]),
        ] {
            let value = from_tensor(&tensor).unwrap();
            assert_eq!(into_tensor(value, tensor.dtype()).unwrap(), tensor);
        }
    }

    #[test]
    fn a_number_beyond_32_bits_is_refused_and_not_wrapped() {
        let huge = tensor(DType::I64, &5_000_000_000_i64.to_le_bytes());

        assert!(from_tensor(&huge).unwrap_err().starts_with("holds 5000000000"));
    }

    #[test]
    fn a_type_other_than_the_declared_one_is_an_error() {
        let value = from_tensor(&tensor(DType::U8, &[1])).unwrap();

        let error = into_tensor(value, DType::F32).unwrap_err();
        assert!(error.contains("where the file says FP32"), "{error}");
    }
}
