//! What encoder and decoder share: matrices over rows that lie one after the other, and norms.

use paceline_simd::{Dense, Job, LANES, Rows, Scratch, Simd, Then};

use crate::shape::WIDTH;

/// What is added to a variance before it divides.
pub(crate) const EPSILON: f32 = 1e-5;

/// Rows times a matrix.
#[inline(always)]
pub(crate) fn multiply<S: Simd>(
    simd: S,
    layer: &Dense<u8>,
    from: &[f32],
    (to, then): (&mut [f32], Then),
    scratch: &mut Scratch,
) {
    let mut job = Job {
        layer,
        n_streams: 1,
        n_times: to.len() / layer.n_outputs(),
        from,
        from_rows: Rows::every(layer.n_inputs()),
        to_rows: Rows::every(layer.n_outputs()),
        to,
        then,
    };
    simd.dense_bytes(&mut job, scratch);
}

/// Each row with a mean of zero and a variance of one, times a weight for each column.
#[inline(always)]
pub(crate) fn norm<S: Simd>(simd: S, weights: &[f32], from: &[f32], to: &mut [f32]) {
    #[expect(clippy::cast_precision_loss, reason = "a small number")]
    const PART: f32 = 1.0 / WIDTH as f32;
    let (weights, _) = weights.as_chunks::<LANES>();
    for (from, to) in from.chunks_exact(WIDTH).zip(to.chunks_exact_mut(WIDTH)) {
        let ((from, _), (to, _)) = (from.as_chunks(), to.as_chunks_mut());
        let mut sum = simd.splat(0.0);
        for vector in from {
            sum = simd.add(sum, simd.load(vector));
        }
        let mean = simd.splat(total(simd, sum) * PART);
        let mut sum = simd.splat(0.0);
        for vector in from {
            let off = simd.sub(simd.load(vector), mean);
            sum = simd.mul_add(off, off, sum);
        }
        let scale = simd.splat(1.0 / (total(simd, sum) * PART + EPSILON).sqrt());
        for ((vector, to), weight) in from.iter().zip(to).zip(weights) {
            let off = simd.sub(simd.load(vector), mean);
            simd.store(simd.mul(simd.mul(off, scale), simd.load(weight)), to);
        }
    }
}

/// The sum of a vector's lanes.
#[inline(always)]
fn total<S: Simd>(simd: S, vector: S::Vector) -> f32 {
    let mut lanes = [0.0; LANES];
    simd.store(vector, &mut lanes);
    lanes.iter().sum()
}

/// Something done to every number.
#[inline(always)]
pub(crate) fn map<S: Simd>(simd: S, numbers: &mut [f32], of: impl Fn(S::Vector) -> S::Vector) {
    for vector in numbers.as_chunks_mut().0 {
        let result = of(simd.load(vector));
        simd.store(result, vector);
    }
}
