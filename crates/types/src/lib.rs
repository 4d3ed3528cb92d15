//! The nouns that every Paceline crate shares. No runtime, no clock, no I/O, no wire format.
//!
//! # Glossary
//!
//! - [`Tensor`]: dtype, shape and bytes; the bytes are never copied on the way.
//! - [`Signature`]: what a model takes and gives.
//! - **Item**: what is batched: tensors with a key, a length, a priority and a deadline.
//! - **Key**: items with different keys never share a model call. A fingerprint of content.
//! - **Length bucket**: items of similar length share a call; short ones are padded.
//! - **Lane**: one stream's row in a stateful model.
//! - **Frame**: of sound, 32 ms of one stream, the unit of voice detection.
//! - **Utterance**: what somebody says from a start to an end, cut out of a stream.
//! - **Executor**: the one owner of a model instance.
//! - **Session**: one client's stream: its clock, its order, its limits.
//! - **Door**: a wire protocol. Wire types live in doors only.
//! - **Receipt**: says what became of one input; dropping it means "not delivered".
//! - **Ticket**: the answer to come for one submitted item.
//! - **Span**: what is told of one request or one call of a model in a trace ([`TraceContext`]).
//! - [`ErrorCode`]: what the outside is told; a small closed set.

mod code;
mod dtype;
#[cfg(feature = "serde")]
pub mod duration;
mod signature;
mod spare;
mod tensor;
mod trace;

pub use code::ErrorCode;
pub use dtype::{DType, UnknownDType};
pub use signature::{Dim, MismatchError, Signature, TensorSpec};
pub use spare::{Room, Spare};
pub use tensor::{Shape, Tensor, TensorError};
pub use trace::TraceContext;
