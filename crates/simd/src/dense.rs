//! Dense layers: rows of numbers times a matrix that was packed for reading from end to end.
//!
//! The sum for one row and one column is taken in one order, from the bias through the inputs in
//! turn, whatever else is computed beside it. That is what makes results independent of the batch.

use crate::{LANES, Simd, Weight, weight::Numbers};

/// Most rows in a tile.
const TALLEST: usize = 8;

/// A matrix and its bias, packed in panels of columns: each of three vectors where that goes up
/// exactly, else as wide as suits the weights, and the last of what is left.
///
/// A weight `w` is stored as `q`, with `w = (q - zero) * scale`.
#[derive(Debug)]
pub struct Dense<W: Weight = f32> {
    n_inputs: usize,
    /// Vectors of outputs.
    n_vectors: usize,
    zero: f32,
    scale: f32,
    /// As multiples of the scale, so that sums begin with it and are scaled once, at their end.
    bias: Vec<Numbers>,
    /// Panel after panel; in a panel, input after input, the weights of its columns.
    panels: Vec<W::Line>,
}

impl Dense<f32> {
    /// Packs a matrix, given by its weight of an output and an input. Outputs are filled up with
    /// zeros to whole vectors.
    pub fn pack(
        n_inputs: usize,
        n_outputs: usize,
        bias: impl Fn(usize) -> f32,
        weight: impl Fn(usize, usize) -> f32,
    ) -> Self {
        Self::pack_scaled((n_inputs, n_outputs), (0.0, 1.0), bias, weight)
    }
}

impl Dense<u8> {
    /// Packs a matrix of bytes, as [`Dense::pack`] does, with its zero point and scale.
    pub fn pack_bytes(
        (n_inputs, n_outputs): (usize, usize),
        (zero, scale): (u8, f32),
        bias: impl Fn(usize) -> f32,
        weight: impl Fn(usize, usize) -> u8,
    ) -> Self {
        Self::pack_scaled((n_inputs, n_outputs), (f32::from(zero), scale), bias, weight)
    }

    /// The weights of an output.
    pub fn column(&self, output: usize) -> impl Iterator<Item = f32> {
        let (vector, lane) = (output / LANES, output % LANES);
        let first = vector - vector % panel_width::<u8>(self.n_vectors, 0);
        let width = panel_width::<u8>(self.n_vectors, first);
        let at = first * self.n_inputs + vector - first;
        let lines = self.panels[at..].iter().step_by(width).take(self.n_inputs);
        lines.map(move |line| (f32::from(u8::lane(line, lane)) - self.zero) * self.scale)
    }
}

impl<W: Weight> Dense<W> {
    fn pack_scaled(
        (n_inputs, n_outputs): (usize, usize),
        (zero, scale): (f32, f32),
        bias: impl Fn(usize) -> f32,
        weight: impl Fn(usize, usize) -> W,
    ) -> Self {
        let n_vectors = n_outputs.div_ceil(LANES);
        let outputs = |vector: usize| {
            std::array::from_fn(|lane| Some(vector * LANES + lane).filter(|at| *at < n_outputs))
        };
        let mut panels = Vec::with_capacity(n_inputs * n_vectors);
        let mut first = 0;
        while first < n_vectors {
            let width = panel_width::<W>(n_vectors, first);
            for input in 0..n_inputs {
                panels.extend((first..first + width).map(|vector| {
                    let outputs: [Option<usize>; LANES] = outputs(vector);
                    W::line(outputs.map(|at| at.map_or(W::default(), |at| weight(at, input))))
                }));
            }
            first += width;
        }
        let bias = |vector| outputs(vector).map(|at| at.map_or(0.0, |at| bias(at) / scale));
        let bias = (0..n_vectors).map(|vector| Numbers(bias(vector))).collect();
        Self { n_inputs, n_vectors, zero, scale, bias, panels }
    }

