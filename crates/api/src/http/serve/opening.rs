//! A connection's first bytes, which tell the HTTP that is spoken on it.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _, ReadBuf};

/// What HTTP/2 begins with, and no request of HTTP/1.
const PREFACE: [u8; 24] = *b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// What has been read of a connection to know which HTTP it is, for whoever reads it next.
#[derive(Debug, Default)]
pub(super) struct Opening {
    bytes: [u8; PREFACE.len()],
    n_read: usize,
    n_taken: usize,
}

impl Opening {
    /// Reads until it is clear.
    pub(super) async fn of(socket: &mut (impl AsyncRead + Unpin)) -> io::Result<Self> {
        let mut opening = Self::default();
        while opening.n_read < PREFACE.len() && PREFACE.starts_with(opening.rest()) {
            let n_bytes = socket.read(&mut opening.bytes[opening.n_read..]).await?;
            if n_bytes == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            opening.n_read += n_bytes;
        }
        Ok(opening)
    }

    pub(super) fn is_http2(&self) -> bool {
        self.bytes == PREFACE
    }

    /// Moves as much as there is room for to who wants to read.
    pub(super) fn take(&mut self, buffer: &mut ReadBuf<'_>) {
        let rest = self.rest();
        let n_bytes = rest.len().min(buffer.remaining());
        buffer.put_slice(&rest[..n_bytes]);
        self.n_taken += n_bytes;
    }

    fn rest(&self) -> &[u8] {
        &self.bytes[self.n_taken..self.n_read]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio_test::io::Builder;

    use super::*;

    proptest! {
        #[test]
        fn in_whatever_pieces_it_comes_it_is_told_and_nothing_is_lost(
            is_http2: bool,
            n_same in 0..PREFACE.len(),
            piece in 1..30_usize,
            room in 1..30_usize,
        ) {
            // The same as the preface up to a point, or all of it.
            let mut said = PREFACE.to_vec();
            if !is_http2 {
                said[n_same] = b'x';
            }
            said.extend_from_slice(b"more");
            let mut socket = Builder::new();
            for piece in said.chunks(piece) {
                socket.read(piece);
            }
            let mut socket = socket.build();
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let mut heard = Vec::new();
            let opening = runtime.block_on(async {
                let mut opening = Opening::of(&mut socket).await.unwrap();
                let was_http2 = opening.is_http2();
                loop {
                    let mut bytes = vec![0; room];
                    let mut buffer = ReadBuf::new(&mut bytes);
                    opening.take(&mut buffer);
                    if buffer.filled().is_empty() {
                        break;
                    }
                    heard.extend_from_slice(buffer.filled());
                }
                socket.read_to_end(&mut heard).await.unwrap();
                was_http2
            });

            prop_assert_eq!(opening, is_http2);
            prop_assert_eq!(heard, said);
        }
    }
}
