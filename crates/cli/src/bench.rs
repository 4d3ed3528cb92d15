//! `paceline bench`: measure, and print a table.

pub(crate) mod policy;
