//! AVX-512 and AVX2: the only `unsafe` code of the crate.
//!
//! A token of either kind is proof that the CPU has those instructions: it is made by asking the
//! CPU and in no other way. That is what every `unsafe` block here rests on. Loads and stores go
//! through references to whole vectors, so no pointer is ever out of bounds.

use std::arch::x86_64::{
    __m256, __m512, _mm_loadu_si128, _mm_unpackhi_epi64, _mm256_add_epi32, _mm256_add_ps,
    _mm256_castsi256_ps, _mm256_cvtepi32_ps, _mm256_cvtepu8_epi32, _mm256_cvtps_epi32,
    _mm256_div_ps, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_max_ps, _mm256_min_ps, _mm256_mul_ps,
    _mm256_set1_epi32, _mm256_set1_ps, _mm256_slli_epi32, _mm256_sqrt_ps, _mm256_storeu_ps,
    _mm256_sub_ps, _mm512_add_epi32, _mm512_add_ps, _mm512_castsi512_ps, _mm512_cvtepi32_ps,
    _mm512_cvtepu8_epi32, _mm512_cvtps_epi32, _mm512_div_ps, _mm512_fmadd_ps, _mm512_loadu_ps,
    _mm512_max_ps, _mm512_min_ps, _mm512_mul_ps, _mm512_set1_epi32, _mm512_set1_ps,
    _mm512_shuffle_f32x4, _mm512_slli_epi32, _mm512_sqrt_ps, _mm512_storeu_ps, _mm512_sub_ps,
};

use crate::{Job, Kernel, LANES, Scratch, Simd};

/// What may be done because a token is there.
macro_rules! trusted {
    ($what:expr) => {
        // SAFETY: `self` is proof that the CPU has the instructions, and memory is reached through
        // references to sixteen numbers.
        unsafe { $what }
    };
}

/// Proof that the CPU has AVX-512 (its foundation).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Avx512(());

impl Avx512 {
    pub(crate) fn detect() -> Option<Self> {
        is_x86_feature_detected!("avx512f").then_some(Self(()))
    }
}

/// Proof that the CPU has AVX2 and FMA.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Avx2(());

impl Avx2 {
    pub(crate) fn detect() -> Option<Self> {
        let has_both = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        has_both.then_some(Self(()))
    }
}

#[target_feature(enable = "avx512f")]
fn run_avx512<K: Kernel>(simd: Avx512, kernel: K) -> K::Output {
    kernel.run(simd)
}

#[target_feature(enable = "avx512f")]
fn dense_avx512(simd: Avx512, job: &mut Job<'_>) {
    job.run(simd);
}

#[target_feature(enable = "avx512f")]
fn dense_bytes_avx512(simd: Avx512, job: &mut Job<'_, u8>, scratch: &mut Scratch) {
    job.run_bytes(simd, scratch);
}

#[target_feature(enable = "avx2,fma")]
fn run_avx2<K: Kernel>(simd: Avx2, kernel: K) -> K::Output {
    kernel.run(simd)
}

#[target_feature(enable = "avx2,fma")]
fn dense_avx2(simd: Avx2, job: &mut Job<'_>) {
    job.run(simd);
}

#[target_feature(enable = "avx2,fma")]
fn dense_bytes_avx2(simd: Avx2, job: &mut Job<'_, u8>, scratch: &mut Scratch) {
    job.run_bytes(simd, scratch);
}

impl Simd for Avx512 {
    type Vector = __m512;

    /// Of 32 registers.
    const SUMS: usize = 24;

    fn tallest(width: usize) -> usize {
        (Self::SUMS / width).min(8)
    }

    fn run<K: Kernel>(self, kernel: K) -> K::Output {
        trusted!(run_avx512(self, kernel))
    }

    fn dense(self, job: &mut Job<'_>) {
        trusted!(dense_avx512(self, job));
    }

    fn dense_bytes(self, job: &mut Job<'_, u8>, scratch: &mut Scratch) {
        trusted!(dense_bytes_avx512(self, job, scratch));
    }

    #[inline(always)]
    fn splat(self, value: f32) -> __m512 {
        trusted!(_mm512_set1_ps(value))
    }

    #[inline(always)]
    fn load(self, from: &[f32; LANES]) -> __m512 {
        trusted!(_mm512_loadu_ps(from.as_ptr()))
    }

