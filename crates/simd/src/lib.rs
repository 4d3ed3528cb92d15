//! Sixteen numbers at a time on whatever the CPU has, and dense layers over them.
//!
//! A network is written once, as a [`Kernel`] that is generic over [`Simd`]; [`Kind`] runs it with
//! the best instructions that the CPU has. Every kind of instructions does the same operations in
//! the same order for each lane, and [`Dense`] takes every sum in one order, so a row's results
//! are the same to the last bit whichever rows share its call.
//!
//! ```
//! use paceline_simd::{Kernel, Kind, LANES, Simd};
//!
//! struct Double<'a>(&'a mut [f32; LANES]);
//!
//! impl Kernel for Double<'_> {
//!     type Output = ();
//!
//!     fn run<S: Simd>(self, simd: S) {
//!         let numbers = simd.load(self.0);
//!         simd.store(simd.add(numbers, numbers), self.0);
//!     }
//! }
//!
//! let mut numbers = [1.5; LANES];
//! Kind::best().run(Double(&mut numbers));
//! assert_eq!(numbers, [3.0; LANES]);
//! ```

#[expect(clippy::inline_always, reason = "what is generic over SIMD must become one function")]
mod dense;
mod kind;
#[expect(clippy::inline_always, reason = "what is generic over SIMD must become one function")]
mod simd;
#[expect(clippy::inline_always, reason = "what is generic over SIMD must become one function")]
mod weight;
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "the CPU's own instructions")]
#[expect(clippy::inline_always, reason = "what is generic over SIMD must become one function")]
mod x86;

pub use dense::{Dense, Job, Rows, Scratch, Then};
pub use kind::Kind;
pub use simd::{Kernel, LANES, Simd};
pub use weight::Weight;

#[cfg(test)]
mod tests;
