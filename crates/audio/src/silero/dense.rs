//! Dense layers: rows of numbers times a matrix that was packed for reading from end to end.
//!
//! The sum for one row and one column is taken in one order, from the bias through the inputs in
//! turn, whatever else is computed beside it. That is what makes results independent of the batch.

use super::simd::{LANES, Simd};

/// Vectors in a wide panel.
const WIDE: usize = 4;

/// A matrix and its bias, packed in panels of columns: of four vectors, and of one for the rest.
#[derive(Debug)]
pub(super) struct Dense {
    n_inputs: usize,
    /// Vectors of outputs.
    n_vectors: usize,
    bias: Vec<f32>,
    /// Panel after panel; in a panel, input after input, the weights of its columns.
    panels: Vec<f32>,
}

impl Dense {
    /// Packs a matrix, given by its weight of an output and an input. Outputs are filled up with
    /// zeros to whole vectors.
    pub(super) fn pack(
        n_inputs: usize,
        n_outputs: usize,
        bias: impl Fn(usize) -> f32,
        weight: impl Fn(usize, usize) -> f32,
    ) -> Self {
        let n_vectors = n_outputs.div_ceil(LANES);
        let mut panels = Vec::with_capacity(n_inputs * n_vectors * LANES);
        let mut first = 0;
        while first < n_vectors {
            let width = panel_width(n_vectors - first);
            for input in 0..n_inputs {
                for output in first * LANES..(first + width) * LANES {
                    panels.push(if output < n_outputs { weight(output, input) } else { 0.0 });
                }
            }
            first += width;
        }
        let padded = 0..n_vectors * LANES;
        let bias = padded.map(|at| if at < n_outputs { bias(at) } else { 0.0 }).collect();
        Self { n_inputs, n_vectors, bias, panels }
    }
}

const fn panel_width(n_left: usize) -> usize {
    if WIDE <= n_left { WIDE } else { 1 }
}

/// Where the rows of a layer lie: each stream has some, evenly spaced.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rows {
    /// Where the first row of the first stream is.
    pub(super) first: usize,
    /// From a stream's first row to the next stream's.
    pub(super) per_stream: usize,
    /// From one row of a stream to its next.
    pub(super) per_time: usize,
}

/// One dense layer to be run for some rows.
#[derive(Debug)]
pub(super) struct Job<'a> {
    pub(super) layer: &'a Dense,
    pub(super) n_streams: usize,
    /// Rows of each stream.
    pub(super) n_times: usize,
    pub(super) from: &'a [f32],
    pub(super) from_rows: Rows,
    pub(super) to: &'a mut [f32],
    pub(super) to_rows: Rows,
    /// Whether what is negative becomes zero.
    pub(super) relu: bool,
}

impl Job<'_> {
    fn place(&self, rows: Rows, row: usize) -> usize {
        let (stream, time) = (row / self.n_times, row % self.n_times);
        rows.first + stream * rows.per_stream + time * rows.per_time
    }

    /// Runs it in tiles of up to `M` rows, at most six, by `N` vectors; of two rows by `N2`
    /// vectors and of one row by four, since few rows need more columns beside each other to have
    /// enough sums under way.
    #[inline(always)]
    pub(super) fn run<S: Simd, const M: usize, const N: usize, const N2: usize>(
        &mut self,
        simd: S,
    ) {
        let mut first = 0;
        let mut at = 0;
        while first < self.layer.n_vectors {
            let width = panel_width(self.layer.n_vectors - first);
            let len = self.layer.n_inputs * width * LANES;
            let panel = &self.layer.panels[at..at + len];
            self.run_panel::<S, M, N, N2>(simd, panel, first, width);
            first += width;
            at += len;
        }
    }

    #[inline(always)]
    fn run_panel<S: Simd, const M: usize, const N: usize, const N2: usize>(
        &mut self,
        simd: S,
        panel: &[f32],
        first: usize,
        width: usize,
    ) {
        let n_rows = self.n_streams * self.n_times;
        let mut row = 0;
        while row < n_rows {
            let n = (n_rows - row).min(M);
            let mut vector = 0;
            while vector < width {
                let tile = Tile { row, panel, width, vector, column: (first + vector) * LANES };
                vector += match (n, width) {
                    (1, WIDE) => self.tile::<S, 1, 4>(simd, &tile),
                    (2, WIDE) => self.tile::<S, 2, N2>(simd, &tile),
                    (1, _) => self.tile::<S, 1, 1>(simd, &tile),
                    (2, _) => self.tile::<S, 2, 1>(simd, &tile),
                    (n, WIDE) if n == M => self.tile::<S, M, N>(simd, &tile),
                    (3, WIDE) => self.tile::<S, 3, N>(simd, &tile),
                    (4, WIDE) => self.tile::<S, 4, N>(simd, &tile),
                    (5, WIDE) => self.tile::<S, 5, N>(simd, &tile),
                    (3, _) => self.tile::<S, 3, 1>(simd, &tile),
                    (4, _) => self.tile::<S, 4, 1>(simd, &tile),
                    (5, _) => self.tile::<S, 5, 1>(simd, &tile),
                    _ => self.tile::<S, M, 1>(simd, &tile),
                };
            }
            row += n;
        }
    }

    /// `M` rows by `N` vectors of a panel. Says how many vectors.
    #[inline(always)]
    fn tile<S: Simd, const M: usize, const N: usize>(&mut self, simd: S, tile: &Tile<'_>) -> usize {
        let n_inputs = self.layer.n_inputs;
        let rows: [&[f32]; M] = std::array::from_fn(|m| {
            let at = self.place(self.from_rows, tile.row + m);
            &self.from[at..at + n_inputs]
        });
        let bias = &self.layer.bias[tile.column..tile.column + N * LANES];
        let bias: [S::Vector; N] = std::array::from_fn(|n| simd.load(lanes(bias, n)));
        let mut sums = [bias; M];
        for (input, weights) in (0..n_inputs).zip(tile.panel.chunks_exact(tile.width * LANES)) {
            let weights = &weights[tile.vector * LANES..][..N * LANES];
            let weights: [S::Vector; N] = std::array::from_fn(|n| simd.load(lanes(weights, n)));
            for m in 0..M {
                let value = simd.splat(rows[m][input]);
                for n in 0..N {
                    sums[m][n] = simd.mul_add(value, weights[n], sums[m][n]);
                }
            }
        }
        let zero = simd.splat(0.0);
        for (m, sums) in sums.iter().enumerate() {
            let at = self.place(self.to_rows, tile.row + m) + tile.column;
            let to = &mut self.to[at..at + N * LANES];
            for (to, &sum) in to.as_chunks_mut().0.iter_mut().zip(sums) {
                simd.store(if self.relu { simd.max(sum, zero) } else { sum }, to);
            }
        }
        N
    }
}

/// Where a tile is.
struct Tile<'a> {
    row: usize,
    panel: &'a [f32],
    width: usize,
    /// The first vector within the panel.
    vector: usize,
    /// The first output.
    column: usize,
}

#[inline(always)]
fn lanes(numbers: &[f32], at: usize) -> &[f32; LANES] {
    &numbers.as_chunks().0[at]
}
