//! What voice detection costs as a service: streams that each send a frame, wait for its
//! probability and send the next, on one shard. The difference to the kernel alone is the batcher,
//! the way to another thread and back, and a copy of the frame.
//!
//! `cargo bench -p paceline-pipeline --bench voice`

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark prints and reads the clock"
)]

use std::{
    num::NonZeroUsize,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use paceline_audio::silero::Rate;
use paceline_pipeline::{VoiceDetector, VoiceSettings};

const STREAMS: [usize; 5] = [1, 4, 16, 256, 2000];
const ROUND: Duration = Duration::from_millis(500);

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build();
    let runtime = runtime.expect("a runtime");
    println!("| streams | us per frame | frames in a call | real-time streams that is |");
    println!("|---|---|---|---|");
    for n_streams in STREAMS {
        let settings = VoiceSettings { shards: NonZeroUsize::new(1), ..VoiceSettings::default() };
        let detector = VoiceDetector::start(settings).expect("a thread");
        let began = Instant::now();
        let streams = (0..n_streams).map(|number| {
            let mut voice = detector.open(Rate::Hz16000);
            let frame: Vec<f32> = (0..512).map(|at| ((at * number) as f32).sin() * 0.2).collect();
            async move {
                let mut n_frames = 0_usize;
                while began.elapsed() < ROUND {
                    voice.detect(frame.clone()).await.expect("a probability");
                    n_frames += 1;
                }
                n_frames
            }
        });
        let streams: Vec<_> = streams.map(|stream| runtime.spawn(stream)).collect();
        let n_frames: usize =
            runtime.block_on(join_all(streams)).into_iter().map(|n| n.expect("no panic")).sum();
        let micros = began.elapsed().as_secs_f64() * 1e6 / n_frames as f64;
        let calls: u64 = detector.stats()[0].batches.iter().sum();
        println!(
            "| {n_streams} | {micros:.1} | {:.1} | {:.0} |",
            n_frames as f64 / calls as f64,
            32_000.0 / micros
        );
    }
}
