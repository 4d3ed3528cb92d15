//! Many items' tensors into one, and one call's tensors back into many.
//!
//! Rows are stacked along the first axis. Where a model takes lengths, shorter items are padded
//! along their length axis. A slot is written whole before it is read: padding is always written,
//! never left over from another call.

use bytes::{Bytes, BytesMut};
use paceline_types::{DType, Shape, Tensor};
use smallvec::{SmallVec, smallvec};

/// The axis along which items of one batch may differ in length.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ragged {
    /// The inputs that are padded: which one, and along which axis (the batch is axis 0).
    pub inputs: Vec<(usize, usize)>,
    /// The outputs that are cut back to each item's length: which one, and along which axis.
    pub outputs: Vec<(usize, usize)>,
    /// An input that is made here: for each row, its length.
    pub lengths: Option<(usize, DType)>,
    /// An input that is made here: for each row and place, 1 where there is something.
    pub mask: Option<(usize, DType)>,
}

/// Tensors that cannot be stacked or split.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StackError {
    /// Items whose shapes differ where they must not.
    #[error("items of shapes {0:?} and {1:?} cannot share a call")]
    Shapes(Vec<usize>, Vec<usize>),
    /// An output without a row for each row of the call.
    #[error("output {output} has shape {shape:?}, but the call had {rows} rows")]
    Rows {
        /// Which output.
        output: usize,
        /// As the model gave it.
        shape: Vec<usize>,
        /// As asked for.
        rows: usize,
    },
}

/// A stacked tensor whose bytes are still where they were. Nothing is copied before somebody asks
/// for it, and then to where it is needed.
#[derive(Debug, Clone)]
pub struct Stacked {
    dtype: DType,
    shape: Shape,
    pieces: SmallVec<[Piece; 4]>,
}

/// Some of a stacked tensor's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// These.
    Data(Bytes),
    /// So many zeros.
    Zeros(usize),
}

impl Piece {
    fn len(&self) -> usize {
        match self {
            Self::Data(data) => data.len(),
            Self::Zeros(n_zeros) => *n_zeros,
        }
    }
}

impl Stacked {
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

    /// Its bytes, in order.
    #[must_use]
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// All of it in one place; not copied where it is in one place already.
    #[must_use]
    pub fn to_tensor(&self) -> Tensor {
        let data = if let [Piece::Data(data)] = &self.pieces[..] {
            data.clone()
        } else {
            let mut data = BytesMut::with_capacity(self.pieces.iter().map(Piece::len).sum());
            for piece in &self.pieces {
                match piece {
                    Piece::Data(piece) => data.extend_from_slice(piece),
                    Piece::Zeros(n_zeros) => data.resize(data.len() + n_zeros, 0),
                }
            }
            data.freeze()
        };
        let tensor = Tensor::build(self.dtype, self.shape.clone(), data);
        #[expect(clippy::missing_panics_doc, reason = "stacking made sure of it")]
        tensor.expect("pieces make what they are said to")
    }
}

impl From<Tensor> for Stacked {
    fn from(tensor: Tensor) -> Self {
        let shape = Shape::from_slice(tensor.shape());
        let pieces = smallvec![Piece::Data(tensor.data().clone())];
        Self { dtype: tensor.dtype(), shape, pieces }
    }
}

/// Stacks one input of many items, adding padding rows up to `rows`.
///
/// # Errors
///
/// When the items' shapes differ in anything but rows and the padded axis.
pub(crate) fn stack(
    parts: &[&Tensor],
    rows: usize,
    padded_axis: Option<usize>,
) -> Result<Stacked, StackError> {
    let first = parts[0];
    if parts.len() == 1 && first.shape().first() == Some(&rows) {
        return Ok(first.clone().into());
    }
    let size = first.dtype().size();
    // Strings have no place at which they could be padded.
    let padded_axis = padded_axis.filter(|_| size.is_some());
    let mut shape = Shape::from_slice(first.shape());
    for part in parts {
        let fits = part.shape().len() == shape.len()
            && part.dtype() == first.dtype()
            && (1..shape.len())
                .all(|axis| Some(axis) == padded_axis || part.shape()[axis] == shape[axis]);
        if !fits {
            return Err(StackError::Shapes(shape.to_vec(), part.shape().to_vec()));
        }
        if let Some(axis) = padded_axis {
            shape[axis] = shape[axis].max(part.shape()[axis]);
        }
    }
    shape[0] = rows;
    let mut pieces = SmallVec::new();
    for part in parts {
        match (padded_axis, size) {
            (Some(axis), Some(size)) => pad_into(&mut pieces, part, shape[axis], axis, size),
            _ => pieces.push(Piece::Data(part.data().clone())),
        }
    }
    let n_rows: usize = parts.iter().map(|part| part.shape()[0]).sum();
    let per_row: usize = shape[1..].iter().product();
    // A padding row is zeros, or empty strings, which are written as zero lengths.
    let n_zeros = rows.saturating_sub(n_rows) * per_row * size.unwrap_or(4);
    pieces.push(Piece::Zeros(n_zeros));
    Ok(Stacked { dtype: first.dtype(), shape, pieces })
}

