//! How the tensors of a call lie in shared memory. Pure: it works on copies.
//!
//! A table says for each tensor its dtype, rank, offset, length and extents; requests begin with
//! it, results end with it. All of a result is a stranger's word and is checked.

use bytes::Bytes;
use paceline_backend::EarlyOutputs;
use paceline_types::{DType, Shape, Tensor, TensorSpec};
use smallvec::SmallVec;

use crate::message::Violation;

/// Where tensors begin: a cache line, so that any vector unit can load them.
const ALIGN: usize = 64;
const MAX_RANK: u32 = 32;
/// Instead of the length of a failed row's text: nothing for this row this time.
const SILENT: u32 = u32::MAX;

/// Where the tensors of a request go.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// What the frame begins with.
    pub(crate) table: Vec<u8>,
    /// Where each tensor begins.
    pub(crate) offsets: SmallVec<[usize; 4]>,
    /// The whole frame.
    pub(crate) n_bytes: usize,
}

impl Layout {
    /// Places tensors, given by dtype, extents and length, one after the other.
    pub(crate) fn of<'a>(
        tensors: impl Iterator<Item = (DType, &'a [usize], usize)> + Clone,
    ) -> Self {
        let n_table = 8 + tensors.clone().map(|(_, shape, _)| 24 + 8 * shape.len()).sum::<usize>();
        let mut end = n_table;
        let mut table = Vec::with_capacity(n_table);
        let mut offsets = SmallVec::new();
        put_u32(&mut table, tensors.clone().count());
        put_u32(&mut table, 0);
        for (dtype, shape, n_bytes) in tensors {
            let offset = end.next_multiple_of(ALIGN);
            end = offset.saturating_add(n_bytes);
            put_u32(&mut table, DType::ALL.iter().position(|one| *one == dtype).unwrap_or(0));
            put_u32(&mut table, shape.len());
            for number in [offset, n_bytes].iter().chain(shape) {
                table.extend((*number as u64).to_le_bytes());
            }
            offsets.push(offset);
        }
        Self { table, offsets, n_bytes: end }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "ranks and counts of tensors are small")]
fn put_u32(table: &mut Vec<u8>, number: usize) {
    table.extend((number as u32).to_le_bytes());
}

/// What results must be like.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected<'a> {
    pub(crate) outputs: &'a [TensorSpec],
    pub(crate) batched: bool,
    pub(crate) rows: usize,
}

/// Why results cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unusable {
    /// The worker broke the protocol.
    #[error(transparent)]
    Violation(#[from] Violation),
    /// The model gave something else than it declared.
    #[error("{0}")]
    Undeclared(String),
}

/// Reads the results that lie in `frame`, a copy that nobody else can change. The tensors share it.
pub(crate) fn read(
    frame: &Bytes,
    table: usize,
    expected: &Expected<'_>,
) -> Result<EarlyOutputs, Unusable> {
    let mut cursor = Cursor(frame.get(table..).ok_or(Violation::CutShort)?);
    let (n_tensors, n_failed) = (cursor.u32()?, cursor.u32()?);
    let mut read = EarlyOutputs::default();
    for at in 0..n_tensors as usize {
        let spec = expected.outputs.get(at).ok_or_else(|| {
            let n_declared = expected.outputs.len();
            Unusable::Undeclared(format!("{n_tensors} outputs came, {n_declared} are declared"))
        })?;
        read.outputs.tensors.push(tensor(frame, &mut cursor, spec, expected.batched)?);
    }
    for _ in 0..n_failed {
        let (row, n_text) = (cursor.u32()?, cursor.u32()?);
        let at = usize::try_from(row).unwrap_or(usize::MAX);
        if expected.rows <= at {
            return Err(Violation::Row { row, rows: expected.rows }.into());
        }
        if n_text == SILENT {
            read.silent.push(at);
        } else {
            let text = cursor.take(n_text as usize)?;
            read.outputs.failed.push((at, String::from_utf8_lossy(text).into_owned()));
        }
    }
    Ok(read)
}

fn tensor(
    frame: &Bytes,
    cursor: &mut Cursor<'_>,
    spec: &TensorSpec,
    batched: bool,
) -> Result<Tensor, Unusable> {
    let (code, rank) = (cursor.u32()?, cursor.u32()?);
    let dtype = *DType::ALL.get(code as usize).ok_or(Violation::DType(code))?;
    if MAX_RANK < rank {
        return Err(Violation::Rank(rank).into());
    }
    let (offset, n_bytes) = (cursor.size()?, cursor.size()?);
    let shape = (0..rank).map(|_| cursor.size()).collect::<Result<Shape, _>>()?;
    let end = offset.checked_add(n_bytes).filter(|end| *end <= frame.len());
    let end = end.ok_or(Violation::OutOfFrame)?;
    if dtype != spec.dtype || !spec.fits(&shape, batched) {
        return Err(Unusable::Undeclared(format!(
            "output `{}` is {} [{}], but {dtype} {shape:?} was given",
            spec.name,
            spec.dtype,
            spec.shape_text(batched)
        )));
    }
    Tensor::build(dtype, shape, frame.slice(offset..end))
        .map_err(|error| Unusable::Undeclared(format!("output `{}`: {error}", spec.name)))
}