    #[inline(always)]
    fn load_bytes(self, from: &[u8; LANES]) -> __m512 {
        trusted!({
            let bytes = _mm_loadu_si128(from.as_ptr().cast());
            _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes))
        })
    }

    #[inline(always)]
    fn store(self, vector: __m512, to: &mut [f32; LANES]) {
        trusted!(_mm512_storeu_ps(to.as_mut_ptr(), vector));
    }

    #[inline(always)]
    fn add(self, a: __m512, b: __m512) -> __m512 {
        trusted!(_mm512_add_ps(a, b))
    }

    #[inline(always)]
    fn sub(self, a: __m512, b: __m512) -> __m512 {
        trusted!(_mm512_sub_ps(a, b))
    }

    #[inline(always)]
    fn mul(self, a: __m512, b: __m512) -> __m512 {
        trusted!(_mm512_mul_ps(a, b))
    }

    #[inline(always)]
    fn div(self, a: __m512, b: __m512) -> __m512 {
        trusted!(_mm512_div_ps(a, b))
    }

    #[inline(always)]
    fn max(self, a: __m512, b: __m512) -> __m512 {
        trusted!(_mm512_max_ps(a, b))
    }

    #[inline(always)]
    fn min(self, a: __m512, b: __m512) -> __m512 {
        trusted!(_mm512_min_ps(a, b))
    }

    #[inline(always)]
    fn sqrt(self, a: __m512) -> __m512 {
        trusted!(_mm512_sqrt_ps(a))
    }

    #[inline(always)]
    fn mul_add(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        trusted!(_mm512_fmadd_ps(a, b, c))
    }

    #[inline(always)]
    fn pow2(self, a: __m512) -> __m512 {
        trusted!({
            let exponent = _mm512_add_epi32(_mm512_cvtps_epi32(a), _mm512_set1_epi32(127));
            _mm512_castsi512_ps(_mm512_slli_epi32::<23>(exponent))
        })
    }

    #[inline(always)]
    fn swap_halves(self, a: __m512) -> __m512 {
        trusted!(_mm512_shuffle_f32x4::<0b01_00_11_10>(a, a))
    }
}

/// Eight lanes, twice.
type Pair = [__m256; 2];

impl Simd for Avx2 {
    type Vector = Pair;

    /// Of 16 registers, two for each.
    const SUMS: usize = 6;

    fn tallest(_: usize) -> usize {
        Self::SUMS
    }

    fn run<K: Kernel>(self, kernel: K) -> K::Output {
        trusted!(run_avx2(self, kernel))
    }

    fn dense(self, job: &mut Job<'_>) {
        trusted!(dense_avx2(self, job));
    }

    fn dense_bytes(self, job: &mut Job<'_, u8>, scratch: &mut Scratch) {
        trusted!(dense_bytes_avx2(self, job, scratch));
    }

    #[inline(always)]
    fn splat(self, value: f32) -> Pair {
        trusted!([_mm256_set1_ps(value); 2])
    }

    #[inline(always)]
    fn load(self, from: &[f32; LANES]) -> Pair {
        let from = from.as_ptr();
        trusted!([_mm256_loadu_ps(from), _mm256_loadu_ps(from.add(8))])
    }

    #[inline(always)]
    fn load_bytes(self, from: &[u8; LANES]) -> Pair {
        trusted!({
            let low = _mm_loadu_si128(from.as_ptr().cast());
            let high = _mm_unpackhi_epi64(low, low);
            [
                _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(low)),
                _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(high)),
            ]
        })
    }

    #[inline(always)]
    fn store(self, [low, high]: Pair, to: &mut [f32; LANES]) {
        let to = to.as_mut_ptr();
        trusted!({
            _mm256_storeu_ps(to, low);
            _mm256_storeu_ps(to.add(8), high);
        });
    }

    #[inline(always)]
    fn add(self, a: Pair, b: Pair) -> Pair {
        trusted!([_mm256_add_ps(a[0], b[0]), _mm256_add_ps(a[1], b[1])])
    }

    #[inline(always)]
    fn sub(self, a: Pair, b: Pair) -> Pair {
        trusted!([_mm256_sub_ps(a[0], b[0]), _mm256_sub_ps(a[1], b[1])])
    }

    #[inline(always)]
    fn mul(self, a: Pair, b: Pair) -> Pair {
        trusted!([_mm256_mul_ps(a[0], b[0]), _mm256_mul_ps(a[1], b[1])])
    }

    #[inline(always)]
    fn div(self, a: Pair, b: Pair) -> Pair {
        trusted!([_mm256_div_ps(a[0], b[0]), _mm256_div_ps(a[1], b[1])])
    }

    #[inline(always)]
    fn max(self, a: Pair, b: Pair) -> Pair {
        trusted!([_mm256_max_ps(a[0], b[0]), _mm256_max_ps(a[1], b[1])])
    }

    #[inline(always)]
    fn min(self, a: Pair, b: Pair) -> Pair {
        trusted!([_mm256_min_ps(a[0], b[0]), _mm256_min_ps(a[1], b[1])])
    }

    #[inline(always)]
    fn sqrt(self, a: Pair) -> Pair {
        trusted!([_mm256_sqrt_ps(a[0]), _mm256_sqrt_ps(a[1])])
    }

    #[inline(always)]
    fn mul_add(self, a: Pair, b: Pair, c: Pair) -> Pair {
        trusted!([_mm256_fmadd_ps(a[0], b[0], c[0]), _mm256_fmadd_ps(a[1], b[1], c[1])])
    }

    #[inline(always)]
    fn pow2(self, a: Pair) -> Pair {
        trusted!({
            let bias = _mm256_set1_epi32(127);
            a.map(|a| {
                let exponent = _mm256_add_epi32(_mm256_cvtps_epi32(a), bias);
                _mm256_castsi256_ps(_mm256_slli_epi32::<23>(exponent))
            })
        })
    }

    #[inline(always)]
    fn swap_halves(self, [low, high]: Pair) -> Pair {
        [high, low]
    }
}
