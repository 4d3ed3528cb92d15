//! Who asks: whose share of a full queue a request counts to.

use std::net::IpAddr;

use axum::http::Extensions;
use paceline_batch::Key;

/// Tells clients apart: by the token that they showed, or by where they come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Client(u64);

impl Client {
    /// Whoever asks from this address.
    pub(crate) fn at(address: IpAddr) -> Self {
        Self(Key::of(&address).low64())
    }

    /// Whoever has this token, wherever they are. It must be one that is known: whoever makes
    /// tokens up would be as many clients as they like.
    pub(crate) fn with(token: &[u8]) -> Self {
        Self(Key::of(token).low64())
    }

    /// The one who sent a request, where that is known.
    pub(crate) fn of(request: &Extensions) -> Option<Self> {
        request.get().copied()
    }

    /// As the batcher is told.
    pub(crate) const fn number(self) -> u64 {
        self.0
    }
}
