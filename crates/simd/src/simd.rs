//! Sixteen numbers at a time, on whatever the CPU has.
//!
//! The network is written once over [`Simd`]; an implementation decides how sixteen lanes are held
//! and how rows and columns are tiled over registers. Every implementation does the same
//! operations in the same order for each lane, so which rows share a call never shows.

use crate::{Job, Scratch};

/// Lanes of a vector.
pub const LANES: usize = 16;

/// Something to compute, written once for every kind of instructions.
///
/// Its `run` and whatever that calls and is generic over [`Simd`] should be `#[inline(always)]`:
/// only what becomes part of one function may use the instructions.
pub trait Kernel {
    /// What comes out.
    type Output;

    /// Computes it.
    fn run<S: Simd>(self, simd: S) -> Self::Output;
}

/// Sixteen lanes and what is done with them.
pub trait Simd: Copy {
    /// Sixteen lanes.
    type Vector: Copy;

    /// How many vectors of sums may be under way at once and still be in registers.
    const SUMS: usize;
    /// How many rows of a dense layer are best computed beside each other, at most, in a panel of
    /// this many vectors.
    fn tallest(width: usize) -> usize;

    /// A whole computation, as one function that may use the instructions.
    fn run<K: Kernel>(self, kernel: K) -> K::Output;
    /// A dense layer, as one function.
    fn dense(self, job: &mut Job<'_>);
    /// A dense layer over bytes, as one function.
    fn dense_bytes(self, job: &mut Job<'_, u8>, scratch: &mut Scratch);

    /// A number in all lanes.
    fn splat(self, value: f32) -> Self::Vector;
    /// Numbers from memory.
    fn load(self, from: &[f32; LANES]) -> Self::Vector;
    /// Bytes from memory, as numbers from 0 to 255.
    fn load_bytes(self, from: &[u8; LANES]) -> Self::Vector;
    /// Numbers to memory.
    fn store(self, vector: Self::Vector, to: &mut [f32; LANES]);
    /// `a + b`
    fn add(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// `a - b`
    fn sub(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// `a * b`
    fn mul(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// `a / b`
    fn div(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// The greater of each; `b` where one is no number.
    fn max(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// The smaller of each; `b` where one is no number.
    fn min(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// The square root.
    fn sqrt(self, a: Self::Vector) -> Self::Vector;
    /// `a * b + c`
    fn mul_add(self, a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector;
    /// Two to the power of each lane, which must be a whole number from -126 to 127.
    fn pow2(self, a: Self::Vector) -> Self::Vector;

    /// The last eight lanes first.
    fn swap_halves(self, a: Self::Vector) -> Self::Vector;

    /// `1 / (1 + exp(-a))`
    #[inline(always)]
    fn sigmoid(self, a: Self::Vector) -> Self::Vector {
        let one = self.splat(1.0);
        let minus = self.mul(a, self.splat(-1.0));
        self.div(one, self.add(one, self.exp(minus)))
    }

    /// By the sigmoid: exact to one part in ten million of its range, which is what matters here.
    #[inline(always)]
    fn tanh(self, a: Self::Vector) -> Self::Vector {
        let twice = self.sigmoid(self.add(a, a));
        self.mul_add(twice, self.splat(2.0), self.splat(-1.0))
    }

    /// The exponential, to the last bits, of numbers that are cut to where it is normal.
    #[inline(always)]
    fn exp(self, a: Self::Vector) -> Self::Vector {
        /// Adding and subtracting it rounds to a whole number.
        const ROUND: f32 = 12_582_912.0;
        /// ln 2 in two parts, the first with so few bits that products with it are exact.
        const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
        /// Of the least error for exp on [-ln 2 / 2, ln 2 / 2], highest power first.
        const POWERS: [f32; 6] =
            [1.987_569_2e-4, 1.398_2e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_6e-1, 0.5];
        let a = self.min(self.max(a, self.splat(-87.0)), self.splat(88.0));
        let shifted = self.mul_add(a, self.splat(std::f32::consts::LOG2_E), self.splat(ROUND));
        let whole = self.add(shifted, self.splat(-ROUND));
        let rest = self.mul_add(whole, self.splat(-LN_2[0]), a);
        let rest = self.mul_add(whole, self.splat(-LN_2[1]), rest);
        let mut sum = self.splat(POWERS[0]);
        for power in &POWERS[1..] {
            sum = self.mul_add(sum, rest, self.splat(*power));
        }
        let sum = self.mul_add(sum, self.mul(rest, rest), self.add(rest, self.splat(1.0)));
        self.mul(sum, self.pow2(whole))
    }

    /// `a` times the part of a normal distribution that is below it: by a rational approximation
    /// of the error function that is off by 1.5e-7 at most.
    #[inline(always)]
    fn gelu(self, a: Self::Vector) -> Self::Vector {
        /// By Abramowitz and Stegun, 7.1.26; highest power first.
        const POWERS: [f32; 5] = [1.061_405_4, -1.453_152, 1.421_413_7, -0.284_496_74, 0.254_829_6];
        const STRETCH: f32 = 0.327_591_1;
        let one = self.splat(1.0);
        let size = self.max(a, self.mul(a, self.splat(-1.0)));
        let x = self.mul(size, self.splat(std::f32::consts::FRAC_1_SQRT_2));
        let t = self.div(one, self.mul_add(x, self.splat(STRETCH), one));
        let mut sum = self.splat(POWERS[0]);
        for power in &POWERS[1..] {
            sum = self.mul_add(sum, t, self.splat(*power));
        }
        let square = self.mul(x, self.mul(x, self.splat(-1.0)));
        let rest = self.mul(self.mul(sum, t), self.exp(square));
        // The product with the error function is the same for both signs.
        let even = self.mul(size, self.sub(one, rest));
        self.mul(self.splat(0.5), self.add(a, even))
    }
}

/// What any CPU has; the compiler makes vectors of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Portable;

#[inline(always)]
fn map2(a: [f32; LANES], b: [f32; LANES], combine: impl Fn(f32, f32) -> f32) -> [f32; LANES] {
    std::array::from_fn(|at| combine(a[at], b[at]))
}

impl Simd for Portable {
    type Vector = [f32; LANES];

    const SUMS: usize = 4;

    fn tallest(_: usize) -> usize {
        4
    }

    fn run<K: Kernel>(self, kernel: K) -> K::Output {
        kernel.run(self)
    }

    fn dense(self, job: &mut Job<'_>) {
        job.run(self);
    }

    fn dense_bytes(self, job: &mut Job<'_, u8>, scratch: &mut Scratch) {
        job.run_bytes(self, scratch);
    }

    #[inline(always)]
    fn splat(self, value: f32) -> [f32; LANES] {
        [value; LANES]
    }

    #[inline(always)]
    fn load(self, from: &[f32; LANES]) -> [f32; LANES] {
        *from
    }

    #[inline(always)]
    fn load_bytes(self, from: &[u8; LANES]) -> [f32; LANES] {
        from.map(f32::from)
    }

    #[inline(always)]
    fn store(self, vector: [f32; LANES], to: &mut [f32; LANES]) {
        *to = vector;
    }

    #[inline(always)]
    fn add(self, a: [f32; LANES], b: [f32; LANES]) -> [f32; LANES] {
        map2(a, b, |a, b| a + b)
    }

    #[inline(always)]
    fn sub(self, a: [f32; LANES], b: [f32; LANES]) -> [f32; LANES] {
        map2(a, b, |a, b| a - b)
    }

    #[inline(always)]
    fn mul(self, a: [f32; LANES], b: [f32; LANES]) -> [f32; LANES] {
        map2(a, b, |a, b| a * b)
    }

    #[inline(always)]
    fn div(self, a: [f32; LANES], b: [f32; LANES]) -> [f32; LANES] {
        map2(a, b, |a, b| a / b)
    }

    #[inline(always)]
    fn max(self, a: [f32; LANES], b: [f32; LANES]) -> [f32; LANES] {
        map2(a, b, |a, b| if a > b { a } else { b })
    }

    #[inline(always)]
    fn min(self, a: [f32; LANES], b: [f32; LANES]) -> [f32; LANES] {
        map2(a, b, |a, b| if a < b { a } else { b })
    }

    #[inline(always)]
    fn sqrt(self, a: [f32; LANES]) -> [f32; LANES] {
        a.map(f32::sqrt)
    }

    #[inline(always)]
    fn mul_add(self, a: [f32; LANES], b: [f32; LANES], c: [f32; LANES]) -> [f32; LANES] {
        // Where it is no instruction, a fused operation is a slow function.
        let fuse = cfg!(any(target_arch = "aarch64", target_feature = "fma"));
        std::array::from_fn(
            |at| {
                if fuse { a[at].mul_add(b[at], c[at]) } else { a[at] * b[at] + c[at] }
            },
        )
    }

    #[inline(always)]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a whole number, and positive once it is an exponent"
    )]
    fn pow2(self, a: [f32; LANES]) -> [f32; LANES] {
        a.map(|whole| f32::from_bits(((whole as i32 + 127) as u32) << 23))
    }

    #[inline(always)]
    fn swap_halves(self, a: [f32; LANES]) -> [f32; LANES] {
        std::array::from_fn(|at| a[(at + LANES / 2) % LANES])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_sigmoid_and_tanh_are_those_of_the_library() {
        for at in -9000_i16..9000 {
            let x = f32::from(at) / 100.0;
            let [exp, sigmoid, tanh] = [
                Portable.exp([x; LANES])[0],
                Portable.sigmoid([x; LANES])[0],
                Portable.tanh([x; LANES])[0],
            ];
            let expected = f64::from(x.clamp(-87.0, 88.0)).exp();
            assert!((f64::from(exp) / expected - 1.0).abs() < 3e-7, "exp {x}: {exp} {expected}");
            let expected = 1.0 / (1.0 + f64::from(-x).exp());
            assert!((f64::from(sigmoid) - expected).abs() < 2e-7, "sigmoid {x}");
            assert!((f64::from(tanh) - f64::from(x).tanh()).abs() < 3e-7, "tanh {x}");
        }
    }
}
