//! The `data` of a JSON tensor, read in one pass into the tensor's little-endian bytes.
//!
//! Data is flat, or nested exactly as its shape says. Ragged or otherwise nested data, which
//! Triton would flatten, is refused: it is a client's mistake more often than its intent.
//! As in Triton, BOOL takes `true` and `false` but not 0 and 1, and integers take no fraction.

use std::slice;

use bytes::Bytes;
use paceline_types::{DType, Tensor};

use super::{ElementFault, Name, OipError, number, scan::Scanner};

/// What is known of a tensor before its data is read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head<'a> {
    pub(super) name: &'a str,
    pub(super) dtype: DType,
    pub(super) shape: &'a [usize],
}

/// Reads the data that comes next.
pub(super) fn read(scanner: &mut Scanner<'_>, head: Head<'_>) -> Result<Bytes, OipError> {
    /// Integers of a type narrower than the widest.
    macro_rules! narrow {
        ($read:path, $type:ty) => {
            fixed(scanner, head, |text, at| {
                let (value, end) = $read(text, at)?;
                Some((<$type>::try_from(value).ok()?.to_le_bytes(), end))
            })
        };
    }
    macro_rules! wide {
        ($read:path) => {
            fixed(scanner, head, |text, at| {
                let (value, end) = $read(text, at)?;
                Some((value.to_le_bytes(), end))
            })
        };
    }
    match head.dtype {
        DType::Bool => {
            fixed(scanner, head, |text, at| boolean(text, at).map(|(value, end)| ([value], end)))
        }
        DType::U8 => narrow!(number::unsigned, u8),
        DType::U16 => narrow!(number::unsigned, u16),
        DType::U32 => narrow!(number::unsigned, u32),
        DType::U64 => wide!(number::unsigned),
        DType::I8 => narrow!(number::signed, i8),
        DType::I16 => narrow!(number::signed, i16),
        DType::I32 => narrow!(number::signed, i32),
        DType::I64 => wide!(number::signed),
        DType::F32 => wide!(number::single),
        DType::F64 => wide!(number::double),
        DType::F16 | DType::BF16 => {
            Err(OipError::BinaryOnly { input: head.name.into(), dtype: head.dtype })
        }
        DType::Bytes => {
            let mut sink = Strings(Vec::new());
            let expected = head.n_elements(scanner)?;
            walk(scanner, head, expected, &mut sink)?;
            Ok(sink.0.into())
        }
    }
}

/// Takes elements one by one, in row-major order.
trait Sink {
    /// Reads the element at `at` and says where it ends; `None` where it is not of this type.
    fn take(&mut self, text: &[u8], at: usize) -> Option<usize>;
}

/// Elements of one size, each with a place waiting.
struct Fixed<'a, const N: usize, R> {
    slots: slice::IterMut<'a, [u8; N]>,
    read: R,
}

impl<const N: usize, R: Fn(&[u8], usize) -> Option<([u8; N], usize)>> Sink for Fixed<'_, N, R> {
    #[inline]
    fn take(&mut self, text: &[u8], at: usize) -> Option<usize> {
        let (value, end) = (self.read)(text, at)?;
        *self.slots.next()? = value;
        Some(end)
    }
}

/// Strings, each behind its length.
struct Strings(Vec<u8>);

impl Sink for Strings {
    fn take(&mut self, text: &[u8], at: usize) -> Option<usize> {
        let mut scanner = Scanner::new(text).moved(at);
        let element = scanner.string().ok()?;
        let length = u32::try_from(element.len()).ok()?;
        self.0.extend_from_slice(&length.to_le_bytes());
        self.0.extend_from_slice(element.as_bytes());
        Some(scanner.at())
    }
}

