//! The binary `paceline`.
fn main() {}
