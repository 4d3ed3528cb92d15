//! What producers of camera frames and the server agree on, and a producer that keeps to it.
//!
//! [`shard`] says where a camera's frames go, [`handle`] how an entry names a frame that lies in
//! shared memory, [`ring`] how that memory is laid out, [`producer`] puts it together. Nothing here
//! knows a model or a server.

pub mod handle;
pub mod producer;
pub mod ring;
pub mod shard;

pub use handle::Handle;
pub use producer::{AddError, Format, NewFrame, Placement, Producer};
pub use ring::{Reader, Ring, RingError};
pub use shard::{ShardId, Shards};
