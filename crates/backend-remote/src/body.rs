//! A request's body whose parts are sent from where they lie.

use std::{
    collections::VecDeque,
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use paceline_backend::{Piece, Stacked};

/// What zeros are sent from.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// Parts that are sent one after the other.
#[derive(Debug, Default)]
pub(crate) struct Parts(VecDeque<Bytes>);

impl Parts {
    pub(crate) fn push(&mut self, part: Bytes) {
        if !part.is_empty() {
            self.0.push_back(part);
        }
    }

    /// Adds a tensor's bytes and says how many there are.
    pub(crate) fn push_tensor(&mut self, tensor: &Stacked) -> usize {
        let before = self.len();
        for piece in tensor.pieces() {
            match piece {
                Piece::Data(data) => self.push(data.clone()),
                Piece::Zeros(n_zeros) => {
                    for at in (0..*n_zeros).step_by(ZEROS.len()) {
                        self.push(Bytes::from_static(&ZEROS[..(n_zeros - at).min(ZEROS.len())]));
                    }
                }
            }
        }
        self.len() - before
    }

    /// Puts a part before all others.
    pub(crate) fn put_first(&mut self, part: Bytes) {
        self.0.push_front(part);
    }

    fn len(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }
}

impl Body for Parts {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(|part| Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.len() as u64)
    }
}
