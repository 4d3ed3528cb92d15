//! What the server tells people of what it does and why, as JSON: counts, percentiles, beliefs, and
//! the last batches. Read when asked; nobody who serves waits for it.
//!
//! All times are microseconds, fractions included, unless a name says otherwise.

mod batch;
mod explain;
mod server;
mod stats;

use std::time::Duration;

pub use batch::BatchView;
pub use explain::{Explain, explain};
pub use server::{ServerView, SpeechView, server};
pub use stats::{ModelView, Percentiles, VersionView, model, version};

#[expect(clippy::cast_precision_loss, reason = "no duration here needs a sixteenth digit")]
fn micros(duration: Duration) -> f64 {
    duration.as_nanos() as f64 / 1e3
}
