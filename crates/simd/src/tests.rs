//! Dense layers against plain sums, in every kind of instructions, shape and batch.

use super::*;

/// Numbers from -1 to 1 that look like noise.
fn noise(n: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / 8_388_608.0 - 1.0
    };
    (0..n).map(|_| next()).collect()
}

/// A layer's rows, from rows that lie one after the other.
struct Layer<'a> {
    dense: Result<&'a Dense<u8>, &'a Dense>,
    from: &'a [f32],
    n_rows: usize,
    then: Then,
}

impl Kernel for Layer<'_> {
    type Output = Vec<f32>;

    fn run<S: Simd>(self, simd: S) -> Vec<f32> {
        let Self { dense, from, n_rows, then } = self;
        match dense {
            Ok(layer) => rows(layer, from, n_rows, then, |job| {
                simd.dense_bytes(job, &mut Scratch::default());
            }),
            Err(layer) => rows(layer, from, n_rows, then, |job| simd.dense(job)),
        }
    }
}

fn rows<W: Weight>(
    layer: &Dense<W>,
    from: &[f32],
    n_rows: usize,
    then: Then,
    run: impl Fn(&mut Job<'_, W>),
) -> Vec<f32> {
    let mut to = vec![0.5; n_rows * layer.n_outputs()];
    run(&mut Job {
        layer,
        n_streams: 1,
        n_times: n_rows,
        from,
        from_rows: Rows::every(layer.n_inputs()),
        to: &mut to,
        to_rows: Rows::every(layer.n_outputs()),
        then,
    });
    to
}

/// The same layer as bytes and as numbers.
fn layers(n_inputs: usize, n_outputs: usize) -> (Dense<u8>, Dense<f32>) {
    let (zero, scale) = (120, 0.01);
    let byte = |output: usize, input: usize| (output * 31 + input * 17 + output * input) as u8;
    let bias = |output: usize| output as f32 / 100.0 - 0.3;
    let bytes = Dense::pack_bytes((n_inputs, n_outputs), (zero, scale), bias, byte);
    let number = |output, input| (f32::from(byte(output, input)) - f32::from(zero)) * scale;
    (bytes, Dense::pack(n_inputs, n_outputs, bias, number))
}

const OUTPUTS: [usize; 6] = [5, 16, 48, 64, 100, 288];

#[test]
fn a_layer_is_its_sums() {
    for n_outputs in OUTPUTS {
        let (n_inputs, n_rows) = (37, 20);
        let (bytes, numbers) = layers(n_inputs, n_outputs);
        let from = noise(n_rows * n_inputs, 1);
        for kind in Kind::every() {
            for then in [Then::Keep, Then::Relu, Then::Add] {
                let (from, name) = (&from[..], kind.name());
                let run = |dense| kind.run(Layer { dense, from, n_rows, then });
                let (bytes, result) = (run(Ok(&bytes)), run(Err(&numbers)));
                for (row, from) in from.chunks(n_inputs).enumerate() {
                    for output in 0..n_outputs {
                        let weight = |input: usize| {
                            let byte = (output * 31 + input * 17 + output * input) as u8;
                            (f64::from(byte) - 120.0) * 0.01
                        };
                        let sum: f64 =
                            from.iter().enumerate().map(|(at, x)| f64::from(*x) * weight(at)).sum();
                        let sum = sum + output as f64 / 100.0 - 0.3;
                        let expected = match then {
                            Then::Keep => sum,
                            Then::Relu => sum.max(0.0),
                            Then::Add => sum + 0.5,
                        };
                        let at = row * numbers.n_outputs() + output;
                        for actual in [bytes[at], result[at]] {
                            let far = (f64::from(actual) - expected).abs();
                            assert!(far < 1e-4, "{name} {n_outputs} {row} {output}: {far}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn a_row_is_the_same_in_any_batch() {
    for n_outputs in OUTPUTS {
        let n_inputs = 40;
        let (bytes, _) = layers(n_inputs, n_outputs);
        let from = noise(40 * n_inputs, 2);
        for kind in Kind::every() {
            let run = |from: &[f32], n_rows| {
                kind.run(Layer { dense: Ok(&bytes), from, n_rows, then: Then::Keep })
            };
            let alone: Vec<f32> = from.chunks(n_inputs).flat_map(|row| run(row, 1)).collect();
            // With more than a few rows, bytes become numbers beforehand.
            for n_rows in 1..=40 {
                let expected = &alone[..n_rows * bytes.n_outputs()];
                let actual = run(&from[..n_rows * n_inputs], n_rows);
                assert_eq!(actual, expected, "{} {n_rows}", kind.name());
            }
        }
    }
}

#[test]
fn a_column_is_the_weights_of_an_output() {
    for n_outputs in OUTPUTS {
        let (bytes, _) = layers(7, n_outputs);
        for output in 0..n_outputs {
            let expected = (0..7).map(|input| {
                let byte = (output * 31 + input * 17 + output * input) as u8;
                (f32::from(byte) - 120.0) * 0.01
            });
            assert!(bytes.column(output).eq(expected), "{output} of {n_outputs}");
        }
    }
}

struct Halves([f32; LANES]);

impl Kernel for Halves {
    type Output = [f32; LANES];

    fn run<S: Simd>(mut self, simd: S) -> [f32; LANES] {
        let swapped = simd.swap_halves(simd.load(&self.0));
        simd.store(swapped, &mut self.0);
        self.0
    }
}

#[test]
fn halves_are_swapped() {
    let lanes = std::array::from_fn(|lane| lane as f32);
    let expected = std::array::from_fn(|lane| ((lane + 8) % 16) as f32);
    for kind in Kind::every() {
        assert_eq!(kind.run(Halves(lanes)), expected, "{}", kind.name());
    }
}
