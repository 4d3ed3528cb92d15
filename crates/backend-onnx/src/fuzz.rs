//! A way in for fuzz targets.

/// Checks a file's framing.
pub fn check(file: &[u8]) {
    // What is wrong with it is of no interest; that it is found without a panic is.
    let _ = crate::wire::check(file);
}
