//! What Prometheus and a collector of traces are told by a whole server.

mod metrics;
mod spans;
mod support;
