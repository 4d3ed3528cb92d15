//! Decoding as a user would meet it: real files of every container, whole, cut up, damaged, and made
//! to do harm.

#![allow(
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    reason = "samples are made here, of numbers that fit"
)]

mod bombs;
mod chunking;
mod defects;
mod fixtures;
mod flac;
mod matrix;
mod reference;
mod wav;
