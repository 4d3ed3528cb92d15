//! Whether a file is framed as an ONNX model must be, checked before anything reads it.
//!
//! The parser that rten brings trusts lengths: a number of ten bytes that goes on, or a length
//! below zero, makes it read for ever, and a length beyond the end is allocated before it is found
//! missing. So the frames are walked first: every number ends, every length stays inside the
//! message around it, and messages nest only so deep. Nothing is interpreted here but one thing: how
//! many tensors say that they are in another file, also where rten's parser does not look.

/// What is wrong with a file's framing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WireError {
    #[error("a number at byte {0} does not end")]
    Number(usize),
    #[error("a field at byte {0} is longer than what is around it")]
    Length(usize),
    #[error("a field at byte {0} is of no kind that ONNX has")]
    Kind(usize),
    #[error("graphs are nested more than {MAX_DEPTH} deep")]
    Depth,
}

/// Protobuf's own limit. A graph inside a node inside a graph takes three.
const MAX_DEPTH: usize = 100;

/// The messages of an ONNX file that hold others, as far as they are read.
#[derive(Debug, Clone, Copy)]
enum Message {
    Model,
    Graph,
    Node,
    Attribute,
    Tensor,
    SparseTensor,
    Training,
    Function,
    ValueInfo,
    Type,
    TensorType,
    Sequence,
    Shape,
    /// Numbers and text only.
    Flat,
}

/// What the bytes of a field are.
enum Content {
    Message(Message),
    Numbers,
    Opaque,
}

impl Message {
    /// By the field numbers of the ONNX schema.
    fn content(self, field: u64) -> Content {
        let message = match (self, field) {
            (Self::Model, 7) | (Self::Attribute, 6 | 11) | (Self::Training, 1 | 2) => Self::Graph,
            (Self::Graph, 1) | (Self::Function, 7) => Self::Node,
            (Self::Node, 5) | (Self::Function, 11) => Self::Attribute,
            (Self::Graph | Self::Attribute, 5)
            | (Self::Attribute, 10)
            | (Self::SparseTensor, 1 | 2) => Self::Tensor,
            (Self::Graph, 15) | (Self::Attribute, 22 | 23) => Self::SparseTensor,
            (Self::Model, 20) => Self::Training,
            (Self::Model, 25) => Self::Function,
            (Self::Graph, 11..=13) => Self::ValueInfo,
            (Self::ValueInfo, 2) | (Self::Sequence, 1) => Self::Type,
            (Self::Type, 1) => Self::TensorType,
            (Self::Type, 4) => Self::Sequence,
            (Self::TensorType, 2) => Self::Shape,
            (Self::Shape, 1) | (Self::Model, 8 | 14) | (Self::Tensor, 13) => Self::Flat,
            (Self::Attribute, 8) | (Self::Tensor, 1 | 5 | 7) => return Content::Numbers,
            _ => return Content::Opaque,
        };
        Content::Message(message)
    }
}

/// A tensor's field that says where its data are, and what it says where that is another file.
const LOCATION: (u64, u64) = (14, 1);

/// Walks a whole file; says how many of its tensors are in another one.
pub(crate) fn check(file: &[u8]) -> Result<usize, WireError> {
    let mut n_outside = 0;
    walk(file, 0..file.len(), Message::Model, 0, &mut n_outside)?;
    Ok(n_outside)
}

fn walk(
    file: &[u8],
    span: std::ops::Range<usize>,
    message: Message,
    depth: usize,
    n_outside: &mut usize,
) -> Result<(), WireError> {
    if depth > MAX_DEPTH {
        return Err(WireError::Depth);
    }
    let (mut at, mut is_outside) = (span.start, false);
    while at < span.end {
        let start = at;
        let tag = number(file, &mut at, span.end)?;
        let length = match tag & 7 {
            0 => {
                let value = number(file, &mut at, span.end)?;
                let is_tensor = matches!(message, Message::Tensor);
                is_outside |= is_tensor && (tag >> 3, value) == LOCATION;
                continue;
            }
            1 => 8,
            5 => 4,
            2 => usize::try_from(number(file, &mut at, span.end)?)
                .map_err(|_| WireError::Length(start))?,
            _ => return Err(WireError::Kind(start)),
        };
        let end = at.checked_add(length).filter(|&end| end <= span.end);
        let end = end.ok_or(WireError::Length(start))?;
        if tag & 7 == 2 {
            match message.content(tag >> 3) {
                Content::Message(inner) => walk(file, at..end, inner, depth + 1, n_outside)?,
                Content::Numbers => {
                    while at < end {
                        number(file, &mut at, end)?;
                    }
                }
                Content::Opaque => {}
            }
        }
        at = end;
    }
    *n_outside += usize::from(is_outside);
    Ok(())
}