fn fixed<const N: usize>(
    scanner: &mut Scanner<'_>,
    head: Head<'_>,
    read: impl Fn(&[u8], usize) -> Option<([u8; N], usize)>,
) -> Result<Bytes, OipError> {
    let expected = head.n_elements(scanner)?;
    let mut data = vec![0; expected * N];
    let mut sink = Fixed { slots: data.as_chunks_mut::<N>().0.iter_mut(), read };
    walk(scanner, head, expected, &mut sink)?;
    Ok(data.into())
}

/// Reads all elements: bare, in one list, or nested as the shape says.
fn walk(
    scanner: &mut Scanner<'_>,
    head: Head<'_>,
    expected: usize,
    sink: &mut impl Sink,
) -> Result<(), OipError> {
    let mut walk = Walk { head, sink, index: 0 };
    if scanner.peek() != Some(b'[') {
        let start = scanner.at();
        if expected != 1 {
            return Err(head.misfit("a value that is not a list", expected));
        }
        let end = walk.sink.take(scanner.text(), start);
        scanner.move_to(end.ok_or_else(|| walk.explain(scanner, start))?);
        return Ok(());
    }
    let mut inside = scanner.clone();
    inside.advance();
    if inside.peek() == Some(b'[') && head.shape.len() > 1 {
        walk.nested(scanner, head.shape)
    } else {
        walk.row(scanner, expected)
    }
}

/// The state of reading one tensor's data.
struct Walk<'a, S> {
    head: Head<'a>,
    sink: &'a mut S,
    index: usize,
}

impl<S: Sink> Walk<'_, S> {
    /// Reads a list of lists. Recurses once per extent, of which there are at most `MAX_RANK`.
    fn nested(&mut self, scanner: &mut Scanner<'_>, shape: &[usize]) -> Result<(), OipError> {
        let [extent, inner @ ..] = shape else { return Ok(()) };
        if inner.is_empty() {
            return self.row(scanner, *extent);
        }
        self.open(scanner)?;
        for index in 0..*extent {
            if !scanner.item(b']', index == 0, "`,` or `]`")? {
                return Err(self.head.misfit("too few lists in a list", *extent));
            }
            self.nested(scanner, inner)?;
        }
        self.close(scanner, *extent, "too many lists in a list")
    }

    /// Reads one list of elements.
    #[inline]
    fn row(&mut self, scanner: &mut Scanner<'_>, extent: usize) -> Result<(), OipError> {
        self.open(scanner)?;
        let text = scanner.text();
        let mut left = extent;
        while left > 0 {
            let first = scanner.peek();
            let start = scanner.at();
            let Some(end) = self.sink.take(text, start) else {
                return Err(if first == Some(b']') {
                    self.head.misfit("too few elements in a list", extent)
                } else {
                    self.explain(scanner, start)
                });
            };
            self.index += 1;
            left -= 1;
            scanner.move_to(end);
            // The common case, a comma at once, is worth a shorter way.
            if text.get(end) == Some(&b',') && left > 0 {
                scanner.advance();
                continue;
            }
            match scanner.peek() {
                Some(b',') if left > 0 => scanner.advance(),
                Some(b',') => return Err(self.head.misfit("too many elements in a list", extent)),
                Some(b']') if left == 0 => {}
                Some(b']') => return Err(self.head.misfit("too few elements in a list", extent)),
                Some(b'.' | b'e' | b'E') => {
                    self.index -= 1;
                    return Err(self.explain(scanner, start));
                }
                _ => return Err(scanner.fault("`,` or `]`")),
            }
        }
        self.close(scanner, extent, "too many elements in a list")
    }

    fn open(&self, scanner: &mut Scanner<'_>) -> Result<(), OipError> {
        if scanner.eat(b'[') { Ok(()) } else { Err(self.explain(scanner, scanner.at())) }
    }

    fn close(
        &self,
        scanner: &mut Scanner<'_>,
        extent: usize,
        problem: &'static str,
    ) -> Result<(), OipError> {
        match scanner.peek() {
            Some(b']') => {
                scanner.advance();
                Ok(())
            }
            None => Err(scanner.fault("`]`")),
            Some(_) => Err(self.head.misfit(problem, extent)),
        }
    }

    /// Says what is wrong with the element at `start`, which its type did not take.
    #[cold]
    fn explain(&self, scanner: &Scanner<'_>, start: usize) -> OipError {
        let Head { name, dtype, .. } = self.head;
        let bad =
            |fault| OipError::BadElement { input: name.into(), index: self.index, dtype, fault };
        let expected = match dtype {
            DType::Bool => "true or false",
            DType::Bytes => "a string",
            DType::F32 | DType::F64 | DType::F16 | DType::BF16 => "a number",
            _ => "an integer",
        };
        let mut again = scanner.moved(start);
        let found = match again.peek() {
            Some(b'[') => "a list, deeper than the shape,",
            Some(b'{') => "an object",
            Some(b'"') if dtype != DType::Bytes => "a string",
            Some(b't') if again.eat_word(b"true") => "true",
            Some(b'f') if again.eat_word(b"false") => "false",
            Some(b'n') if again.eat_word(b"null") => "null",
            Some(b'-' | b'0'..=b'9') => {
                let digits = again.number().unwrap_or_default();
                if digits.is_empty() || again.byte().is_some_and(|byte| byte.is_ascii_digit()) {
                    return again.fault("a number");
                }
                let fraction = digits.contains(['.', 'e', 'E']);
                match expected {
                    "an integer" if fraction => "a number with a fraction or an exponent",
                    "a number" | "an integer" => {
                        return bad(ElementFault::Range(Name::from(digits)));
                    }
                    _ => "a number",
                }
            }
            Some(b'"') => return again.string().err().unwrap_or_else(|| scanner.fault("a string")),
            _ => return again.fault("a value"),
        };
        bad(ElementFault::Kind { expected, found })
    }
}

