//! Python and `PyTorch` models in supervised worker processes.
//!
//! Each instance of a model is a process of its own that runs the package in `python/`. Tensors
//! cross in shared memory: sealed anonymous files, made here and handed over by descriptor. What
//! goes through the socket are small messages of one size.
//!
//! The worker runs a stranger's code, so what it says is checked like any input from outside. No
//! part of its memory is ever borrowed here: a reply is copied out once, within bounds that the
//! worker cannot move, and only the copy is looked at. So nothing changes after it was checked, a
//! worker cannot make the server fault, and there is no `unsafe` in this crate.
//!
//! A `supervisor` owns each process: it starts it, watches it, ends it when a call
//! hangs, and starts it again. The executor's thread and the supervisor meet at a `desk`.

#![forbid(unsafe_code)]

mod aside;
mod backend;
mod declared;
mod desk;
mod frame;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod link;
mod logs;
mod message;
mod options;
mod package;
mod process;
mod restarts;
mod segment;
mod supervisor;

pub use backend::PythonBackend;
pub use options::PythonOptions;
