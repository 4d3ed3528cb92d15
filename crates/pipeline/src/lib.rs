//! pipeline

pub mod adapt;
