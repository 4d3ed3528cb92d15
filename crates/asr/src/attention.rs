//! Attention: each query's mean of the values, weighted by how its key answers the query.
//!
//! Rows are in the order of [`column`](crate::shape::column): every vector has all heads in its
//! lanes, so all heads are computed at once, and maxima and sums over time need no shuffling. A
//! query's sums are taken in one order whichever queries are computed beside it.

use paceline_simd::{LANES, Simd};

use crate::shape::{VECTORS, WIDTH};

/// Where attention works: a vector for each query of a tile and each key.
#[derive(Debug, Default)]
pub(crate) struct Scores(Vec<[f32; LANES]>);

/// A vector of a row.
type Row = [[f32; LANES]; VECTORS];

/// For each query, the mean of the values. There are as many keys as values, and at least one.
#[inline(always)]
pub(crate) fn attend<S: Simd>(
    simd: S,
    queries: &[f32],
    (keys, values): (&[f32], &[f32]),
    scores: &mut Scores,
    to: &mut [f32],
) {
    /// Most queries in a tile.
    const QUERIES: usize = 4;
    let n_queries = queries.len() / WIDTH;
    let n_keys = keys.len() / WIDTH;
    if scores.0.len() < QUERIES * n_keys {
        scores.0.resize(QUERIES * n_keys, [0.0; LANES]);
    }
    let (queries, keys, values) = (rows(queries), rows(keys), rows(values));
    let to = to.as_chunks_mut().0.as_chunks_mut().0;
    let mut task = Task { simd, queries, keys, values, scores: &mut scores.0, to };
    let mut at = 0;
    if 24 <= S::SUMS {
        while at + QUERIES <= n_queries {
            task.tile::<QUERIES, 6, 6>(at);
            at += QUERIES;
        }
        for at in at..n_queries {
            task.tile::<1, 6, 6>(at);
        }
    } else {
        while at + 2 <= n_queries {
            task.tile::<2, 2, 2>(at);
            at += 2;
        }
        for at in at..n_queries {
            task.tile::<1, 4, 3>(at);
        }
    }
}

fn rows(numbers: &[f32]) -> &[Row] {
    numbers.as_chunks().0.as_chunks().0
}

struct Task<'a, S> {
    simd: S,
    queries: &'a [Row],
    keys: &'a [Row],
    values: &'a [Row],
    scores: &'a mut [[f32; LANES]],
    to: &'a mut [Row],
}

impl<S: Simd> Task<'_, S> {
    /// `Q` queries, by `K` keys at a time, then by `V` vectors of the values at a time.
    #[inline(always)]
    fn tile<const Q: usize, const K: usize, const V: usize>(&mut self, first: usize) {
        let simd = self.simd;
        let mut greatest = [simd.splat(f32::MIN); Q];
        let (many, rest) = self.keys.as_chunks::<K>();
        for (at, keys) in many.iter().enumerate() {
            self.score(first, keys, at * K, &mut greatest);
        }
        for (at, key) in rest.iter().enumerate() {
            self.score::<Q, 1>(first, &[*key], many.len() * K + at, &mut greatest);
        }

        let mut totals = [simd.splat(0.0); Q];
        for scores in self.scores.as_chunks_mut::<Q>().0.iter_mut().take(self.keys.len()) {
            for q in 0..Q {
                let weight = simd.exp(simd.sub(simd.load(&scores[q]), greatest[q]));
                totals[q] = simd.add(totals[q], weight);
                simd.store(weight, &mut scores[q]);
            }
        }

        let shares: [S::Vector; Q] = std::array::from_fn(|q| simd.div(simd.splat(1.0), totals[q]));
        for vector in (0..VECTORS).step_by(V) {
            let mut sums = [[simd.splat(0.0); V]; Q];
            for (weights, value) in self.scores.as_chunks::<Q>().0.iter().zip(self.values) {
                let weights: [S::Vector; Q] = std::array::from_fn(|q| simd.load(&weights[q]));
                let value = &value[vector..vector + V];
                for v in 0..V {
                    let value = simd.load(&value[v]);
                    for q in 0..Q {
                        sums[q][v] = simd.mul_add(weights[q], value, sums[q][v]);
                    }
                }
            }
            for q in 0..Q {
                let to = &mut self.to[first + q][vector..vector + V];
                for (to, sum) in to.iter_mut().zip(sums[q]) {
                    simd.store(simd.mul(sum, shares[q]), to);
                }
            }
        }
    }

    /// How some keys answer some queries, and the greatest of that so far.
    #[inline(always)]
    fn score<const Q: usize, const K: usize>(
        &mut self,
        first: usize,
        keys: &[Row; K],
        at: usize,
        greatest: &mut [S::Vector; Q],
    ) {
        let simd = self.simd;
        let queries = &self.queries[first..first + Q];
        let mut sums = [[simd.splat(0.0); K]; Q];
        for vector in 0..VECTORS {
            let queries: [S::Vector; Q] = std::array::from_fn(|q| simd.load(&queries[q][vector]));
            for k in 0..K {
                let key = simd.load(&keys[k][vector]);
                for q in 0..Q {
                    sums[q][k] = simd.mul_add(queries[q], key, sums[q][k]);
                }
            }
        }
        let scores = &mut self.scores[at * Q..(at + K) * Q];
        for k in 0..K {
            for q in 0..Q {
                let score = simd.add(sums[q][k], simd.swap_halves(sums[q][k]));
                greatest[q] = simd.max(greatest[q], score);
                simd.store(score, &mut scores[k * Q + q]);
            }
        }
    }
}
