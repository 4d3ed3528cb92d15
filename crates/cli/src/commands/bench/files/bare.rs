//! The model with nothing around it: utterances through the recogniser on every core.

use std::{
    num::NonZeroUsize,
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
    thread::available_parallelism,
};

use anyhow::Context as _;
use paceline_asr::{Recogniser, Weights};
use tokio::time::Instant;

/// Utterances that a thread works on at once, as the server's instances do.
const AT_ONCE: usize = 16;
/// Bytes of a second of audio.
const SECOND: f64 = 32_000.0;

/// Seconds of audio in a second, with its utterances at these places.
pub(super) fn speed(
    model: &Path,
    audio: &[u8],
    utterances: &[(usize, usize)],
) -> anyhow::Result<f64> {
    let weights = Weights::load(model).context("run this where the models are")?;
    let samples = |(start, end): &(usize, usize)| -> Vec<f32> {
        let bytes = audio[*start..*end].as_chunks().0.iter();
        bytes.map(|two| f32::from(i16::from_le_bytes(*two)) / 32768.0).collect()
    };
    let utterances: Vec<Vec<f32>> = utterances.iter().map(samples).collect();
    let next = AtomicUsize::new(0);
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..available_parallelism().map_or(1, NonZeroUsize::get) {
            let mut recogniser = Recogniser::new(weights.clone());
            let (utterances, next) = (&utterances, &next);
            scope.spawn(move || {
                let (mut n_live, mut is_over) = (0, false);
                while !is_over || 0 < n_live {
                    while !is_over && n_live < AT_ONCE {
                        let at = next.fetch_add(1, Ordering::Relaxed);
                        let Some(samples) = utterances.get(at) else {
                            is_over = true;
                            break;
                        };
                        n_live += usize::from(recogniser.begin(at, samples.clone()).is_ok());
                    }
                    recogniser.step(|_, _| n_live -= 1);
                }
            });
        }
    });
    #[expect(clippy::cast_precision_loss, reason = "seconds of audio")]
    let seconds = audio.len() as f64 / SECOND;
    Ok(seconds / began.elapsed().as_secs_f64())
}
