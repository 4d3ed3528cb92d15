//! A request with more rows than a batch may have: split into parts that are batched like any
//! other items, and joined again in order. Pure: who submits the parts is the model.

use paceline_backend::{Output, StackError, join_rows, split_rows};
use paceline_types::Tensor;
use smallvec::SmallVec;

/// The inputs of one part.
pub(crate) type Inputs = SmallVec<[Tensor; 2]>;

/// Most parts of one request.
pub(crate) const MAX_PARTS: usize = 256;

/// Splits inputs of `rows` rows into parts of at most `most` rows, each full but the last.
pub(crate) fn split(
    inputs: &[Tensor],
    rows: usize,
    most: usize,
) -> Result<Vec<Inputs>, StackError> {
    let sizes: Vec<usize> = (0..rows).step_by(most).map(|at| most.min(rows - at)).collect();
    let mut parts = vec![Inputs::new(); sizes.len()];
    for input in inputs {
        for (part, rows) in parts.iter_mut().zip(split_rows(input, &sizes)?) {
            part.push(rows);
        }
    }
    Ok(parts)
}

/// Joins what the parts gave, in their order.
pub(crate) fn join(parts: &[Output]) -> Result<Output, StackError> {
    let n_outputs = parts.first().map_or(0, Vec::len);
    (0..n_outputs)
        .map(|at| {
            let rows: SmallVec<[&Tensor; 8]> = parts.iter().map(|part| &part[at]).collect();
            join_rows(&rows)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_types::DType;

    #[test]
    fn what_is_split_is_joined_again_in_order() {
        let numbers: Vec<f32> = (0..21).map(|n| n as f32).collect();
        let floats = Tensor::from_f32(&[7, 3], &numbers).unwrap();
        let texts: Vec<u8> =
            (0..7_u8).flat_map(|n| [&[n, 0, 0, 0][..], &vec![b'x'; n.into()]].concat()).collect();
        let texts = Tensor::build(DType::Bytes, [7].as_slice().into(), texts.into()).unwrap();
        let inputs = [floats, texts];

        for most in 1..=8 {
            let parts = split(&inputs, 7, most).unwrap();
            assert_eq!(parts.len(), 7_usize.div_ceil(most));
            assert!(parts.iter().all(|part| part[0].shape()[0] <= most));
            let outputs: Vec<Output> = parts.into_iter().map(SmallVec::into_vec).collect();
            assert_eq!(join(&outputs).unwrap(), inputs, "{most}");
        }
    }
}