impl Head<'_> {
    /// How many elements the shape asks for, once the text that is left could hold them.
    fn n_elements(&self, scanner: &Scanner<'_>) -> Result<usize, OipError> {
        let product =
            self.shape.iter().try_fold(1_usize, |product, &extent| product.checked_mul(extent));
        // INVARIANT: every element takes a byte of text at least, so no allocation is larger
        // than eight times the body, whatever the shape says.
        match product {
            Some(expected) if expected <= scanner.left() => Ok(expected),
            Some(expected) => Err(self.misfit("too few elements in a list", expected)),
            None => Err(OipError::Tensor {
                input: self.name.into(),
                fault: paceline_types::TensorError::TooLarge(self.shape.to_vec()),
            }),
        }
    }

    #[cold]
    fn misfit(&self, problem: &'static str, expected: usize) -> OipError {
        OipError::DataShape {
            input: self.name.into(),
            shape: self.shape.to_vec(),
            problem,
            expected,
        }
    }

    /// The tensor that has this head and these bytes.
    pub(super) fn tensor(&self, data: Bytes) -> Result<Tensor, OipError> {
        if self.dtype == DType::Bool
            && let Some(index) = data.iter().position(|byte| *byte > 1)
        {
            return Err(OipError::BadBool { input: self.name.into(), index, value: data[index] });
        }
        Tensor::build(self.dtype, self.shape.into(), data)
            .map_err(|fault| OipError::Tensor { input: self.name.into(), fault })
    }
}

