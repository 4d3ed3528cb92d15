//! Redis Streams as a door: shards, leases, batched reads, commit, dead letters.
//!
//! Nothing is here yet; ARCHITECTURE.md says what belongs here and what this crate may depend on.
