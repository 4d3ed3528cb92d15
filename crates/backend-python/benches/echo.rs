//! What the process boundary costs: an echo through a worker, by size, beside one copy in process.
//!
//! `cargo bench -p paceline-backend-python --bench echo`; needs `scripts/install-python`.

use std::{hint::black_box, path::Path, time::Duration, time::Instant};

use bytes::Bytes;
use paceline_backend::{Backend as _, Call};
use paceline_backend_python::{PythonBackend, PythonOptions};
use paceline_types::{DType, Tensor};

const SIZES: [usize; 4] = [4 << 10, 600 << 10, 1 << 20, 1920 * 1080 * 3];

fn main() {
    // Cargo runs benches among its tests, too, to see that they build.
    let is_trial = !std::env::args().any(|argument| argument == "--bench");
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut options = PythonOptions::new("echo", "model:Echo", here.join("tests/models"));
    options.python = here.join("../../.cache/python/bin/python");
    options.env.insert("DTYPE".to_owned(), "UINT8".to_owned());
    println!(
        "{:>10} {:>8} {:>12} {:>12} {:>12}",
        "bytes", "class", "median us", "p99 us", "copy us"
    );
    for class in ["Echo", "InPlace"] {
        options.class = format!("model:{class}");
        let mut worker =
            PythonBackend::load(&options, 0).expect("a worker; see scripts/install-python");
        for size in SIZES {
            let data: Bytes = (0..size).map(|at| at as u8).collect();
            let input = Tensor::build(DType::U8, [1, size].as_slice().into(), data).expect("bytes");
            let inputs = [input];
            let call = Call { inputs: &inputs, rows: 1 };
            let answer = worker.run(&call).expect("an answer");
            assert_eq!(answer.tensors, inputs);
            let through = times(is_trial, || drop(black_box(worker.run(&call))));
            let copy =
                times(is_trial, || drop(black_box(Bytes::copy_from_slice(inputs[0].data()))));
            let [median, p99, copy] = [at(&through, 50), at(&through, 99), at(&copy, 50)]
                .map(|time| time.as_secs_f64() * 1e6);
            println!("{size:>10} {class:>8} {median:>12.1} {p99:>12.1} {copy:>12.1}");
        }
    }
}

/// How long each of many runs took, in rising order.
fn times(is_trial: bool, mut run: impl FnMut()) -> Vec<Duration> {
    let until = Instant::now() + Duration::from_millis(if is_trial { 0 } else { 1500 });
    let mut times = Vec::new();
    while times.is_empty() || Instant::now() < until {
        let began = Instant::now();
        run();
        times.push(began.elapsed());
    }
    times.sort_unstable();
    times
}

fn at(times: &[Duration], percent: usize) -> Duration {
    times[(times.len() - 1) * percent / 100]
}
