//! What a dense layer's weights are stored as: numbers, or bytes that become numbers in registers.

use std::fmt::Debug;

use crate::{LANES, Simd};

/// Something that weights are stored as.
pub trait Weight: Copy + Default + Debug + 'static {
    /// As many of them as a vector has lanes, never across two cache lines.
    type Line: Copy + Debug;

    /// Most vectors in a panel. Narrow ones leave registers for more rows in a tile, which what
    /// must become numbers first gains from; wide ones suit few rows.
    const WIDEST: usize;

    /// A line of weights.
    fn line(weights: [Self; LANES]) -> Self::Line;
    /// A weight of a line.
    fn lane(line: &Self::Line, at: usize) -> Self;
    /// The weights as numbers, with the one that stands for zero taken away.
    fn load<S: Simd>(simd: S, line: &Self::Line, zero: S::Vector) -> S::Vector;
}

/// Sixteen numbers.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub struct Numbers(pub(crate) [f32; LANES]);

/// Sixteen bytes.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(16))]
pub struct Bytes([u8; LANES]);

impl Weight for f32 {
    type Line = Numbers;

    const WIDEST: usize = 4;

    fn line(weights: [Self; LANES]) -> Numbers {
        Numbers(weights)
    }

    fn lane(line: &Numbers, at: usize) -> Self {
        line.0[at]
    }

    /// They are what they are: zero is zero.
    #[inline(always)]
    fn load<S: Simd>(simd: S, line: &Numbers, _: S::Vector) -> S::Vector {
        simd.load(&line.0)
    }
}

impl Weight for u8 {
    type Line = Bytes;

    const WIDEST: usize = 3;

    fn line(weights: [Self; LANES]) -> Bytes {
        Bytes(weights)
    }

    fn lane(line: &Bytes, at: usize) -> Self {
        line.0[at]
    }

    #[inline(always)]
    fn load<S: Simd>(simd: S, line: &Bytes, zero: S::Vector) -> S::Vector {
        simd.sub(simd.load_bytes(&line.0), zero)
    }
}
