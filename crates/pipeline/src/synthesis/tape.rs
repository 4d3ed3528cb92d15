//! The tokens of one run, as they come, and windows of them as the vocoder takes them. Pure.

use paceline_types::{DType, Shape, Tensor};

use super::plan::Window;

/// Tokens in order. A token is a number, or a column of them such as a frame of a spectrogram.
#[derive(Debug, Default)]
pub(crate) struct Tape {
    dtype: Option<DType>,
    /// Extents of one token.
    column: Shape,
    /// Token by token.
    bytes: Vec<u8>,
    /// Tokens that are no longer held.
    n_forgotten: usize,
    n_tokens: usize,
}

/// Tokens that are not what a tape can hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the token model gave {actual}; {expected}")]
pub struct WrongTokens {
    actual: String,
    expected: &'static str,
}

impl WrongTokens {
    /// For an output that should say how many tokens are valid.
    pub(crate) fn count(output: Option<&Tensor>) -> Self {
        let actual = output.map_or_else(
            || "no such output".to_owned(),
            |output| format!("{} of shape {:?}", output.dtype(), output.shape()),
        );
        Self { actual, expected: "one whole number is expected that says how many are valid" }
    }
}

impl Tape {
    /// How many tokens there are, those that were forgotten too.
    pub(crate) const fn len(&self) -> usize {
        self.n_tokens
    }

    /// Adds a result of the token model: one row, tokens along the last axis, of which the first
    /// `count` are valid.
    pub(crate) fn push(
        &mut self,
        tokens: &Tensor,
        count: Option<usize>,
    ) -> Result<(), WrongTokens> {
        let wrong = |expected| WrongTokens {
            actual: format!("{} of shape {:?}", tokens.dtype(), tokens.shape()),
            expected,
        };
        let [1, column @ .., n_given] = tokens.shape() else {
            return Err(wrong("one row is expected, with tokens along its last axis"));
        };
        let n_new = count.unwrap_or(*n_given);
        if *n_given < n_new {
            return Err(wrong("fewer than it says are valid"));
        }
        let Some(size) = tokens.dtype().size() else { return Err(wrong("numbers are expected")) };
        if *self.dtype.get_or_insert(tokens.dtype()) != tokens.dtype() {
            return Err(wrong("the type of the tokens before is expected"));
        }
        if self.n_tokens == 0 {
            self.column = column.into();
        } else if self.column.as_slice() != column {
            return Err(wrong("the shape of the tokens before is expected"));
        }
        let data = tokens.data();
        let n_rows: usize = column.iter().product();
        self.bytes.reserve(n_new * n_rows * size);
        for token in 0..n_new {
            for row in 0..n_rows {
                let at = (row * n_given + token) * size;
                self.bytes.extend_from_slice(&data[at..at + size]);
            }
        }
        self.n_tokens += n_new;
        Ok(())
    }

    /// Lets go of the tokens before this one.
    pub(crate) fn forget_before(&mut self, token: usize) {
        let n_gone = token.min(self.n_tokens).saturating_sub(self.n_forgotten);
        self.bytes.drain(..n_gone * self.token_bytes());
        self.n_forgotten += n_gone;
    }

    /// A window's tokens as one row; `edge` stands where there are none.
    pub(crate) fn window(&self, window: &Window, edge: f32) -> Tensor {
        let dtype = self.dtype.unwrap_or(DType::F32);
        let size = dtype.size().unwrap_or(1);
        let n_rows: usize = self.column.iter().product();
        let outside = number(edge, dtype);
        let first = window.from - self.n_forgotten;
        let mut data = Vec::with_capacity(window.len() * n_rows * size);
        for row in 0..n_rows {
            (0..window.edge_before).for_each(|_| data.extend_from_slice(&outside));
            for token in first..first + window.to - window.from {
                let at = (token * n_rows + row) * size;
                data.extend_from_slice(&self.bytes[at..at + size]);
            }
            (0..window.edge_after).for_each(|_| data.extend_from_slice(&outside));
        }
        let shape: Shape =
            [1].into_iter().chain(self.column.iter().copied()).chain([window.len()]).collect();
        Tensor::build(dtype, shape, data.into()).expect("as many bytes as the shape says")
    }

