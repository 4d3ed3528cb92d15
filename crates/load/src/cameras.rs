//! Simulated cameras: frames into Redis at a rate, and a judge of what comes out.
//!
//! ```text
//!  schedule ─▶ feed ─▶ Redis ─▶ the server ─▶ Redis ─▶ judge
//! ```
//!
//! Every frame is numbered and, where it is raw, carries a checksum of itself, so that the judge
//! sees what is lost, doubled, out of order or somebody else's. `seed` reads as an older system did,
//! for comparison.

mod feed;
mod judge;
mod payload;
mod schedule;
mod seed;
mod server;

pub use feed::{Fed, Feed, FeedError, now_ms};
pub use judge::{Judge, Seen};
pub use payload::{Kind, PayloadError, Payloads};
pub use schedule::Schedule;
pub use seed::{Reader, read_as_seed};
pub use server::RedisServer;