/// Appends a tensor whose `axis` is stretched to `length` with zeros.
fn pad_into(
    pieces: &mut SmallVec<[Piece; 4]>,
    part: &Tensor,
    length: usize,
    axis: usize,
    size: usize,
) {
    let own = part.shape()[axis];
    let inner = part.shape()[axis + 1..].iter().product::<usize>() * size;
    let outer = part.shape()[..axis].iter().product::<usize>();
    if own == length {
        pieces.push(Piece::Data(part.data().clone()));
        return;
    }
    for row in 0..outer {
        let start = row * own * inner;
        pieces.push(Piece::Data(part.data().slice(start..start + own * inner)));
        pieces.push(Piece::Zeros((length - own) * inner));
    }
}

/// Splits one output into the rows of each item.
///
/// # Errors
///
/// When the output does not have the call's rows.
pub(crate) fn split(
    output: usize,
    tensor: &Tensor,
    item_rows: &[usize],
    rows: usize,
) -> Result<Vec<Tensor>, StackError> {
    let shape = tensor.shape();
    if shape.first() != Some(&rows) {
        return Err(StackError::Rows { output, shape: shape.to_vec(), rows });
    }
    if item_rows == [rows] {
        return Ok(vec![tensor.clone()]);
    }
    let per_row: usize = shape[1..].iter().product();
    let mut parts = Vec::with_capacity(item_rows.len());
    let mut rest: Bytes = tensor.data().clone();
    for &n_rows in item_rows {
        let n_bytes = match tensor.dtype().size() {
            Some(size) => n_rows * per_row * size,
            None => strings_length(&rest, n_rows * per_row),
        };
        let data = rest.split_to(n_bytes.min(rest.len()));
        let mut shape = Shape::from_slice(shape);
        shape[0] = n_rows;
        let part = Tensor::build(tensor.dtype(), shape, data);
        parts.push(part.map_err(|_| StackError::Rows {
            output,
            shape: tensor.shape().to_vec(),
            rows,
        })?);
    }
    Ok(parts)
}

/// Splits a tensor along its first axis into parts of so many rows.
///
/// # Errors
///
/// When the parts do not add up to its rows.
pub fn split_rows(tensor: &Tensor, parts: &[usize]) -> Result<Vec<Tensor>, StackError> {
    split(0, tensor, parts, parts.iter().sum())
}

/// Joins tensors along their first axis, the inverse of [`split_rows`].
///
/// # Errors
///
/// When there are none, or their shapes differ in anything but rows.
pub fn join_rows(parts: &[&Tensor]) -> Result<Tensor, StackError> {
    let rows = |part: &&Tensor| part.shape().first().copied();
    let total = parts.iter().map(rows).sum::<Option<usize>>();
    match total.filter(|_| !parts.is_empty()) {
        Some(total) => Ok(stack(parts, total, None)?.to_tensor()),
        None => Err(StackError::Shapes(Vec::new(), Vec::new())),
    }
}

/// How many bytes the first `n` length-prefixed strings take.
fn strings_length(data: &[u8], n: usize) -> usize {
    let mut at = 0;
    for _ in 0..n {
        let Some(prefix) = data.get(at..at + 4).and_then(|prefix| prefix.first_chunk::<4>()) else {
            break;
        };
        at += 4 + u32::from_le_bytes(*prefix) as usize;
    }
    at
}

/// Joins tensors of equal shape along an axis, each with an extent of 1 there.
///
/// # Errors
///
/// When their shapes differ.
pub(crate) fn concat(parts: &[&Tensor], axis: usize) -> Result<Tensor, StackError> {
    let first = parts[0];
    if let Some(odd) = parts.iter().find(|part| part.shape() != first.shape()) {
        return Err(StackError::Shapes(first.shape().to_vec(), odd.shape().to_vec()));
    }
    let mut shape = Shape::from_slice(first.shape());
    shape[axis] = parts.len();
    let outer: usize = shape[..axis].iter().product();
    let chunk = first.data().len() / outer.max(1);
    let mut data = BytesMut::with_capacity(first.data().len() * parts.len());
    for at in 0..outer {
        for part in parts {
            data.extend_from_slice(&part.data()[at * chunk..(at + 1) * chunk]);
        }
    }
    let joined = Tensor::build(first.dtype(), shape.clone(), data.freeze());
    joined.map_err(|_| StackError::Shapes(shape.to_vec(), first.shape().to_vec()))
}