    fn token_bytes(&self) -> usize {
        let n_rows: usize = self.column.iter().product();
        n_rows * self.dtype.and_then(DType::size).unwrap_or(0)
    }
}

/// A number as bytes of a type; integers lose what is behind the point.
#[expect(clippy::cast_possible_truncation, reason = "float casts saturate")]
pub(crate) fn number(value: f32, dtype: DType) -> Vec<u8> {
    let size = dtype.size().unwrap_or(0);
    match dtype {
        DType::F32 => value.to_le_bytes().to_vec(),
        DType::F64 => f64::from(value).to_le_bytes().to_vec(),
        _ => (value as i64).to_le_bytes()[..size].to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthesis::{plan::Planner, shape::ChunkShape};

    fn columns(from: usize, n: usize) -> Tensor {
        let values: Vec<f32> =
            (0..2).flat_map(|row| (from..from + n).map(move |t| (t * 10 + row) as f32)).collect();
        Tensor::from_f32(&[1, 2, n], &values).unwrap()
    }

    #[test]
    fn windows_are_cut_out_of_what_came_in_portions_and_what_is_past_is_let_go() {
        let shape = ChunkShape {
            chunk: 2,
            first_chunk: 2,
            context: 1,
            lookahead: 1,
            edge: Some(-1.0),
            trims: true,
            ..ChunkShape::default()
        };
        let mut planner = Planner::new(shape, false, true);
        let mut tape = Tape::default();
        tape.push(&columns(0, 3), Some(2)).unwrap();
        tape.push(&columns(2, 3), None).unwrap();
        assert_eq!(tape.len(), 5);

        let mut seen = Vec::new();
        while let Some(window) = planner.next(tape.len(), true) {
            let tensor = tape.window(&window, -1.0);
            assert_eq!(tensor.shape(), [1, 2, window.len()]);
            let numbers = tensor.to_f32().unwrap();
            let (first, second) = numbers.split_at(window.len());
            let is_next = |(a, b): (&f32, &f32)| *b == if *a < 0.0 { *a } else { a + 1.0 };
            assert!(first.iter().zip(second).all(is_next), "{numbers:?}");
            seen.push(first.to_vec());
            tape.forget_before(planner.oldest_needed());
        }

        let expected: [&[f32]; 3] = [&[-1., 0., 10., 20.], &[10., 20., 30., 40.], &[30., 40., -1.]];
        assert_eq!(seen, expected);
    }

    #[test]
    fn tokens_of_another_kind_are_refused() {
        let mut tape = Tape::default();
        tape.push(&columns(0, 3), None).unwrap();

        let other = Tensor::from_f32(&[1, 3, 1], &[0.0; 3]).unwrap();
        assert!(tape.push(&other, None).is_err());
        assert!(tape.push(&Tensor::from_f32(&[2, 2, 1], &[0.0; 4]).unwrap(), None).is_err());
        assert!(tape.push(&columns(0, 3), Some(4)).is_err());
    }

    #[test]
    fn what_is_past_is_not_held() {
        let mut tape = Tape::default();
        tape.push(&columns(0, 4), None).unwrap();
        tape.forget_before(3);
        assert_eq!((tape.len(), tape.bytes.len()), (4, 8), "one token of two numbers is left");
        tape.forget_before(2);
        tape.forget_before(9);
        assert_eq!((tape.len(), tape.bytes.len()), (4, 0));
    }

    #[test]
    fn a_number_is_written_in_the_type_that_is_asked_for() {
        assert_eq!(number(-2.5, DType::F32), (-2.5_f32).to_le_bytes());
        assert_eq!(number(-2.5, DType::F64), (-2.5_f64).to_le_bytes());
        assert_eq!(number(-2.5, DType::I32), (-2_i32).to_le_bytes());
        assert_eq!(number(3.0, DType::I64), 3_i64.to_le_bytes());
        assert_eq!(number(1.0, DType::Bool), [1]);
    }
}
