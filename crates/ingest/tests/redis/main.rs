//! The door against a real redis-server. Each test starts its own and ends it.

mod basics;
mod cluster;
mod faults;
mod measure;
mod nodes;
mod poison;
mod pressure;
mod proxy;
mod rig;
