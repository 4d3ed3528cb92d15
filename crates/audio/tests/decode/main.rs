//! Decoding as a user would meet it: real files of every container, whole, cut up, damaged, and made
//! to do harm.

mod bombs;
mod chunking;
mod defects;
mod fixtures;
mod matrix;
mod reference;
mod wav;
