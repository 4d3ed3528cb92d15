//! Tensors to ONNX Runtime's values and back. Copies once each way, so that alignment is never
//! assumed of bytes that came over a wire.

use half::{bf16, f16};
use ort::{
    session::SessionInputValue,
    value::{DynValue, PrimitiveTensorElementType, Shape as OrtShape, Tensor as OrtTensor},
};
use paceline_types::{DType, Shape, Tensor};

/// One element type: its size, and its little-endian bytes.
trait Element: PrimitiveTensorElementType + Copy + std::fmt::Debug + 'static {
    fn decode(data: &[u8]) -> Vec<Self>;
    fn encode(values: &[Self]) -> Vec<u8>;
}

macro_rules! elements {
    ($($number:ty),+) => {$(
        impl Element for $number {
            fn decode(data: &[u8]) -> Vec<Self> {
                let (chunks, _) = data.as_chunks::<{ size_of::<$number>() }>();
                chunks.iter().map(|bytes| Self::from_le_bytes(*bytes)).collect()
            }

            fn encode(values: &[Self]) -> Vec<u8> {
                values.iter().flat_map(|value| value.to_le_bytes()).collect()
            }
        }
    )+};
}

elements!(u8, u16, u32, u64, i8, i16, i32, i64, f16, bf16, f32, f64);

impl Element for bool {
    fn decode(data: &[u8]) -> Vec<Self> {
        data.iter().map(|&byte| byte != 0).collect()
    }

    fn encode(values: &[Self]) -> Vec<u8> {
        values.iter().map(|&value| u8::from(value)).collect()
    }
}

/// A value that owns its bytes. Errors read on from the input's name.
pub(super) fn from_tensor(tensor: &Tensor) -> Result<SessionInputValue<'static>, String> {
    match tensor.dtype() {
        DType::Bool => numbers::<bool>(tensor),
        DType::U8 => numbers::<u8>(tensor),
        DType::U16 => numbers::<u16>(tensor),
        DType::U32 => numbers::<u32>(tensor),
        DType::U64 => numbers::<u64>(tensor),
        DType::I8 => numbers::<i8>(tensor),
        DType::I16 => numbers::<i16>(tensor),
        DType::I32 => numbers::<i32>(tensor),
        DType::I64 => numbers::<i64>(tensor),
        DType::F16 => numbers::<f16>(tensor),
        DType::BF16 => numbers::<bf16>(tensor),
        DType::F32 => numbers::<f32>(tensor),
        DType::F64 => numbers::<f64>(tensor),
        DType::Bytes => {
            let texts: Vec<String> = tensor
                .byte_elements()
                .map(|element| str::from_utf8(element).map(str::to_owned))
                .collect::<Result<_, _>>()
                .map_err(|_| "holds bytes that are not UTF-8, as ONNX strings are".to_owned())?;
            let value = OrtTensor::from_string_array((tensor.shape().to_vec(), &*texts));
            value.map(Into::into).map_err(|cause| format!("was refused: {cause}"))
        }
    }
}

/// The tensor that the file declares. Errors read on from the output's name.
pub(super) fn to_tensor(value: &DynValue, declared: DType) -> Result<Tensor, String> {
    let (shape, data) = match declared {
        DType::Bool => bytes_of::<bool>(value),
        DType::U8 => bytes_of::<u8>(value),
        DType::U16 => bytes_of::<u16>(value),
        DType::U32 => bytes_of::<u32>(value),
        DType::U64 => bytes_of::<u64>(value),
        DType::I8 => bytes_of::<i8>(value),
        DType::I16 => bytes_of::<i16>(value),
        DType::I32 => bytes_of::<i32>(value),
        DType::I64 => bytes_of::<i64>(value),
        DType::F16 => bytes_of::<f16>(value),
        DType::BF16 => bytes_of::<bf16>(value),
        DType::F32 => bytes_of::<f32>(value),
        DType::F64 => bytes_of::<f64>(value),
        DType::Bytes => strings_of(value),
    }?;
    Tensor::build(declared, shape, data.into()).map_err(|cause| format!("came back wrong: {cause}"))
}

fn numbers<T: Element>(tensor: &Tensor) -> Result<SessionInputValue<'static>, String> {
    let value = OrtTensor::from_array((tensor.shape().to_vec(), T::decode(tensor.data())));
    value.map(Into::into).map_err(|cause| format!("was refused: {cause}"))
}

fn bytes_of<T: Element>(value: &DynValue) -> Result<(Shape, Vec<u8>), String> {
    let (shape, values) =
        value.try_extract_tensor::<T>().map_err(|cause| format!("came back wrong: {cause}"))?;
    Ok((extents(shape)?, T::encode(values)))
}

fn strings_of(value: &DynValue) -> Result<(Shape, Vec<u8>), String> {
    let (shape, texts) =
        value.try_extract_strings().map_err(|cause| format!("came back wrong: {cause}"))?;
    let mut data = Vec::new();
    for text in texts {
        let length = u32::try_from(text.len())
            .map_err(|_| "holds a string of more than 4 GiB".to_owned())?;
        data.extend_from_slice(&length.to_le_bytes());
        data.extend_from_slice(text.as_bytes());
    }
    Ok((extents(shape)?, data))
}

fn extents(shape: &OrtShape) -> Result<Shape, String> {
    let extents = shape.iter().map(|&extent| usize::try_from(extent)).collect::<Result<_, _>>();
    extents.map_err(|_| format!("came back with the shape {shape:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_little_endian_both_ways() {
        let data = [0x00, 0x3c, 0x01, 0x80];

        assert_eq!(f16::decode(&data), [f16::from_f32(1.0), f16::from_bits(0x8001)]);
        assert_eq!(f16::encode(&f16::decode(&data)), data);
        assert_eq!(i16::decode(&data), [0x3c00, -0x7fff]);
        assert_eq!(bool::encode(&bool::decode(&[0, 1, 7])), [0, 1, 1]);
    }
}
