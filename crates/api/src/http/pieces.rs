//! A response's body in pieces that are sent from where they lie.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use axum::body::Body;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};

use crate::oip::EncodedResponse;

/// Below this, copying costs less than sending a piece more.
const WORTH_A_PIECE: usize = 16 << 10;

/// A response's body: in pieces where its tensors are large, else in one.
pub(super) fn body(encoded: EncodedResponse) -> Body {
    if encoded.tensors.iter().map(Bytes::len).sum::<usize>() < WORTH_A_PIECE {
        return Body::from(encoded.into_body());
    }
    let n_bytes = encoded.tensors.iter().map(Bytes::len).sum::<usize>() + encoded.json.len();
    let pieces: Vec<Bytes> = std::iter::once(encoded.json).chain(encoded.tensors).collect();
    Body::new(Pieces { pieces: pieces.into_iter(), left: n_bytes })
}

struct Pieces {
    pieces: std::vec::IntoIter<Bytes>,
    /// Bytes in them.
    left: usize,
}

impl HttpBody for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = self.pieces.find(|piece| !piece.is_empty());
        self.left -= next.as_ref().map_or(0, Bytes::len);
        Poll::Ready(next.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt as _;

    #[tokio::test]
    async fn large_tensors_are_sent_from_where_they_lie() {
        let tensors = [vec![1; WORTH_A_PIECE], Vec::new(), vec![2; 10]].map(Bytes::from);
        let encoded = EncodedResponse {
            json: Bytes::from_static(b"{}"),
            tensors: tensors.to_vec(),
            header: Some(2),
        };
        let expected = encoded.clone().into_body();

        let mut body = body(encoded);

        assert_eq!(body.size_hint().exact(), Some(expected.len() as u64));
        let mut frames = Vec::new();
        while let Some(frame) = body.frame().await {
            frames.push(frame.unwrap().into_data().unwrap());
        }
        assert_eq!(frames[1].as_ptr(), tensors[0].as_ptr());
        assert_eq!(frames.concat(), expected);
        assert!(body.is_end_stream());
    }
}