/// Reads a number of up to 64 bits in groups of seven, and moves behind it.
fn number(file: &[u8], at: &mut usize, end: usize) -> Result<u64, WireError> {
    let start = *at;
    let mut value = 0;
    for (shift, &byte) in (0..64).step_by(7).zip(&file[start..end]) {
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            *at = start + shift / 7 + 1;
            // Only one bit of a tenth byte is left.
            return if shift == 63 && byte > 1 { Err(WireError::Number(start)) } else { Ok(value) };
        }
    }
    Err(WireError::Number(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field that holds bytes.
    fn field(number: u8, content: &[u8]) -> Vec<u8> {
        let length = content.len();
        let length =
            [u8::try_from(length & 0x7f).unwrap() | 0x80, u8::try_from(length >> 7).unwrap()];
        [&[number << 3 | 2], &length[..], content].concat()
    }

    #[test]
    fn frames_that_close_are_accepted() {
        let dims = field(1, &[0x80, 0x01, 2]);
        let model = [&[0x08, 0x08][..], &field(7, &field(5, &dims))].concat();

        assert_eq!(check(&model), Ok(0));
        assert_eq!(check(&[]), Ok(0));
    }

    #[test]
    fn a_number_that_does_not_end_is_found_even_inside_packed_numbers() {
        assert_eq!(check(&[0xff; 64]), Err(WireError::Number(0)));
        assert_eq!(check(&[0x08, 0x80]), Err(WireError::Number(1)));
        let packed = field(7, &field(5, &field(7, &[0xff; 12])));
        assert_eq!(check(&packed), Err(WireError::Number(9)));
    }

    #[test]
    fn a_length_may_not_leave_the_message_around_it() {
        assert_eq!(check(b"\x3a\x7ftext"), Err(WireError::Length(0)));
        // Minus one, as a length.
        let negative = [&[0x3a][..], &[0xff; 9], &[1]].concat();
        assert_eq!(check(&negative), Err(WireError::Length(0)));
        let mut leaving = field(7, &field(1, b"node"));
        leaving[4] += 1;
        assert_eq!(check(&[leaving, vec![0x08, 0x08]].concat()), Err(WireError::Length(3)));
    }

    #[test]
    fn tensors_in_other_files_are_found_wherever_they_hide() {
        let outside = [0x70, 1];
        let long = |number: u8, content: &[u8]| {
            // Field numbers above 15 take two bytes.
            [&[(number << 3 | 2) | 0x80, number >> 4], &field(1, content)[1..]].concat()
        };
        let attribute = |attribute: &[u8]| field(7, &field(1, &field(5, attribute)));
        for hidden in [
            field(7, &field(5, &outside)),
            field(7, &field(15, &field(1, &outside))),
            attribute(&field(5, &outside)),
            attribute(&field(10, &outside)),
            attribute(&field(11, &field(5, &outside))),
            attribute(&long(22, &field(2, &outside))),
            long(20, &field(1, &field(5, &outside))),
            long(25, &field(7, &field(5, &field(5, &outside)))),
        ] {
            assert_eq!(check(&hidden), Ok(1), "{hidden:?}");
        }
        assert_eq!(check(&field(7, &field(5, &[0x70, 0]))), Ok(0));
    }

    #[test]
    fn graphs_inside_graphs_end_somewhere() {
        let mut graph = Vec::new();
        for _ in 0..60 {
            graph = field(1, &field(5, &field(6, &graph)));
        }

        assert_eq!(check(&field(7, &graph)), Err(WireError::Depth));
    }
}
