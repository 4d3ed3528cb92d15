//! What a 32 ms frame of voice detection costs on one core: the kernel of `paceline-audio` with
//! each set of instructions that the CPU has, beside ONNX Runtime and `rten` with the published
//! model, in one run.
//!
//! The engines run the same prepared tensors again and again; the kernel is given separate frames
//! and states, as the server has them, and gathers and scatters them itself. The machine's limit
//! is measured too: as many multiplications and additions in registers as it can do.
//!
//! `scripts/install-onnxruntime && cargo bench -p paceline-backend-onnx --bench vad`

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark prints and reads the clock"
)]

use std::{
    hint::black_box,
    num::NonZeroUsize,
    path::Path,
    time::{Duration, Instant},
};

use paceline_audio::silero::{Rate, Silero, StreamState};
use paceline_backend::{Backend, Call};
use paceline_backend_onnx::{Engine, OnnxBackend, OnnxOptions, StateLink};
use paceline_types::{DType, Tensor};

const BATCHES: [usize; 6] = [1, 2, 4, 8, 16, 64];
const ROUNDS: usize = 9;
const ROUND: Duration = Duration::from_millis(20);
/// What a frame takes in floating-point operations: as the model is published, and as the kernel
/// computes it, which folds the Fourier transform and leaves out taps that only meet zeros.
const OPERATIONS: [f64; 2] = [1.36e6, 0.93e6];

/// One frame for each of so many streams.
type Detect = Box<dyn FnMut()>;

fn main() {
    let kernels = Silero::every_kind(Rate::Hz16000);
    let mut names: Vec<String> =
        kernels.iter().map(|kernel| format!("paceline {}", kernel.instructions())).collect();
    let engines = [("ONNX Runtime", Engine::OnnxRuntime), ("rten", Engine::Rten)];
    names.extend(engines.map(|(name, _)| name.to_owned()));

    // By batch size, then by name: microseconds per frame, of each round.
    let mut table = Vec::new();
    for rows in BATCHES {
        let mut runs: Vec<Detect> = Silero::every_kind(Rate::Hz16000)
            .into_iter()
            .map(|kernel| ours(kernel, rows))
            .collect();
        runs.extend(engines.map(|(_, engine)| theirs(engine, rows)));
        let mut found = vec![Vec::new(); runs.len()];
        for _ in 0..ROUNDS {
            for (run, found) in runs.iter_mut().zip(&mut found) {
                found.push(micros_per_call(run) / rows as f64);
            }
        }
        for rounds in &mut found {
            rounds.sort_by(f64::total_cmp);
        }
        table.push(found);
    }

    println!("Microseconds per frame, median of {ROUNDS} rounds (best)\n");
    let n_columns = names.len();
    print!("| streams in a call |");
    for name in names {
        print!(" {name} |");
    }
    println!(" against ONNX Runtime | against rten |");
    println!("|{}", "---|".repeat(n_columns + 3));
    let median = |rounds: &Vec<f64>| rounds[ROUNDS / 2];
    for (rows, found) in BATCHES.iter().zip(&table) {
        print!("| {rows} |");
        for rounds in found {
            print!(" {:.1} ({:.1}) |", median(rounds), rounds[0]);
        }
        let ours = median(&found[0]);
        for theirs in &found[found.len() - 2..] {
            print!(" {:.1} x |", median(theirs) / ours);
        }
        println!();
    }
    let limit = flops_limit();
    println!("\nThe core does {:.0} GFLOP/s at most. Of that limit:\n", limit / 1e9);
    println!("| streams in a call | as published | as computed |");
    println!("|---|---|---|");
    for (rows, found) in BATCHES.iter().zip(&table) {
        print!("| {rows} |");
        for operations in OPERATIONS {
            print!(" {:.0} % |", operations / (median(&found[0]) * 1e-6) / limit * 100.0);
        }
        println!();
    }
    for (name, operations) in ["as published", "as computed"].iter().zip(OPERATIONS) {
        println!(
            "\n{:.2} MFLOP {name}: {:.1} us at the limit",
            operations / 1e6,
            operations / limit * 1e6
        );
    }
}

fn ours(mut kernel: Silero, rows: usize) -> Detect {
    let frames: Vec<_> = (0..rows).map(|row| sound(row, 512)).collect();
    let mut states = vec![StreamState::default(); rows];
    let mut probabilities = vec![0.0; rows];
    Box::new(move || {
        let frames: Vec<_> = frames.iter().map(|frame| &frame[..]).collect();
        let mut states: Vec<_> = states.iter_mut().collect();
        kernel.detect(&frames, &mut states, &mut probabilities);
        black_box(&mut probabilities);
    })
}

