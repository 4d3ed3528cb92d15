//! Who gets in and how long they may stay, asked of a whole server over real sockets.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that cannot go on has failed, and it supervises itself"
)]

mod browser;
mod http2;
mod listeners;
mod shares;
mod sockets;
mod support;
mod tls;
mod tokens;
