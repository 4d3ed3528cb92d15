//! Bytes from a WebSocket's client, with its close frame held back.
//!
//! The library answers a close frame as soon as it reads one, and says nothing after that. Whoever
//! closes in the middle of a sentence wants the rest of it first. So a close frame stays here, as
//! bytes, until everything is said.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The code of a close frame.
const CLOSE: u8 = 8;
/// Most that is kept of a close frame and what follows it. The protocol allows 131 bytes; what is a
/// little longer must come to the library whole, which then says what is wrong with it.
const MOST: usize = 1024;

/// A stream of frames whose close frame is held back until it is released.
#[derive(Debug)]
pub(super) struct Held<T> {
    stream: T,
    frames: Frames,
    /// The close frame, as far as it has come.
    close: Option<Vec<u8>>,
    is_released: bool,
}

impl<T> Held<T> {
    pub(super) const fn new(stream: T) -> Self {
        Self { stream, frames: Frames::new(), close: None, is_released: false }
    }

    /// Whether the client has closed.
    pub(super) const fn has_close(&self) -> bool {
        self.close.is_some()
    }

    /// Whether that is held back.
    pub(super) const fn is_holding(&self) -> bool {
        self.has_close() && !self.is_released
    }

    /// Holds nothing back any more.
    pub(super) const fn release(&mut self) {
        self.is_released = true;
    }
}

impl<T: AsyncRead + Unpin> Held<T> {
    /// Reads what follows a close frame: its own bytes are kept, others are nobody's. Ready when
    /// nothing more comes, so that whoever works for this client hears that it is gone.
    fn poll_behind(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut bytes = [0; 128];
            let mut behind = ReadBuf::new(&mut bytes);
            ready!(Pin::new(&mut self.stream).poll_read(context, &mut behind))?;
            if behind.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            keep(self.close.get_or_insert_default(), behind.filled());
        }
    }
}

/// Keeps what may belong to a close frame.
fn keep(close: &mut Vec<u8>, bytes: &[u8]) {
    let room = MOST - close.len();
    close.extend_from_slice(&bytes[..bytes.len().min(room)]);
}

impl<T: AsyncRead + Unpin> AsyncRead for Held<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.is_holding() {
            return this.poll_behind(context);
        }
        if let Some(close) = this.close.as_mut().filter(|close| !close.is_empty()) {
            let n_given = close.len().min(buffer.remaining());
            buffer.put_slice(&close[..n_given]);
            close.drain(..n_given);
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(context, buffer))?;
        if this.is_released {
            return Poll::Ready(Ok(()));
        }
        let Some(at) = this.frames.find_close(&buffer.filled()[before..]) else {
            return Poll::Ready(Ok(()));
        };
        keep(this.close.get_or_insert_default(), &buffer.filled()[before + at..]);
        buffer.set_filled(before + at);
        // Nothing read would mean that nothing more comes.
        if at == 0 { this.poll_behind(context) } else { Poll::Ready(Ok(())) }
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Held<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Where one is in a stream of frames. What is wrong with them is not judged here.
#[derive(Debug)]
struct Frames {
    /// What has come of the next frame's head.
    head: [u8; 10],
    n_head: usize,
    /// Bytes of this frame that are still to come.
    left: u64,
}

impl Frames {
    const fn new() -> Self {
        Self { head: [0; 10], n_head: 0, left: 0 }
    }

    /// Goes over bytes that have come, up to the first of a close frame: where in them that is.
    fn find_close(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        loop {
            let skipped = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len() - at);
            at += skipped;
            self.left -= skipped as u64;
            let byte = *bytes.get(at)?;
            if self.n_head == 0 && byte & 0x0F == CLOSE {
                return Some(at);
            }
            self.head[self.n_head] = byte;
            self.n_head += 1;
            at += 1;
            if let Some(left) = self.rest() {
                (self.left, self.n_head) = (left, 0);
            }
        }
    }

    /// How much follows this head, once it says so.
    fn rest(&self) -> Option<u64> {
        let second = *self.head[..self.n_head].get(1)?;
        let length = match (second & 0x7F, &self.head[2..self.n_head]) {
            (126, &[a, b]) => u64::from(u16::from_be_bytes([a, b])),
            (127, length) => u64::from_be_bytes(length.try_into().ok()?),
            (126, _) => return None,
            (short, _) => u64::from(short),
        };
        let mask = if second & 0x80 == 0 { 0 } else { 4 };
        Some(length.saturating_add(mask))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use proptest::prelude::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    /// A masked frame.
    fn frame(code: u8, length: usize) -> Vec<u8> {
        let mut frame = vec![0x80 | code];
        match length {
            0..126 => frame.push(0x80 | u8::try_from(length).unwrap()),
            126..65_536 => {
                frame.push(0xFE);
                frame.extend(u16::try_from(length).unwrap().to_be_bytes());
            }
            _ => {
                frame.push(0xFF);
                frame.extend((length as u64).to_be_bytes());
            }
        }
        frame.extend([0; 4]);
        // Bytes that would be a close frame, were they a frame.
        frame.extend(std::iter::repeat_n(0x88, length));
        frame
    }

    proptest! {
        /// However the bytes come and are asked for: what is before the close frame passes, then
        /// nothing, and once it is released the close frame.
        #[test]
        fn a_close_frame_is_held_back_until_it_is_released(
            lengths in prop::collection::vec(
                prop_oneof![0_usize..130, 65_530_usize..65_540], 0..5),
            reason in 0_usize..=125,
            sent in 1_usize..5000,
            asked in 1_usize..5000,
            room in 1_usize..5000,
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(async {
                let before: Vec<u8> =
                    lengths.iter().flat_map(|&length| frame(2, length)).collect();
                let close = frame(CLOSE, reason);
                let (mut client, server) = duplex(room);
                let mut held = Held::new(server);
                let bytes = [&before[..], &close, b"nobody's"].concat();
                let sending = tokio::spawn(async move {
                    for piece in bytes.chunks(sent) {
                        client.write_all(piece).await.unwrap();
                    }
                    client
                });
                let mut passed = Vec::new();
                let mut buffer = vec![0; asked];
                while passed.len() < before.len() {
                    let n_read = held.read(&mut buffer).await.unwrap();
                    assert_ne!(n_read, 0, "this is not the end");
                    passed.extend_from_slice(&buffer[..n_read]);
                }
                assert_eq!(passed, before);
                while !sending.is_finished() {
                    assert!(held.read(&mut buffer).now_or_never().is_none(), "nothing passes");
                    tokio::task::yield_now().await;
                }
                assert!(held.read(&mut buffer).now_or_never().is_none(), "nothing passes");
                assert!(held.is_holding());
                held.release();
                let mut last = vec![0; close.len()];
                held.read_exact(&mut last).await.unwrap();
                assert_eq!(last, close);
            });
        }
    }

    #[tokio::test]
    async fn whoever_leaves_behind_a_close_frame_is_noticed() {
        let (mut client, server) = duplex(1000);
        let mut held = Held::new(server);
        client.write_all(&frame(CLOSE, 2)).await.unwrap();
        let mut buffer = [0; 10];
        assert!(held.read(&mut buffer).now_or_never().is_none());

        drop(client);

        assert_eq!(held.read(&mut buffer).now_or_never().unwrap().unwrap(), 0);
    }
}