/// Takes one place along an axis out, the inverse of [`concat`].
///
/// # Errors
///
/// When there is no such place.
pub(crate) fn slice(tensor: &Tensor, axis: usize, at: usize) -> Result<Tensor, StackError> {
    let wrong = || StackError::Rows { output: 0, shape: tensor.shape().to_vec(), rows: at + 1 };
    let n_places = *tensor.shape().get(axis).filter(|n| at < **n).ok_or_else(wrong)?;
    let outer: usize = tensor.shape()[..axis].iter().product();
    let chunk = tensor.data().len() / (outer * n_places).max(1);
    let mut data = BytesMut::with_capacity(outer * chunk);
    for row in 0..outer {
        let start = (row * n_places + at) * chunk;
        data.extend_from_slice(&tensor.data()[start..start + chunk]);
    }
    let mut shape = Shape::from_slice(tensor.shape());
    shape[axis] = 1;
    Tensor::build(tensor.dtype(), shape, data.freeze()).map_err(|_| wrong())
}

/// Cuts a tensor back to `length` along an axis.
pub(crate) fn crop(tensor: &Tensor, axis: usize, length: usize) -> Tensor {
    let (Some(&own), Some(size)) = (tensor.shape().get(axis), tensor.dtype().size()) else {
        return tensor.clone();
    };
    if own <= length {
        return tensor.clone();
    }
    let inner = tensor.shape()[axis + 1..].iter().product::<usize>() * size;
    let mut data = BytesMut::new();
    for row in tensor.data().chunks_exact(own * inner) {
        data.extend_from_slice(&row[..length * inner]);
    }
    let mut shape = Shape::from_slice(tensor.shape());
    shape[axis] = length;
    Tensor::build(tensor.dtype(), shape, data.freeze()).unwrap_or_else(|_| tensor.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counting(rows: usize, length: usize, from: u16) -> Tensor {
        let values: Vec<f32> = (0..rows * length).map(|n| f32::from(from) + n as f32).collect();
        Tensor::from_f32(&[rows, length], &values).unwrap()
    }

    proptest! {
        #[test]
        fn what_is_stacked_and_split_is_what_it_was(
            items in prop::collection::vec((1_usize..4, 1_usize..6), 1..6),
            padding in 0_usize..4,
        ) {
            let tensors: Vec<Tensor> = items
                .iter()
                .enumerate()
                .map(|(at, &(rows, length))| counting(rows, length, at as u16 * 100))
                .collect();
            let item_rows: Vec<usize> = items.iter().map(|item| item.0).collect();
            let rows = item_rows.iter().sum::<usize>() + padding;
            let parts: Vec<&Tensor> = tensors.iter().collect();

            let stacked = stack(&parts, rows, Some(1)).unwrap().to_tensor();
            let split = split(0, &stacked, &item_rows, rows).unwrap();

            let longest = items.iter().map(|item| item.1).max().unwrap();
            prop_assert_eq!(stacked.shape(), &[rows, longest]);
            for ((part, original), &(_, length)) in split.iter().zip(&tensors).zip(&items) {
                prop_assert_eq!(&crop(part, 1, length), original);
                let padded = part.to_f32().unwrap();
                for row in padded.chunks_exact(longest) {
                    prop_assert!(row[length..].iter().all(|&value| value == 0.0), "padding is zeros");
                }
            }
        }
    }

    #[test]
    fn states_joined_along_any_axis_come_apart_again() {
        for axis in 0..3 {
            let mut shape = vec![2, 3, 4];
            shape[axis] = 1;
            let n_elements = shape.iter().product::<usize>();
            let state = |from: f32| {
                let values: Vec<f32> = (0..n_elements).map(|n| from + n as f32).collect();
                Tensor::from_f32(&shape, &values).unwrap()
            };
            let parts = [state(0.0), state(100.0), state(200.0)];

            let joined = concat(&parts.iter().collect::<Vec<_>>(), axis).unwrap();

            for (at, part) in parts.iter().enumerate() {
                assert_eq!(&slice(&joined, axis, at).unwrap(), part);
            }
        }
    }

    #[test]
    fn one_whole_item_is_not_copied() {
        let tensor = counting(2, 3, 0);

        let stacked = stack(&[&tensor], 2, None).unwrap().to_tensor();

        assert_eq!(stacked.data().as_ptr(), tensor.data().as_ptr());
    }

    #[test]
    fn strings_are_stacked_padded_and_split() {
        let strings = |data: &'static [u8], n| {
            Tensor::build(DType::Bytes, [n, 1].as_slice().into(), Bytes::from_static(data)).unwrap()
        };
        let (one, two) = (strings(b"\x02\0\0\0hi", 1), strings(b"\0\0\0\0\x01\0\0\0x", 2));

        let stacked = stack(&[&one, &two], 4, None).unwrap().to_tensor();
        assert_eq!(stacked.byte_elements().collect::<Vec<_>>(), [&b"hi"[..], b"", b"x", b""]);
        assert_eq!(split(0, &stacked, &[1, 2], 4).unwrap(), [one, two]);
    }

    #[test]
    fn shapes_that_differ_where_they_must_not_are_refused() {
        let error = stack(&[&counting(1, 3, 0), &counting(1, 4, 0)], 2, None).unwrap_err();

        assert_eq!(error.to_string(), "items of shapes [1, 3] and [1, 4] cannot share a call");
        assert!(split(1, &counting(3, 2, 0), &[1, 1], 2).is_err());
    }
}
