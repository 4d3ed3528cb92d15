//! The door against a real redis-server. Each test starts its own and ends it.

mod basics;
mod cluster;
mod control;
mod doubles;
mod faults;
mod nodes;
mod payloads;
mod poison;
mod pressure;
mod proxy;
mod push;
mod recovery;
mod rig;
mod sentinel;
mod tls;
