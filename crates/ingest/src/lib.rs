//! Redis Streams as a door: frames of many cameras, batched through a model, results written back
//! in one atomic step with the acknowledgement.
//!
//! What a producer writes is in [`entry`]; how it becomes tensors in [`prepare`]; which keys there
//! are in [`shard`]; what may be dropped in [`policy`]; what can be set in [`config`].
//!
//! ```text
//! coordinator ── leases ──▶ worker: read ─▶ line ─▶ model ─▶ line ─▶ commit
//!   (one)                   (a few)         (fair,           (in order,
//!                                            bounded)         fenced, atomic)
//! ```
//!
//! Files that decide know no clock and no connection: `line` who goes next and in which order results
//! leave, `pace` when and how much to read, `rendezvous` whose a shard is, `backoff`, `credit`,
//! `ledger`. `coordinator` and `worker` wait.

mod asking;
mod backoff;
mod check;
mod commit;
mod common;
pub mod config;
mod control;
mod coordinator;
mod credit;
mod dead;
mod door;
pub mod entry;
mod fence;
pub mod ledger;
mod line;
mod link;
mod pace;
pub mod policy;
pub mod prepare;
mod push;
mod rendezvous;
pub mod roster;
mod sightings;
mod times;
mod topology;
pub mod totals;
mod unsettled;
mod worker;

pub use common::Health;
pub use config::{Config, ConfigError, Layout, Source};
pub use dead::DeadLetter;
pub use door::{Cameras, Door};
pub use entry::{Data, EntryError, EntryId, Form, Frame, Payload};
pub use ledger::{Counts, Reason};
pub use link::Fault;
pub use paceline_frames::{
    label::Label,
    shard::{self, ShardId, Shards},
};
pub use policy::{Keep, Policies, Policy, Rule};
pub use prepare::{Answer, Payloads, Prepared, Unfit};
pub use push::PushError;
pub use roster::Roster;
pub use totals::Totals;