    /// Its panels, from the first column on.
    fn panels(&self) -> impl Iterator<Item = Panel<'_, W>> {
        let mut next = 0;
        std::iter::from_fn(move || {
            let first = next;
            let width =
                (first < self.n_vectors).then(|| panel_width::<W>(self.n_vectors, first))?;
            next += width;
            let lines = &self.panels[first * self.n_inputs..next * self.n_inputs];
            Some(Panel { lines, first, width })
        })
    }

    /// Numbers in a row that goes in.
    #[must_use]
    pub const fn n_inputs(&self) -> usize {
        self.n_inputs
    }

    /// Numbers in a row that comes out: whole vectors.
    #[must_use]
    pub const fn n_outputs(&self) -> usize {
        self.n_vectors * LANES
    }
}

/// How many vectors the panel has that begins with this one.
fn panel_width<W: Weight>(n_vectors: usize, first: usize) -> usize {
    if n_vectors.is_multiple_of(3) { 3 } else { W::WIDEST.min(n_vectors - first) }
}

/// Where the rows of a layer lie: each stream has some, evenly spaced.
#[derive(Debug, Clone, Copy)]
pub struct Rows {
    /// Where the first row of the first stream is.
    pub first: usize,
    /// From a stream's first row to the next stream's.
    pub per_stream: usize,
    /// From one row of a stream to its next.
    pub per_time: usize,
}

impl Rows {
    /// One stream's, from the beginning.
    #[must_use]
    pub const fn every(per_time: usize) -> Self {
        Self { first: 0, per_stream: 0, per_time }
    }
}

/// What becomes of a layer's sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// They are the result.
    Keep,
    /// What is negative becomes zero.
    Relu,
    /// They are added to what is there.
    Add,
}

/// Room for a panel's weights as numbers.
#[derive(Debug, Default)]
pub struct Scratch(Vec<Numbers>);

/// One dense layer to be run for some rows.
#[derive(Debug)]
pub struct Job<'a, W: Weight = f32> {
    /// The layer.
    pub layer: &'a Dense<W>,
    /// How many streams.
    pub n_streams: usize,
    /// Rows of each stream.
    pub n_times: usize,
    /// What goes in.
    pub from: &'a [f32],
    /// Where it lies.
    pub from_rows: Rows,
    /// What comes out.
    pub to: &'a mut [f32],
    /// Where that goes.
    pub to_rows: Rows,
    /// What becomes of it.
    pub then: Then,
}

impl Job<'_, f32> {
    /// Runs it panel by panel.
    #[inline(always)]
    pub(crate) fn run<S: Simd>(&mut self, simd: S) {
        let layer = self.layer;
        for panel in layer.panels() {
            self.run_panel(simd, &panel);
        }
    }
}

impl Job<'_, u8> {
    /// Runs it panel by panel. With many rows, a panel's weights become numbers once and not again
    /// for each tile.
    #[inline(always)]
    pub(crate) fn run_bytes<S: Simd>(&mut self, simd: S, Scratch(numbers): &mut Scratch) {
        let zero = simd.splat(self.layer.zero);
        let layer = self.layer;
        for panel in layer.panels() {
            if self.n_rows() <= TALLEST {
                self.run_panel(simd, &panel);
                continue;
            }
            numbers.resize(panel.lines.len(), Numbers([0.0; LANES]));
            for (line, to) in panel.lines.iter().zip(&mut *numbers) {
                simd.store(u8::load(simd, line, zero), &mut to.0);
            }
            let Panel { first, width, .. } = panel;
            self.run_panel::<S, f32>(simd, &Panel { lines: numbers, first, width });
        }
    }
}

