//! Redis Streams as a door: frames of many cameras, batched through a model, results written back
//! in one atomic step with the acknowledgement.
//!
//! What a producer writes is in [`entry`]; how it becomes tensors in [`prepare`]; which keys there
//! are in [`shard`]; what may be dropped in [`policy`]; what can be set in [`config`].

pub mod config;
pub mod entry;
pub mod policy;
pub mod prepare;
pub mod shard;

pub use config::{Config, ConfigError, Layout};
pub use entry::{EntryError, EntryId, Frame, Payload};
pub use policy::{Keep, Policies, Policy};
pub use prepare::{Answer, Prepare, Prepared, RawTensors, Unfit};
pub use shard::{ShardId, Shards};
