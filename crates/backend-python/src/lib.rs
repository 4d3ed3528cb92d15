//! Python and `PyTorch` models in supervised worker processes; tensors cross in shared memory.
//!
//! Nothing is here yet; ARCHITECTURE.md says what belongs here and what this crate may depend on.