fn theirs(engine: Engine, rows: usize) -> Detect {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let rate = 16_000_i64.to_le_bytes().to_vec();
    let rate = Tensor::build(DType::I64, [].as_slice().into(), rate.into()).expect("a scalar");
    let mut backend = OnnxBackend::load(&OnnxOptions {
        engine,
        threads: NonZeroUsize::new(1),
        library_dirs: vec![here.join("../../.cache/onnxruntime")],
        states: vec![StateLink {
            input: "state".to_owned(),
            output: "stateN".to_owned(),
            batch_axis: 1,
        }],
        constants: vec![("sr".to_owned(), rate)],
        ..OnnxOptions::new(here.join("tests/models/silero-vad/model.onnx"))
    })
    .expect("the model loads; scripts/install-onnxruntime gets ONNX Runtime");
    let windows: Vec<f32> = (0..rows).flat_map(|row| sound(row, 576)).collect();
    let inputs = [
        Tensor::from_f32(&[rows, 576], &windows).expect("as many as there are"),
        Tensor::from_f32(&[2, rows, 128], &vec![0.0; 2 * rows * 128]).expect("as many"),
    ];
    Box::new(move || {
        black_box(backend.run(&Call { inputs: &inputs, rows }).expect("the model runs"));
    })
}

/// A tone with noise, a different one for each stream.
fn sound(stream: usize, n_samples: usize) -> Vec<f32> {
    let mut state = stream as u64;
    let sample = |at: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let noise = (state >> 40) as f32 / 16_777_216.0 - 0.5;
        0.2 * (at as f32 * 0.05 * (stream + 1) as f32).sin() + 0.1 * noise
    };
    (0..n_samples).map(sample).collect()
}

fn micros_per_call(run: &mut Detect) -> f64 {
    run();
    let began = Instant::now();
    let mut n_calls = 0;
    while began.elapsed() < ROUND {
        run();
        n_calls += 1;
    }
    began.elapsed().as_secs_f64() * 1e6 / f64::from(n_calls)
}

/// Floating-point operations a second, of the best of some rounds.
fn flops_limit() -> f64 {
    let round = || {
        let began = Instant::now();
        let n_operations = spin();
        n_operations as f64 / began.elapsed().as_secs_f64()
    };
    (0..10).map(|_| round()).fold(0.0, f64::max)
}

const STEPS: usize = 1_000_000;
/// Enough sums under way to keep every unit busy, and no more than there are registers.
const SUMS: usize = 12;

/// Multiplies and adds in registers; says how many operations that were.
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "the CPU is asked before its instructions are used")]
fn spin() -> usize {
    use std::arch::x86_64::{_mm256_fmadd_ps, _mm256_set1_ps, _mm512_fmadd_ps, _mm512_set1_ps};

    #[target_feature(enable = "avx512f")]
    fn avx512() {
        let (factor, term) = (_mm512_set1_ps(black_box(0.99)), _mm512_set1_ps(black_box(0.01)));
        let mut sums = [term; SUMS];
        for _ in 0..STEPS {
            for sum in &mut sums {
                *sum = _mm512_fmadd_ps(*sum, factor, term);
            }
        }
        black_box(sums);
    }

    #[target_feature(enable = "avx2,fma")]
    fn avx2() {
        let (factor, term) = (_mm256_set1_ps(black_box(0.99)), _mm256_set1_ps(black_box(0.01)));
        let mut sums = [term; SUMS];
        for _ in 0..STEPS {
            for sum in &mut sums {
                *sum = _mm256_fmadd_ps(*sum, factor, term);
            }
        }
        black_box(sums);
    }

    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the CPU has it.
        unsafe { avx512() };
        STEPS * SUMS * 16 * 2
    } else if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        // SAFETY: the CPU has both.
        unsafe { avx2() };
        STEPS * SUMS * 8 * 2
    } else {
        spin_four()
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn spin() -> usize {
    spin_four()
}

/// With vectors of four, which every CPU has that matters here.
fn spin_four() -> usize {
    let (factor, term) = (black_box(0.99_f32), black_box(0.01));
    let mut sums = [[term; 4]; SUMS];
    for _ in 0..STEPS {
        sums = sums.map(|sum| sum.map(|lane| lane * factor + term));
    }
    black_box(sums);
    STEPS * SUMS * 4 * 2
}
