//! What producers of camera frames and the server agree on, and a producer that keeps to it.
//!
//! [`shard`] says where a camera's frames go, [`label`] how an entry says which frame it is,
//! [`handle`] how it names one that lies in shared memory, [`ring`] how that memory is laid out,
//! [`address`] where Redis is and how it is spoken to, [`sentinel`] who knows where it is,
//! [`producer`] puts it together. Nothing here knows a model or a server.

pub mod address;
pub mod handle;
pub mod label;
pub mod producer;
pub mod ring;
pub mod sentinel;
pub mod shard;

pub use address::{Address, AddressError, TlsFiles};
pub use handle::Handle;
pub use label::{Label, NotALabel};
pub use producer::{AddError, Format, NewFrame, Placement, Producer};
pub use ring::{Reader, Ring, RingError};
pub use shard::{ShardId, Shards};
