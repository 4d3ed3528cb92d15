//! Where an HTTP/1.1 answer ends. Pure: bytes in as they come, in any pieces.

use httparse::{EMPTY_HEADER, Status};

use crate::Fault;

/// Most header lines of an answer.
const MAX_HEADERS: usize = 64;

/// The head of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) status: u16,
    pub(crate) keeps_alive: bool,
    pub(crate) body: Body,
}

impl Head {
    /// Reads a head and how many bytes it took; nothing while it is not all there.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, Fault> {
        let mut headers = [EMPTY_HEADER; MAX_HEADERS];
        let mut answer = httparse::Response::new(&mut headers);
        let Status::Complete(length) = answer.parse(bytes).map_err(|_| Fault::Malformed)? else {
            return Ok(None);
        };
        let status = answer.code.unwrap_or(0);
        let mut keeps_alive = answer.version == Some(1);
        let mut body = Body::UntilClose;
        for header in answer.headers.iter() {
            let is = |name: &str| header.name.eq_ignore_ascii_case(name);
            if is("content-length") && !matches!(body, Body::Chunked(_)) {
                let text = str::from_utf8(header.value).ok();
                let left = text.and_then(|text| text.trim().parse().ok());
                body = Body::Length(left.ok_or(Fault::Malformed)?);
            } else if is("transfer-encoding") {
                body = Body::Chunked(Chunks::default());
            } else if is("connection") {
                keeps_alive = header.value.eq_ignore_ascii_case(b"keep-alive")
                    || keeps_alive && !header.value.eq_ignore_ascii_case(b"close");
            }
        }
        if matches!(status, 100..200 | 204 | 304) {
            body = Body::Length(0);
        }
        keeps_alive &= body != Body::UntilClose;
        Ok(Some((Self { status, keeps_alive, body }, length)))
    }
}

/// What is still to come of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Body {
    /// So many bytes.
    Length(u64),
    /// Chunks.
    Chunked(Chunks),
    /// Everything until the connection is closed.
    UntilClose,
}

impl Body {
    /// Takes the next bytes, and keeps those of the body for as long as there is room.
    pub(crate) fn take(&mut self, bytes: &[u8], kept: &mut Kept) -> Result<(), Fault> {
        match self {
            Self::Length(left) => {
                let length = bytes.len() as u64;
                // There was one request, so nothing follows its answer.
                *left = left.checked_sub(length).ok_or(Fault::Malformed)?;
                kept.keep(bytes);
                Ok(())
            }
            Self::Chunked(chunks) => chunks.take(bytes, kept),
            Self::UntilClose => {
                kept.keep(bytes);
                Ok(())
            }
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        match self {
            Self::Length(left) => *left == 0,
            Self::Chunked(chunks) => chunks.at == At::Done,
            Self::UntilClose => false,
        }
    }

    /// Whether the answer was whole if nothing more comes.
    pub(crate) fn may_end(&self) -> bool {
        self.is_done() || *self == Self::UntilClose
    }
}

/// The beginning of a body.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    pub(crate) bytes: Vec<u8>,
    pub(crate) limit: usize,
}

impl Kept {
    fn keep(&mut self, bytes: &[u8]) {
        let room = self.limit.saturating_sub(self.bytes.len());
        self.bytes.extend_from_slice(&bytes[..room.min(bytes.len())]);
    }
}

/// Where in a chunked body we are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Chunks {
    at: At,
    /// The size being read, or bytes of the chunk still to come.
    left: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum At {
    /// Before the first digit of a size.
    #[default]
    Begin,
    Size,
    /// Between the size and the end of its line.
    Extension,
    SizeLine,
    Data,
    DataReturn,
    DataLine,
    /// At the beginning of a trailer line, which is the last if it is empty.
    Trailer,
    InTrailer,
    LastLine,
    Done,
}

impl Chunks {
    fn take(&mut self, mut bytes: &[u8], kept: &mut Kept) -> Result<(), Fault> {
        while let [byte, rest @ ..] = bytes {
            if self.at == At::Data {
                let length = usize::try_from(self.left).map_or(bytes.len(), |n| n.min(bytes.len()));
                kept.keep(&bytes[..length]);
                self.left -= length as u64;
                bytes = &bytes[length..];
                if self.left == 0 {
                    self.at = At::DataReturn;
                }
                continue;
            }
            self.at = self.step(*byte)?;
            bytes = rest;
        }
        Ok(())
    }

