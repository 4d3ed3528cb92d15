//! Bodies of requests, whole.

use std::{convert::Infallible, pin::pin};

use axum::{
    body::{Bytes, HttpBody},
    extract::{FromRequest, Request},
};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use paceline_types::Spare;

use super::{ApiError, App};

/// Most memory for large bodies that waits to be used again.
const MAX_SPARE: usize = 64 << 20;

/// What bodies may be like, and where they are put.
#[derive(Debug, Clone)]
pub struct Bodies {
    /// Largest in bytes, of what it unpacks to, so a small bomb is no larger than a large body.
    pub max: usize,
    spare: Spare,
}

impl Bodies {
    /// Bodies of up to `max` bytes, which may take `memory` bytes together.
    #[must_use]
    pub fn new(max: usize, memory: usize) -> Self {
        Self { max, spare: Spare::new(MAX_SPARE.min(memory / 4)) }
    }

    /// A body. Each part but an only one is copied as it comes, while it is in the processor's
    /// caches, and its memory is there for the next.
    pub(super) async fn read<B>(&self, body: B) -> Result<Bytes, ApiError>
    where
        B: HttpBody<Data = Bytes>,
        B::Error: Into<axum::BoxError>,
    {
        let mut body = pin!(Limited::new(body, self.max));
        let (mut only, mut room) = (Bytes::new(), None);
        while let Some(frame) = body.frame().await {
            let data = match frame {
                Ok(frame) => frame.into_data().unwrap_or_default(),
                Err(error) if error.is::<LengthLimitError>() => return Err(ApiError::too_large()),
                Err(error) => return Err(ApiError::unread(&*error)),
            };
            if only.is_empty() && room.is_none() {
                only = data;
                continue;
            }
            let room = room.get_or_insert_with(|| {
                let first = std::mem::take(&mut only);
                let left = usize::try_from(body.size_hint().lower()).unwrap_or(self.max);
                let mut room = self.spare.room(first.len() + data.len() + left.min(self.max));
                room.push(&first);
                room
            });
            room.push(&data);
        }
        Ok(room.map_or(only, Bytes::from))
    }
}

/// A request's body, or why there is none.
pub(crate) struct Whole(pub(crate) Result<Bytes, ApiError>);

impl FromRequest<App> for Whole {
    type Rejection = Infallible;

    async fn from_request(request: Request, app: &App) -> Result<Self, Infallible> {
        Ok(Self(app.bodies.read(request.into_body()).await))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_body_is_the_same_in_any_number_of_parts() {
        let bodies = Bodies::new(4, 0);
        let read = |parts: &[&'static str]| {
            let parts = parts.iter().map(|part| Ok::<_, Infallible>(Bytes::from(*part)));
            let parts = futures_util::stream::iter(parts.collect::<Vec<_>>());
            bodies.read(axum::body::Body::from_stream(parts))
        };

        for parts in [&["body"][..], &["b", "ody"], &["", "bo", "", "d", "y", ""]] {
            assert_eq!(read(parts).await.unwrap(), "body");
        }
        assert_eq!(read(&[]).await.unwrap(), "");
        assert!(read(&["bo", "dy", "!"]).await.is_err());
    }
}