fn boolean(text: &[u8], at: usize) -> Option<(u8, usize)> {
    let rest = text.get(at..)?;
    if rest.starts_with(b"true") {
        Some((1, at + 4))
    } else if rest.starts_with(b"false") {
        Some((0, at + 5))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(dtype: DType, shape: &[usize], text: &str) -> Result<Vec<u8>, String> {
        let mut scanner = Scanner::new(text.as_bytes());
        let head = Head { name: "x", dtype, shape };
        let data = read(&mut scanner, head).map_err(|error| error.to_string())?;
        scanner.end().map_err(|error| error.to_string())?;
        Ok(data.into())
    }

    #[test]
    fn flat_nested_and_bare_data_read_alike() {
        let expected = Ok(vec![1, 2, 3, 4]);

        assert_eq!(check(DType::U8, &[2, 2], "[1,2,3,4]"), expected);
        assert_eq!(check(DType::U8, &[2, 2], " [ [ 1 , 2 ] , [ 3 , 4 ] ] "), expected);
        assert_eq!(check(DType::U8, &[1, 2, 2], "[[[1,2],[3,4]]]"), expected);
        assert_eq!(check(DType::U8, &[], "7"), Ok(vec![7]));
        assert_eq!(check(DType::U8, &[1, 1], "[7]"), Ok(vec![7]));
        assert_eq!(check(DType::U8, &[2, 0], "[]"), Ok(vec![]));
        assert_eq!(check(DType::U8, &[2, 0], "[[],[]]"), Ok(vec![]));
    }

    #[test]
    fn data_of_another_shape_is_refused() {
        for text in [
            "[1,2,3]",
            "[1,2,3,4,5]",
            "[[1,2],[3]]",
            "[[1,2,3],[4]]",
            "[[1,2]]",
            "[[1,2],[3,4],[5,6]]",
            "[[[1,2],[3,4]]]",
            "1",
            "[]",
            "[1,[2,3,4]]",
        ] {
            let error = check(DType::U8, &[2, 2], text).unwrap_err();
            assert!(error.contains("`x`"), "{text}: {error}");
        }
        assert_eq!(
            check(DType::U8, &[2, 2], "[1,2,3]").unwrap_err(),
            "`data` of input `x` has too few elements in a list, where shape [2, 2] asks for 4"
        );
    }

    #[test]
    fn a_shape_beyond_the_text_is_refused_before_memory_is_taken() {
        let error = check(DType::F64, &[1 << 40], "[1]").unwrap_err();
        assert!(error.ends_with("asks for 1099511627776"), "{error}");
        let error = check(DType::F64, &[1 << 4, (1 << 60) + 2], "[1]").unwrap_err();
        assert!(error.ends_with("more elements than can be addressed"), "{error}");
    }

    #[test]
    fn an_element_that_its_type_cannot_hold_is_named() {
        let text = |dtype, text| check(dtype, &[2], text).unwrap_err();

        assert_eq!(
            text(DType::I8, "[1,300]"),
            "element 1 of input `x` is not INT8: 300 is out of range"
        );
        assert_eq!(
            text(DType::F32, "[1e39,0]"),
            "element 0 of input `x` is not FP32: 1e39 is out of range"
        );
        assert_eq!(
            text(DType::U8, "[1, 2.5]"),
            "element 1 of input `x` is not UINT8: a number with a fraction or an exponent was given where an integer is expected"
        );
        assert_eq!(
            text(DType::Bool, "[0,1]"),
            "element 0 of input `x` is not BOOL: a number was given where true or false is expected"
        );
        assert_eq!(
            text(DType::F32, "[1,null]"),
            "element 1 of input `x` is not FP32: null was given where a number is expected"
        );
        assert_eq!(
            text(DType::Bytes, "[\"a\", 1]"),
            "element 1 of input `x` is not BYTES: a number was given where a string is expected"
        );
        assert!(text(DType::U8, "[-1,1]").contains("-1 is out of range"));
        assert!(text(DType::F16, "[1,1]").contains("binary_data_size"));
        assert!(text(DType::U8, "[01,1]").contains("malformed"), "{}", text(DType::U8, "[01,1]"));
        assert!(text(DType::Bool, "[true false]").contains("malformed"));
        assert!(text(DType::U8, "[1 2]").contains("malformed"));
    }

    #[test]
    fn strings_become_length_prefixed_bytes() {
        let data = check(DType::Bytes, &[2], r#"["h\u00e9", ""]"#);

        assert_eq!(data, Ok(b"\x03\0\0\0h\xc3\xa9\0\0\0\0".to_vec()));
    }
}
