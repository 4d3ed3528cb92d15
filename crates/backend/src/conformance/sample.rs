//! Inputs to try a model with: small, and different from place to place and from row to row.

use paceline_types::{DType, Dim, Shape, Tensor, TensorSpec};

/// The shape of an input, with a leading extent where it is batched.
pub(super) fn shape_of(spec: &TensorSpec, rows: Option<usize>, length: usize) -> Shape {
    let own = spec.dims.iter().map(|dim| match dim {
        Dim::Fixed(extent) => *extent,
        Dim::Any => length,
    });
    rows.into_iter().chain(own).collect()
}

/// A tensor of this shape.
pub(super) fn sample(dtype: DType, shape: Shape) -> Tensor {
    let n_elements: usize = shape.iter().product();
    let mut data = Vec::new();
    for at in 0..n_elements {
        let number = u8::try_from(at.wrapping_mul(7919) % 101).unwrap_or_default();
        match dtype {
            DType::Bool => data.push(number % 2),
            DType::F32 => data.extend((f32::from(number) / 101.0).to_le_bytes()),
            DType::F64 => data.extend((f64::from(number) / 101.0).to_le_bytes()),
            // 0, 0.5 and 1 as they are written.
            DType::F16 => {
                data.extend([0_u16, 0x3800, 0x3c00][usize::from(number % 3)].to_le_bytes());
            }
            DType::BF16 => {
                data.extend([0_u16, 0x3f00, 0x3f80][usize::from(number % 3)].to_le_bytes());
            }
            DType::Bytes => {
                data.extend(u32::from(number % 5).to_le_bytes());
                data.extend(std::iter::repeat_n(b'a' + number % 26, usize::from(number % 5)));
            }
            // Few models take large numbers for what they are: most look them up.
            _ => data.extend(&u64::from(number % 7).to_le_bytes()[..dtype.size().unwrap_or(1)]),
        }
    }
    Tensor::build(dtype, shape, data.into()).expect("as many elements as the shape says")
}