impl<W: Weight> Job<'_, W> {
    fn place(&self, rows: Rows, row: usize) -> usize {
        let (stream, time) = (row / self.n_times, row % self.n_times);
        rows.first + stream * rows.per_stream + time * rows.per_time
    }

    fn n_rows(&self) -> usize {
        self.n_streams * self.n_times
    }

    #[inline(always)]
    fn run_panel<S: Simd, P: Weight>(&mut self, simd: S, panel: &Panel<'_, P>) {
        let n_rows = self.n_rows();
        let tallest = S::tallest(panel.width);
        let mut row = 0;
        while row < n_rows {
            // Tiles of about the same height, rather than a small one at the end.
            let n_left = n_rows - row;
            let height = n_left.div_ceil(n_left.div_ceil(tallest));
            let mut vector = 0;
            while vector < panel.width {
                let width = (S::SUMS / height).min(panel.width - vector);
                self.run_tile(simd, panel, (row, height), (vector, width));
                vector += width;
            }
            row += height;
        }
    }

    #[inline(always)]
    fn run_tile<S: Simd, P: Weight>(
        &mut self,
        simd: S,
        panel: &Panel<'_, P>,
        (row, height): (usize, usize),
        (vector, width): (usize, usize),
    ) {
        macro_rules! tiles {
            ($(($m:literal, $n:literal))*) => {
                match (height, width) {
                    // Those for which there are no registers are never made.
                    $(($m, $n) if $m * $n <= S::SUMS => {
                        self.tile::<S, P, $m, $n>(simd, panel, row, vector);
                    })*
                    _ => unreachable!("a tile of {height} rows by {width} vectors"),
                }
            };
        }
        tiles! {
            (1, 1) (2, 1) (3, 1) (4, 1) (5, 1) (6, 1) (7, 1) (8, 1)
            (1, 2) (2, 2) (3, 2) (4, 2) (5, 2) (6, 2) (7, 2) (8, 2)
            (1, 3) (2, 3) (3, 3) (4, 3) (5, 3) (6, 3) (7, 3) (8, 3)
            (1, 4) (2, 4) (3, 4) (4, 4) (5, 4) (6, 4)
        }
    }

    /// `M` rows by `N` vectors of a panel.
    #[inline(always)]
    fn tile<S: Simd, P: Weight, const M: usize, const N: usize>(
        &mut self,
        simd: S,
        panel: &Panel<'_, P>,
        row: usize,
        vector: usize,
    ) {
        let n_inputs = self.layer.n_inputs;
        let rows: [&[f32]; M] = std::array::from_fn(|m| {
            let at = self.place(self.from_rows, row + m);
            &self.from[at..at + n_inputs]
        });
        let column = panel.first + vector;
        let bias = &self.layer.bias[column..column + N];
        let bias: [S::Vector; N] = std::array::from_fn(|n| simd.load(&bias[n].0));
        let zero = simd.splat(self.layer.zero);
        let mut sums = [bias; M];
        for (input, weights) in (0..n_inputs).zip(panel.lines.chunks_exact(panel.width)) {
            // Not by a closure, which may stay a function of its own, without the instructions.
            let mut loaded = [zero; N];
            for (to, line) in loaded.iter_mut().zip(&weights[vector..vector + N]) {
                *to = P::load(simd, line, zero);
            }
            for m in 0..M {
                let value = simd.splat(rows[m][input]);
                for n in 0..N {
                    sums[m][n] = simd.mul_add(value, loaded[n], sums[m][n]);
                }
            }
        }
        let scale = simd.splat(self.layer.scale);
        let zero = simd.splat(0.0);
        for (m, sums) in sums.iter().enumerate() {
            let at = self.place(self.to_rows, row + m) + column * LANES;
            let to = &mut self.to[at..at + N * LANES];
            for (to, &sum) in to.as_chunks_mut().0.iter_mut().zip(sums) {
                let result = match self.then {
                    Then::Keep => simd.mul(sum, scale),
                    Then::Relu => simd.max(simd.mul(sum, scale), zero),
                    Then::Add => simd.mul_add(sum, scale, simd.load(to)),
                };
                simd.store(result, to);
            }
        }
    }
}

/// Some columns of a matrix.
struct Panel<'a, P: Weight> {
    lines: &'a [P::Line],
    /// Its first vector within the layer.
    first: usize,
    /// Its vectors.
    width: usize,
}
