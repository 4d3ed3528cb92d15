//! Parts for tests that belong to no single crate. The tests in `tests/` keep the whole workspace
//! tidy: which crate may use which, and which files must stay free of clocks.

mod counting;

pub use counting::Counting;
