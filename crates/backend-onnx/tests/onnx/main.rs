//! Real models on both engines, and files that are no models.

#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod agreement;
mod conformance;
mod graphs;
mod refusal;
mod speech;
mod support;
mod types;