    /// Where we are after one byte of framing.
    fn step(&mut self, byte: u8) -> Result<At, Fault> {
        Ok(match (self.at, byte) {
            (At::Begin | At::Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                let digit = char::from(byte).to_digit(16).unwrap_or(0);
                self.left = self.left.checked_mul(16).ok_or(Fault::Malformed)? + u64::from(digit);
                At::Size
            }
            (At::Size | At::Extension, b'\r') => At::SizeLine,
            (At::Size, b';' | b' ' | b'\t') => At::Extension,
            (At::Extension, _) if byte != b'\n' => At::Extension,
            (At::SizeLine, b'\n') if self.left == 0 => At::Trailer,
            (At::SizeLine, b'\n') => At::Data,
            (At::DataReturn, b'\r') => At::DataLine,
            (At::DataLine, b'\n') => At::Begin,
            (At::Trailer, b'\r') => At::LastLine,
            (At::InTrailer, b'\n') => At::Trailer,
            (At::Trailer | At::InTrailer, _) if byte != b'\n' => At::InTrailer,
            (At::LastLine, b'\n') => At::Done,
            _ => return Err(Fault::Malformed),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Feeds an answer in pieces; gives its status, body, and whether it was whole.
    fn read(answer: &[u8], piece: usize) -> Result<(u16, Vec<u8>, bool), Fault> {
        let mut kept = Kept { bytes: Vec::new(), limit: usize::MAX };
        let mut head: Option<Head> = None;
        let mut seen = Vec::new();
        for bytes in answer.chunks(piece) {
            if let Some(head) = &mut head {
                head.body.take(bytes, &mut kept)?;
                continue;
            }
            seen.extend_from_slice(bytes);
            if let Some((mut found, length)) = Head::parse(&seen)? {
                found.body.take(&seen[length..], &mut kept)?;
                head = Some(found);
            }
        }
        let head = head.ok_or(Fault::Closed)?;
        Ok((head.status, kept.bytes, head.body.is_done()))
    }

    proptest! {
        #[test]
        fn a_body_is_the_same_however_it_is_framed_and_cut(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..6),
            piece in 1_usize..64,
            trailer: bool,
        ) {
            let body: Vec<u8> = chunks.concat();
            let mut chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
            for chunk in &chunks {
                chunked.extend(format!("{:X};name=value\r\n", chunk.len()).bytes());
                chunked.extend(chunk);
                chunked.extend(b"\r\n");
            }
            chunked.extend(if trailer { &b"0\r\nA: b\r\n\r\n"[..] } else { b"0\r\n\r\n" });
            let mut sized =
                format!("HTTP/1.1 503 No\r\ncontent-length: {}\r\n\r\n", body.len()).into_bytes();
            sized.extend(&body);

            prop_assert_eq!(read(&chunked, piece), Ok((200, body.clone(), true)));
            prop_assert_eq!(read(&sized, piece), Ok((503, body, true)));
            prop_assert!(!matches!(read(&chunked[..chunked.len() - 1], piece), Ok((_, _, true))));
        }

        #[test]
        fn no_bytes_are_too_strange(bytes: Vec<u8>, piece in 1_usize..16) {
            let mut answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
            answer.extend(&bytes);
            drop(read(&answer, piece));
            drop(read(&bytes, piece));
        }
    }

    #[test]
    fn what_ends_a_connection_is_known() {
        let head = |text: &str| Head::parse(text.as_bytes()).unwrap().unwrap().0;

        assert!(head("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n").keeps_alive);
        assert!(
            !head("HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 3\r\n\r\n").keeps_alive
        );
        assert!(!head("HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\n").keeps_alive);
        assert!(!head("HTTP/1.1 200 OK\r\n\r\n").keeps_alive);
        assert!(head("HTTP/1.1 204 None\r\n\r\n").body.is_done());
        assert_eq!(Head::parse(b"SSH-2.0\r\n"), Err(Fault::Malformed));
        assert_eq!(
            Head::parse(b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"),
            Err(Fault::Malformed)
        );
        assert_eq!(
            read(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab", 99),
            Err(Fault::Malformed),
            "more than was announced"
        );
    }
}