/// Reads numbers off the front.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, n_bytes: usize) -> Result<&'a [u8], Violation> {
        let (taken, rest) = self.0.split_at_checked(n_bytes).ok_or(Violation::CutShort)?;
        self.0 = rest;
        Ok(taken)
    }

    fn u32(&mut self) -> Result<u32, Violation> {
        let bytes = self.take(4)?.first_chunk::<4>().ok_or(Violation::CutShort)?;
        Ok(u32::from_le_bytes(*bytes))
    }

    fn size(&mut self) -> Result<usize, Violation> {
        let bytes = self.take(8)?.first_chunk::<8>().ok_or(Violation::CutShort)?;
        Ok(usize::try_from(u64::from_le_bytes(*bytes)).unwrap_or(usize::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_types::Dim;
    use proptest::prelude::*;

    fn spec(dtype: DType) -> TensorSpec {
        TensorSpec { name: "y".to_owned(), dtype, dims: vec![Dim::Any] }
    }

    /// A frame of results as a worker would write it: one tensor of four bytes, one failed row.
    fn honest() -> (Vec<u8>, usize) {
        let mut frame = vec![1, 2, 3, 4];
        let table = frame.len();
        for number in [1_u32, 1, 1, 2] {
            frame.extend(number.to_le_bytes());
        }
        for number in [0_u64, 4, 2, 2] {
            frame.extend(number.to_le_bytes());
        }
        for number in [1_u32, 3] {
            frame.extend(number.to_le_bytes());
        }
        frame.extend(b"bad");
        (frame, table)
    }

    fn expected(outputs: &[TensorSpec]) -> Expected<'_> {
        Expected { outputs, batched: true, rows: 2 }
    }

    #[test]
    fn an_honest_frame_is_read_without_another_copy() {
        let (frame, table) = honest();
        let frame = Bytes::from(frame);

        let EarlyOutputs { outputs, silent } =
            read(&frame, table, &expected(&[spec(DType::U8)])).unwrap();

        assert_eq!(outputs.tensors[0].shape(), [2, 2]);
        assert_eq!(outputs.tensors[0].data().as_ptr(), frame.as_ptr());
        assert_eq!(outputs.failed, [(1, "bad".to_owned())]);
        assert!(silent.is_empty());
    }

    #[test]
    fn what_was_not_declared_is_refused_by_name() {
        let (frame, table) = honest();

        let error = read(&frame.into(), table, &expected(&[spec(DType::F32)])).unwrap_err();

        let text = "output `y` is FP32 [-1, -1], but UINT8 [2, 2] was given";
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn requests_are_laid_out_apart_and_aligned() {
        let tensors = [(DType::F32, &[2_usize, 3][..], 24), (DType::Bytes, &[1], 9)];

        let layout = Layout::of(tensors.into_iter());

        assert_eq!(layout.table.len(), 8 + 2 * 24 + 8 * 3);
        assert_eq!(layout.offsets.as_slice(), [128, 192]);
        assert_eq!(layout.n_bytes, 201);
    }

    proptest! {
        /// A worker that writes anything at all into the frame and lies about where it is.
        #[test]
        fn no_frame_whatever_upsets_the_reader(
            data in prop::collection::vec(any::<u8>(), 0..256),
            table in 0_usize..300,
        ) {
            read(&data.into(), table, &expected(&[spec(DType::U8)])).ok();
        }

        /// As above, but close enough to the truth to get far.
        #[test]
        fn no_lie_in_an_honest_frame_reads_out_of_it(
            at in 0_usize..63,
            value in prop::sample::select(vec![0_u64, 1, 3, 32, u64::MAX - 31, u64::MAX, 1 << 32]),
            dtype in prop::sample::select(DType::ALL.to_vec()),
        ) {
            let (mut frame, table) = honest();
            let end = (at + 8).min(frame.len());
            frame[at..end].copy_from_slice(&value.to_le_bytes()[..end - at]);
            if let Ok(read) = read(&frame.into(), table, &expected(&[spec(dtype)])) {
                for tensor in read.outputs.tensors {
                    prop_assert!(tensor.data().len() <= 63);
                }
                prop_assert!(read.outputs.failed.iter().all(|(row, _)| *row < 2));
            }
        }
    }
}
